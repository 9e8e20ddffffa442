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
            assert misprints(block, new) == [], f"{block.text}\n{new}"
            printed += new
    return printed


def misprints(block: Block, printed: str) -> list[str]:
    """Returns the lines that a page shows and a block did not print; numbers may be near."""
    found, skipping, tolerance = [], not block.shown, block.tolerance
    lines = [line for line in printed.splitlines() if line.strip()]
    for line in filter(str.strip, block.shown.splitlines()):
        if line.strip() == "...":
            skipping = True
            continue
        while skipping and lines and not _alike(line, lines[0], tolerance):
            lines.pop(0)
        skipping = False
        if not lines or not _alike(line, lines.pop(0), tolerance):
            found.append(line)
    return found if skipping else found + lines


def _alike(shown: str, printed: str, tolerance: float) -> bool:
    begins, dots, _ = shown.partition("...")
    return alike(begins, printed[: len(begins)] if dots else printed, tolerance)


if __name__ == "__main__":
    page = blocks_of(Path(sys.argv[1]).read_text())
    print(typed(Path.cwd(), [block for block in page if block.kind != "again"]))
