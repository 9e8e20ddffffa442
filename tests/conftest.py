"""What all tests may share: processes of the two hosts, started when a test first asks."""

import importlib.util
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.players import SERVERS, free_addresses, running_players, write
from tests.helpers.tfe_process import TFEProcess

if TYPE_CHECKING:
    from crypten_ext.processes.launch import Parties

TASK_TIMEOUT = 240.0


class Pools:
    """One pool of CrypTen parties a size, for the whole session.

    An error in a task ends its pool, as `Parties` promises; the next test gets a new one and sees
    nothing of it.
    """

    def __init__(self) -> None:
        self._open: dict[int, Parties] = {}

    def run(self, parties: int, task: str, **arguments: Any) -> list[Any]:
        """Returns what the task returned in each party, by rank."""
        try:
            return self._pool(parties).run(task, **arguments)
        except BaseException:
            self._close(parties)
            raise

    def _pool(self, parties: int) -> "Parties":
        from crypten_ext.processes.launch import Parties

        if parties not in self._open:
            pool = Parties(parties, timeout=TASK_TIMEOUT, env={"PYTHONWARNINGS": "error"})
            self._open[parties] = pool.__enter__()
        return self._open[parties]

    def _close(self, parties: int) -> None:
        if pool := self._open.pop(parties, None):
            pool.__exit__(*sys.exc_info())

    def close(self) -> None:
        """Ends all parties."""
        for parties in list(self._open):
            self._close(parties)


@pytest.fixture(scope="session")
def pools() -> Iterator[Pools]:
    """Pools of 2, 3 or more CrypTen processes: ``pools.run(3, "module:function", ...)``."""
    pools = Pools()
    yield pools
    pools.close()


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
def tfe_players(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TFEProcess]:
    """A process like that, whose three servers and one owner of data are processes as well."""
    _need_tensorflow()
    addresses = free_addresses([*SERVERS, "owner"])
    file = write(tmp_path_factory.mktemp("players") / "players.json", addresses)
    with running_players(file):
        process = TFEProcess(PLAYERS=str(file))
        yield process
        process.close()
