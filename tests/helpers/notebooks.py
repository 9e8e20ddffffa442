"""Tutorials as notebooks: run, compared with what their pages show, their figures drawn anew.

python -m tests.helpers.notebooks draw docs/tutorials/laptop.md
python -m tests.helpers.notebooks check laptop.ipynb docs/tutorials/laptop.md
"""

import re
import subprocess
import sys
import tempfile
from os import environ, pathsep
from pathlib import Path
from shutil import copyfile
from typing import NamedTuple

from tests.helpers.paths import ROOT

_NUMBER = re.compile(r"\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
_SECONDS = re.compile(rf"{_NUMBER.pattern} s\b|\bseconds +{_NUMBER.pattern}")
_SHOWN = re.compile(r"```text\n(.*?)```", re.DOTALL)
_FENCE = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_FIGURES = re.compile(r"\]\((\.\./images/[^)]+)\)")


class Cell(NamedTuple):
    """A block of a page: its program, what it printed, and what the page shows of that."""

    source: str
    printed: str
    shown: str | None


def cells_of(book: Path) -> list[Cell]:
    """Returns the blocks of a notebook that was run."""
    import nbformat

    cells = nbformat.read(book, as_version=4).cells
    texts = [_SHOWN.match(cell.source) for cell in [*cells[1:], cells[0]]]
    return [
        Cell(cell.source, _printed(cell.outputs), text[1] if text else None)
        for cell, text in zip(cells, texts, strict=True)
        if cell.cell_type == "code"
    ]


def _printed(outputs: "list[dict[str, str]]") -> str:
    return "".join(one["text"] for one in outputs if one.get("name") == "stdout")


def differences(cells: list[Cell]) -> list[str]:
    """Returns what was printed otherwise than shown."""
    return [
        f"{cell.source}\nprinted:\n{cell.printed}\nshown:\n{cell.shown}"
        for cell in cells
        if cell.shown is not None and not alike(cell.shown, cell.printed)
    ]


def alike(shown: str, printed: str, tolerance: float = 0.1) -> bool:
    """Whether two texts have the same words, and numbers within a relative tolerance.

    Noise moves accuracies by some points, and times may be any.
    """
    texts = [_SECONDS.sub("SECONDS", text) for text in (shown, printed)]
    words = [_NUMBER.sub("NUMBER", text).split() for text in texts]
    if words[0] != words[1]:
        return False
    numbers = [[float(one.replace(",", "")) for one in _NUMBER.findall(text)] for text in texts]
    return all(
        abs(one - other) <= tolerance * max(one, other) for one, other in zip(*numbers, strict=True)
    )


def typed_before(result: str, page: str) -> tuple[int, int]:
    """Returns the steps and lines that are typed before an output of a page has some words.

    A line in a shell is a step, and so is any other block.
    """
    steps = lines = 0
    for language, code in _FENCE.findall(page):
        if language == "text":
            if result in code:
                return steps, lines
            continue
        typed = [line for line in code.splitlines() if re.match(r"\s*[^#%\s]", line)]
        steps += len(typed) if language == "sh" else 1
        lines += len(typed)
    raise ValueError(f"no output of the page has {result!r}")


def check(book: Path, page: Path) -> int:
    """Returns 0 if a notebook printed what its page shows, and has all of its blocks."""
    cells = cells_of(book)
    print("\n".join(cell.printed for cell in cells))
    wrong = differences(cells)
    shown = sum(cell.shown is not None for cell in cells)
    if shown != page.read_text().count("```text\n"):
        wrong.append(f"{page} shows outputs that follow no block.")
    print("\n".join(wrong), file=sys.stderr)
    return len(wrong)


def draw(page: Path) -> int:
    """Runs a page in a folder that is left behind by nobody, and keeps its figures."""
    with tempfile.TemporaryDirectory() as name:
        folder, book = Path(name), Path(name) / f"{page.stem}.ipynb"
        path = f"{Path(sys.executable).parent}{pathsep}{environ['PATH']}"
        own = {"PATH": path, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": name}
        for command in (
            ["jupytext", "--quiet", "--to", "ipynb", "--output", book, page.resolve()],
            ["jupyter", "execute", "--inplace", book],
        ):
            subprocess.run(command, cwd=folder, env={**environ, **own}, check=True)
        for figure in _FIGURES.findall(page.read_text()):
            copyfile(folder / Path(figure).name, page.parent / figure)
        return check(book, page)


if __name__ == "__main__":
    _, name, *paths = sys.argv
    raise SystemExit({"draw": draw, "check": check}[name](*map(Path, paths)))
