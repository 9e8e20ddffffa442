"""Players and a training script, each on a host of its own, any of which can be lost."""

import os
import pickle
import queue
import signal
from contextlib import contextmanager
from itertools import combinations, product

from extensions.runs.processes import Process, Template
from tests.helpers import hosts_apart
from tests.helpers.hosts_apart import Hosts
from tests.helpers.patience import PATIENCE, wait_until
from tests.helpers.players import SERVERS, write

PLAYERS = (*SERVERS, "owner")
SCRIPT = "script"
STEPS = 20
HARMS = ("killed", "stopped", "cut off", "switched off")
LINKS = (*combinations(SERVERS, 2), ("owner", "server0"), ("server1", SCRIPT))
KINDS = (*product((*PLAYERS, SCRIPT), HARMS), *product(map(" and ".join, LINKS), ["parted"]))
"""Who is harmed, and how."""
PROGRAMMES = dict.fromkeys(PLAYERS, "tfe_ext.players.player")
PROGRAMMES[SCRIPT] = "tests.helpers.lossy_script"


class Session:
    """A player's programme is what `pea players` runs; TensorFlow is imported once for all."""

    def __init__(self, folder, stack):
        self.folder = folder
        self.is_spoilt = False
        self._env = {**os.environ, "XDG_STATE_HOME": str(folder), "TF_CPP_MIN_LOG_LEVEL": "3"}
        self._hosts = stack.enter_context(Hosts([*PLAYERS, SCRIPT]))
        there = {name: f"{self._hosts.addresses[name]}:4440" for name in PLAYERS}
        self._file = str(write(folder / "players.json", there))
        self._template = Template(hosts_apart.__name__, *PROGRAMMES.values(), env=self._env)
        stack.callback(self._template.end)
        self._running = {}
        for name in PROGRAMMES:
            self._start(name)
        self._wait_for(PLAYERS)

    def start(self, name):
        """Starts a role, in place of the process that had it."""
        self._running[name].end()
        self._start(name)
        if name in PLAYERS:
            self._wait_for([name])

    def _start(self, name):
        said = queue.SimpleQueue()
        inside = (hosts_apart.__name__, self._hosts.space(name), PROGRAMMES[name])
        arguments = [name, self._file] if name in PLAYERS else [self._file]
        self._running[name] = Process(
            *inside, *arguments, env=self._env, receive=said.put, template=self._template
        )
        if name == SCRIPT:
            self._said = said
        else:
            self._running[name].send(pickle.dumps(None))  # its owner has no records

    def _wait_for(self, players):
        for name in players:
            process = self._running[name]
            wait_until(lambda said=process.last_lines: " listens on " in said(), name)

    @contextmanager
    def spoilt_by_an_error(self):
        """Whatever is raised inside ends the use of this session."""
        try:
            yield
        except BaseException:
            self.is_spoilt = True
            raise

    def ask(self, folder):
        """Lets the script train in the folder."""
        self._running[SCRIPT].send(str(folder).encode())

    def hear(self):
        """What the script says next."""
        try:
            frame = self._said.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError("the script hangs") from None
        assert frame, f"the script ended: {self._running[SCRIPT].last_lines()}"
        return pickle.loads(frame)[1]

    def hear_until(self, *kinds):
        """What the script says next that is of such a kind."""
        while not set(kinds) & (told := self.hear()).keys():
            pass
        return told

    def hear_again(self, told):
        """Lets the script say it once more; it has said nothing since."""
        self._said.put(pickle.dumps(("told", told)))

    def harm(self, who, how):
        """Does it."""
        if how in ("cut off", "switched off"):
            self._hosts.pull(who)
        if how == "parted":
            self._hosts.part(*who.split(" and "))
        if how in ("killed", "switched off"):
            os.kill(self._running[who].pid, signal.SIGKILL)
        if how == "stopped":
            os.kill(self._running[who].pid, signal.SIGSTOP)

    def mend(self, who, how):
        """Undoes it, as far as that can be done."""
        if how in ("killed", "switched off"):
            self.start(who)
        if how in ("cut off", "switched off"):
            self._hosts.plug(who)
        if how == "parted":
            self._hosts.rejoin(*who.split(" and "))
        if how == "stopped":
            os.kill(self._running[who].pid, signal.SIGCONT)
