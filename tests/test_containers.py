"""The services of examples/deployment/compose.yaml, run by podman, do what their page says.

Keys, files and the client are typed as in `tests.test_three_hospitals`, by the same users.
"""

import subprocess
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.helpers.containers import Containers
from tests.helpers.hosts_apart import Hosts, needs_root
from tests.helpers.patience import PATIENCE, wait_until
from tests.helpers.roles import HOSPITALS, write_tables
from tests.test_three_hospitals import ABY3, CRYPTEN, Operators, prepared
from tests.tfe_ext.test_closed_ports import REACH, on

pytestmark = [pytest.mark.long, needs_root]
STEPS = "2.0\nsteps = 2\n"


class Site:
    """Hosts whose services are containers."""

    def __init__(self, hosts, folder, stack):
        self.hosts, self._stack = hosts, stack
        self.operators = Operators(hosts, folder)
        short = stack.enter_context(TemporaryDirectory(prefix="pea-"))  # as podman's sockets need
        self._containers = Containers(Path(short))
        if not self._containers.work():
            pytest.skip("needs a podman that runs containers")

    def start(self, service, host, **given):
        """Starts a host's service, which ends with the test."""
        folder = self.operators.folder / host
        space = self.hosts.space(host)
        process = self._containers.start(service, space, folder, NAME=host, **given)
        self._stack.callback(process.communicate)
        self._stack.callback(process.terminate)
        return process


@pytest.fixture
def site(tmp_path):
    with Hosts([*HOSPITALS, "laboratory"]) as hosts, ExitStack() as stack:
        site = Site(hosts, tmp_path, stack)
        write_tables(site.operators.folder)
        yield site


def test_parties_and_a_dealer_train_in_containers(site):
    prepared(site.operators, CRYPTEN, count_noise=STEPS)
    dealer = site.start("dealer", "laboratory")
    parties = [site.start("party", host, RANK=str(i)) for i, host in enumerate(HOSPITALS)]
    for rank, party in enumerate(parties):
        out, err = party.communicate(timeout=PATIENCE)
        assert party.returncode == 0, err
        assert "epsilon" in out
        assert (site.operators.folder / HOSPITALS[rank] / "shares" / f"party-{rank}.npz").exists()
    assert dealer.poll() is None


def test_players_train_in_containers_and_close_the_port_of_tensorflow(site):
    """Another host reaches the port of their links, and no other one."""
    prepared(site.operators, CRYPTEN)
    _, after, _ = prepared(site.operators, ABY3, count_noise=STEPS)
    players = [site.start("player", host, SERVER=f"server{i}") for i, host in enumerate(HOSPITALS)]
    for player in players:
        while " listens on port " not in (line := player.stdout.readline()):
            assert line, player.communicate()
    there = site.hosts.addresses["north"]
    for port, status in ((4440, 1), (7001, 0)):
        asked = on(site.hosts, "laboratory", "-c", REACH, there, str(port))
        assert subprocess.run(asked, check=False, capture_output=True).returncode == status, port
    (train,) = [step for step in after if "pea train" in step.text]
    site.operators.type(train)
    assert (site.operators.folder / "west" / "shares-2").is_dir()
    for player in players:
        player.terminate()
        wait_until(lambda player=player: player.poll() is not None, "its end")
