"""Who types a page's commands, each in a folder and processes of its own, on this machine.

python -m tests.helpers.roles FOLDER  # types the first part of the tutorial of three hospitals
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.federations import listeners
from tests.helpers.pages import Block, blocks_of, prints_as_shown
from tests.helpers.paths import ROOT
from tests.helpers.patience import PATIENCE

HOSPITALS = ("north", "south", "west")
PAGE = (ROOT / "docs" / "tutorials" / "three_hospitals.md").read_text()


def write_tables(folder: Path) -> None:
    """Writes each hospital's table in its folder, as the tutorial's program does."""
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True)


class Roles:
    """Roles by name; addresses 10.77.0.N:7000 are ports of this machine.

    What a role exports stays, and so do the fingerprints that `pea keys` prints.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.folder, self._names, self._known = folder, names, dict[str, str]()
        self._exported = dict.fromkeys(names, "")
        for name in names:
            (folder / name).mkdir()
        with_ports = listeners(len(names))
        ports = [place.getsockname()[1] for place in with_ports]
        for place in with_ports:
            place.close()
        self._at = {f"10.77.0.{i + 1}:7000": f"127.0.0.1:{port}" for i, port in enumerate(ports)}

    def start(self, name: str, text: str) -> subprocess.Popen[str]:
        """Returns the shell that types a text in the role's folder."""
        for given, here in self._at.items():
            text = text.replace(given, here)
        before = self._exported[name]
        self._exported[name] += "".join(re.findall(r"^export .*\n", text, flags=re.MULTILINE))
        own = {"NAME": name, "RANK": str(self._names.index(name)), "PYTHONPATH": str(ROOT)}
        own |= {"XDG_STATE_HOME": str(self.folder / name / "state"), "COLUMNS": "80"}
        own["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return subprocess.Popen(
            ["bash", "-ec", before + text],
            cwd=self.folder / name,
            env={**os.environ, **own, **self._known},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def typed(self, block: Block) -> dict[str, str]:
        """Returns what each role is shown; all type at once. What the page shows is printed."""
        if block.kind == "file":
            for name in block.hosts:
                (self.folder / name / block.file).write_text(block.text)
            return {}
        shells = {name: self.start(name, block.text) for name in block.hosts}
        found = {}
        for name, shell in shells.items():
            out, err = shell.communicate(timeout=PATIENCE)
            assert shell.returncode == 0, f"{name}: {block.text}\n{out}\n{err}"
            for given, here in self._at.items():
                out = out.replace(here, given)
            assert prints_as_shown(block, out), f"{name}: {block.text}\n{out}"
            if "pea keys" in block.text:
                self._known[name.upper()] = out.split()[-1]
            found[name] = out + err
        return found

    @contextmanager
    def staying(self, block: Block) -> Iterator[None]:
        """What goes on at one role until the block's end."""
        shell = self.start(*block.hosts, block.text)
        try:
            yield
        finally:
            os.killpg(shell.pid, 15)
            shell.communicate(timeout=PATIENCE)

    def play(self, page: str) -> Iterator[dict[str, str]]:
        """Types a page, of which one block stays until the end; yields what roles are shown."""
        blocks = [block for block in blocks_of(page) if block.kind != "again"]
        place = next(i for i, block in enumerate(blocks) if block.kind == "stays")
        yield from map(self.typed, blocks[:place])
        with self.staying(blocks[place]):
            yield from map(self.typed, blocks[place + 1 :])


def main(folder: Path) -> None:
    """Types the tutorial of three hospitals up to ABY3, and prints what north is shown."""
    roles = Roles(folder, (*HOSPITALS, "laboratory"))
    write_tables(folder)
    for shown in roles.play(PAGE.partition("\n## The same with ABY3\n")[0]):
        print(*[shown[name] for name in ("north", "south") if name in shown][:1])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
