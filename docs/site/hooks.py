"""What the site has beside its pages: navigation, files that pages link to, and generated parts.

`docs/contents.md` is the navigation, and each page that it names is in it. A link to a file outside
`docs` works in a clone; the site has a copy of that file, so that it works there too.
A comment such as `<!-- commands -->` stands for a part that `generated` makes of the code.
"""

import re
import sys
from collections.abc import Iterator
from os.path import relpath
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
COPIES = "repository"
"""Where the site has files from outside `docs`."""
_SLOT = re.compile(r"^<!-- (commands|sentence|typed)(?:: (.+))? -->$", re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()([^)#\s]+)(?=[)#])")


def on_config(config: MkDocsConfig) -> None:
    """Reads the navigation: a tab for each heading, a section for each heading below it."""
    nav: list[dict[str, Any]] = [{"Home": "index.md"}]
    above = inner = nav
    for line in (DOCS / "contents.md").read_text().splitlines():
        if line.startswith("## "):
            above = inner = []
            nav.append({line[3:]: inner})
        elif line.startswith("### "):
            inner = []
            above.append({line[4:]: inner})
        elif found := re.fullmatch(r"- \[(.+)\]\((.+)\)", line):
            inner.append({found[1]: _place_in_site(DOCS / found[2])})
    config.nav = nav


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds the files outside `docs` that pages link to, and those that these link to."""
    pages = [Path(file.abs_src_path or "") for file in files.documentation_pages()]
    copied: set[Path] = set()
    while pages:
        page = pages.pop()
        for target in {*_linked(page)} - copied:
            copied.add(target)
            content = _listing(target) if target.is_dir() else target.read_bytes()
            files.append(
                File.generated(
                    config,
                    _place_in_site(target),
                    content=content,
                    inclusion=InclusionLevel.NOT_IN_NAV,
                )
            )
            if target.is_dir() or target.suffix == ".md":
                pages.append(target)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links to files outside `docs` into links to their copies, and back."""
    source = _place_in_clone(page.file.src_uri)

    def moved(link: re.Match[str]) -> str:
        target = (source.parent / link[0]).resolve()
        if not (target.exists() and target.is_relative_to(ROOT)):
            return link[0]
        return relpath(_place_in_site(target), Path(page.file.src_uri).parent)

    return _SLOT.sub(_generated, _LINK.sub(moved, markdown))


def _generated(slot: re.Match[str]) -> str:
    """Returns what stands where a page has a comment with a name of `generated`."""
    sys.path[:0] = {str(ROOT), str(Path(__file__).parent)} - {*sys.path}
    import generated  # which imports the packages

    made: str = getattr(generated, slot[1])(*filter(None, [slot[2]]))
    return made


def _linked(page: Path) -> Iterator[Path]:
    """Yields what a page, or the list of a folder, links to outside `docs`."""
    if page.is_dir():
        yield from (one.resolve() for one in page.iterdir() if one.name != "__pycache__")
        return
    for link in _LINK.findall(page.read_text()):
        target = (page.parent / link).resolve()
        inside = target.is_relative_to(ROOT) and not target.is_relative_to(DOCS)
        if inside and target.exists():
            yield target


def _listing(folder: Path) -> str:
    """Returns a page that lists a folder's files."""
    places = (_place_in_site(one) for one in sorted(folder.iterdir()) if one.name[0] != "_")
    here = Path(_place_in_site(folder)).parent
    names = (relpath(place, here) for place in places)
    lines = [f"- [{name.removesuffix('/index.md')}]({name})" for name in names]
    return "\n".join([f"# `{folder.relative_to(ROOT)}`", "", *lines, ""])


def _place_in_site(path: Path) -> str:
    """Returns where the site has a file of the clone."""
    path = path.resolve()
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return f"{COPIES}/{path.relative_to(ROOT).as_posix()}{'/index.md' if path.is_dir() else ''}"


def _place_in_clone(uri: str) -> Path:
    """Returns the file of the clone that a page of the site comes from."""
    if uri.startswith(f"{COPIES}/"):
        return ROOT / uri.removeprefix(f"{COPIES}/").removesuffix("/index.md")
    return DOCS / uri
