"""Examples that the docstrings of public names show: those of the pages of the API."""

import contextlib
import doctest
import inspect
import io
import pkgutil
import re
import tempfile

from tests.helpers.paths import ROOT

API = ROOT / "docs" / "reference" / "api"
SESSION = re.compile(r"^(?:crypten\.init|crypten_ext\.enable|crypten\.cfg|tfe\.set_).*\n", re.M)
"""Lines that begin a session, which a test's process has already."""
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def pages() -> dict[str, list[str]]:
    """Returns the public names of each page."""
    return {
        page.stem: re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)
        for page in sorted(API.glob("*.md"))
    }


def example(name: str) -> doctest.DocTest:
    """Returns what a name's docstring shows; empty if it shows nothing."""
    text = pkgutil.resolve_name(name).__doc__ or ""
    return doctest.DocTestParser().get_doctest(text, {}, name, None, 0)


def prose(page: str) -> str:
    """Returns what the docstrings of a page say, without headings, names and examples."""
    found = []
    for name in pages()[page]:
        text = inspect.cleandoc(pkgutil.resolve_name(name).__doc__ or "")
        text = re.sub(r"^\w+( \w+)?:$", "", text.partition("\nExamples:\n")[0], flags=re.MULTILINE)
        text = re.sub(r"^ {4}(?=\w+: )", "\n", text, flags=re.MULTILINE)
        found.append(re.sub(r"^ {4,8}", "", text, flags=re.MULTILINE).replace("None", "`None`"))
    return "\n\n".join(found)


def failures(page: str) -> str:
    """Runs all examples of a page, each after the page's first block; returns what went wrong."""
    first = re.search(r"```python\n(.*?)```", (API / f"{page}.md").read_text(), re.DOTALL)
    told = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name in pages()[page]:
            shown = example(name)
            exec(SESSION.sub("", first[1]) if first else "", shown.globs)
            doctest.DocTestRunner(optionflags=_OPTIONS).run(shown, out=told.write)
    return told.getvalue()
