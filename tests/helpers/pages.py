"""Pages of shell commands: where each block is typed, and what the page shows that it prints.

    python -m tests.helpers.pages docs/tutorials/first_table.md  # types a page in this folder

A comment above a block says at which hosts it is typed: ``<!-- at: north south -->``. With
``file: NAME`` the block is the text of that file, with ``stays`` it goes on until it is stopped,
with ``fails`` it ends with an error, and with ``again`` or ``together`` a test types it in its own
way. A block ``text`` right below is what it prints. There ``...`` stands for anything, and a
comment ``<!-- within 25 % -->`` between the two says how far noise moves the numbers.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.notebooks import alike
from tests.helpers.paths import ROOT
from tests.helpers.patience import PATIENCE

_BLOCK = re.compile(
    r"<!-- (?:file: (\S+) )?(stays |fails |again |together )?at: ([a-z ]+) -->\n```\w+\n(.*?)```"
    r"(?:\n+(?:<!-- within (\d+) % -->\n)?```text\n(.*?)```)?",
    flags=re.DOTALL,
)

_DIGEST = re.compile(r"\b[0-9a-f]{12,}\b")


@dataclass(frozen=True)
class Block:
    """A block of a page: what is typed, or the text of a file, and at which hosts."""

    kind: str
    hosts: tuple[str, ...]
    text: str
    file: str
    shown: str
    tolerance: float
    """How far a number of it may be off."""


def blocks_of(page: str) -> list[Block]:
    """Returns the blocks of a page, or of a part of it, in order."""
    return [
        Block(
            "file" if file else kind.strip() or "typed",
            tuple(at.split()),
            text,
            file,
            shown,
            int(percent or 10) / 100,
        )
        for file, kind, at, text, percent, shown in _BLOCK.findall(page)
    ]


def bash(folder: Path, text: str, *, fails: bool = False) -> str:
    """Returns all that a block printed, to both streams; it ends as it should."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "COLUMNS": "110", "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(folder)}
    result = subprocess.run(
        ["bash", "-ec", f"exec 2>&1\n{text}"],
        cwd=folder,
        env={**os.environ, **own},
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert bool(result.returncode) == fails, f"{text}\n{result.stdout[-2000:]}"
    return result.stdout


def typed(folder: Path, blocks: list[Block]) -> str:
    """Returns what blocks printed in a folder, which is what the page shows."""
    printed = ""
    for block in blocks:
        if block.kind == "file":
            (folder / block.file).write_text(block.text)
        else:
            new = bash(folder, block.text, fails=block.kind == "fails")
            assert prints_as_shown(block, new), f"{block.text}\n{new}"
            printed += new
    return printed


def prints_as_shown(block: Block, printed: str) -> bool:
    """Whether a block printed what its page shows, if that shows anything of it."""
    shown, lines = ([*filter(str.strip, text.splitlines())] for text in (block.shown, printed))
    return not shown or _matches(shown, lines, block.tolerance)


def _matches(shown: list[str], lines: list[str], tolerance: float) -> bool:
    if not shown:
        return not lines
    if shown[0].strip() == "...":
        rest = (lines[at:] for at in range(len(lines) + 1))
        return any(_matches(shown[1:], each, tolerance) for each in rest)
    is_first = bool(lines) and _alike(shown[0], lines[0], tolerance)
    return is_first and _matches(shown[1:], lines[1:], tolerance)


def _alike(shown: str, printed: str, tolerance: float) -> bool:
    begins, dots, _ = shown.partition("...")
    # A number may be printed longer or shorter than the page's.
    ends = range(len(printed) + 1) if dots else [len(printed)]
    one = _DIGEST.sub("DIGEST", begins)
    return any(alike(one, _DIGEST.sub("DIGEST", printed[:end]), tolerance) for end in ends)


if __name__ == "__main__":
    page = blocks_of(Path(sys.argv[1]).read_text())
    print(typed(Path.cwd(), [block for block in page if block.kind != "again"]))
