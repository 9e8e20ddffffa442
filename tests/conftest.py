"""What all tests may share: processes of the two hosts, started when a test first asks."""

import gc
import importlib.util
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from extensions.data.datasets.folders import VARIABLE
from extensions.transport.wire import Wire
from tests.helpers.patience import PATIENCE
from tests.helpers.players import (
    SERVERS,
    Players,
    digits,
    free_addresses,
    running_players,
    write,
)
from tests.helpers.templates import kept_templates
from tests.helpers.tfe_process import TFEProcess

if TYPE_CHECKING:
    from crypten_ext.processes.launch import Parties
    from extensions.runs.options import Transport

HERE = Path(__file__).parent
SHARED = {
    "tfe_process": "tensorflow",
    "tfe_players": "players",
    "pools": "crypten",
    "dealer_pool": "dealer",
}
"""Fixtures whose processes start once for the whole session: their tests stay on one worker."""
PARTS = {
    "core": (),
    "crypten": ("crypten", "dealer"),
    "aby3": ("tensorflow", "players"),
    "doors": (),
}
"""Parts of the tests, each with the groups of tests that belong to it wherever they are."""
FOLDERS = {
    "fl": "core",
    "crypten_ext": "crypten",
    "tfe_ext": "aby3",
    "doors": "doors",
    "first_hour": "doors",
}
"""Folders whose tests all belong to one part; what is neither here nor in such a group is core."""


def pytest_configure() -> None:
    """Takes interrupts as usual, also in a shell's background job, whose children ignore them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that `python -m tests.parts` gives to each process of pytest."""
    parser.addoption("--part", choices=PARTS, help="run the tests of this part only")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files without a test of the part: what they import takes most of a collection."""
    part = config.getoption("--part")
    return True if part and not _may_hold(collection_path, part) else None


@cache
def _may_hold(path: Path, part: str) -> bool:
    """Tells whether a file or folder may have tests of a part, by its place and its words."""
    first = path.relative_to(HERE).parts[:1]
    if path.is_dir() or part == "core" or not first or first[0] in FOLDERS:
        return not first or FOLDERS.get(first[0], part) == part
    words = [name for name, group in SHARED.items() if group in PARTS[part]]
    words += ["arena"] if words else []
    return path.suffix == ".py" and any(word in path.read_text() for word in words)


def _part_of(item: pytest.Item) -> str:
    folder = item.path.relative_to(HERE).parts[0]
    group = _group(item)
    return FOLDERS.get(folder) or next((p for p in PARTS if group in PARTS[p]), "core")


def pytest_collection_finish() -> None:
    """What was collected stays to the end: it is looked through neither before nor ever after."""
    gc.freeze()
    gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Groups a test for ``--dist loadgroup``, by what it shares or else by file."""
    if item.get_closest_marker("xdist_group") is None:
        names = getattr(item, "fixturenames", ())
        shared = (group for name, group in SHARED.items() if name in names)
        item.add_marker(pytest.mark.xdist_group(next(shared, item.nodeid.partition("::")[0])))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the largest groups first, so that they run beside each other, and what ends one last.

    Leaves out tests of other parts, of which none may be in a file that its own part leaves out.
    """
    if part := config.getoption("--part"):
        other = [item for item in items if _part_of(item) != part]
        lost = {item.nodeid for item in other if not _may_hold(item.path, _part_of(item))}
        if lost:
            raise pytest.UsageError(f"no part runs {sorted(lost)}")
        config.hook.pytest_deselected(items=other)
        items[:] = [item for item in items if _part_of(item) == part]
    first = list(dict.fromkeys(SHARED.values()))

    def place(item: pytest.Item) -> tuple[int, bool]:
        ends_all = item.get_closest_marker("ends_all") is not None
        return [*first, _group(item)].index(_group(item)), ends_all

    items.sort(key=place)


def _group(item: pytest.Item) -> str:
    (name,) = item.get_closest_marker("xdist_group").args
    return name


class Pools:
    """One pool of CrypTen parties a size and transport, for the whole session.

    An error in a task ends its pool, as `Parties` promises; the next test gets a new one and sees
    nothing of it.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[int, Transport], Parties] = {}

    def run(
        self, parties: int, task: str, *, over: "Transport" = "tls", **arguments: Any
    ) -> list[Any]:
        """Returns what the task returned in each party, by rank."""
        try:
            return self._pool(parties, over).run(task, **arguments)
        except BaseException:
            self._close(parties, over)
            raise

    def _pool(self, parties: int, over: "Transport") -> "Parties":
        from crypten_ext.processes.launch import Parties

        if (parties, over) not in self._open:
            env = {"PYTHONWARNINGS": "error"}
            pool = Parties(parties, timeout=PATIENCE, env=env, transport=over)
            self._open[parties, over] = pool.__enter__()
        return self._open[parties, over]

    def _close(self, parties: int, over: "Transport") -> None:
        if pool := self._open.pop((parties, over), None):
            pool.__exit__(*sys.exc_info())

    def close(self) -> None:
        """Ends all parties."""
        for parties, over in list(self._open):
            self._close(parties, over)


@pytest.fixture
def handshakes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """With whom handshakes of TLS began, one after another."""
    begun: list[str] = []
    secure = Wire.secure

    def counting(self: Wire, *arguments: Any, **options: Any) -> None:
        begun.append(self.who)
        secure(self, *arguments, **options)

    monkeypatch.setattr(Wire, "secure", counting)
    return begun


@pytest.fixture
def no_public_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No public data set is found where nobody says where it lies."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def pools() -> Iterator[Pools]:
    """Pools of 2, 3 or more CrypTen processes: ``pools.run(3, "module:function", ...)``."""
    pools = Pools()
    yield pools
    pools.close()


@pytest.fixture(scope="session", autouse=True)
def _templates() -> Iterator[None]:
    with kept_templates():
        yield


def _need_tensorflow() -> None:
    if not (importlib.util.find_spec("tensorflow") and importlib.util.find_spec("tf_encrypted")):
        pytest.skip("TensorFlow is not installed: type pip install -e '.[tfe]'")


@pytest.fixture(scope="session")
def tfe_process() -> Iterator[TFEProcess]:
    """A process with TF Encrypted: ``tfe_process.run("module:function", ...)``."""
    _need_tensorflow()
    process = TFEProcess()
    yield process
    process.close()


@pytest.fixture(scope="session")
def players(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Players]]:
    """Three servers and one owner of data in processes of their own, and the file that says so.

    The servers have a command and a file of their own, without the owner, who came later and has
    no compiled ChaCha20. Each server has digits.
    """
    _need_tensorflow()
    folder = tmp_path_factory.mktemp("players")
    addresses = free_addresses([*SERVERS, "owner"])
    file = write(folder / "players.json", addresses)
    servers = write(folder / "servers.json", {name: addresses[name] for name in SERVERS})
    records = digits(folder / "records")
    with (
        running_players(servers, "--records", records) as (command, pids),
        pytest.MonkeyPatch.context() as patch,
    ):
        for path in records.glob("*.npz"):  # each player has read its own: nobody else can
            path.unlink()
        patch.setenv("TFE_EXT_RANDOMNESS", "portable")
        with running_players(file, "--player", "owner") as (_, owner):
            patch.undo()
            yield file, (command, {**pids, **owner})


@pytest.fixture(scope="session")
def tfe_players(players: tuple[Path, Players]) -> Iterator[TFEProcess]:
    """A process with TF Encrypted whose session those players are."""
    process = TFEProcess(PLAYERS=str(players[0]))
    yield process
    process.close()
