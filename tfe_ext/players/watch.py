"""Notices a player that is lost, though TensorFlow would wait for it without end."""

import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import tensorflow as tf

from extensions import printing
from extensions.errors import PlayerLostError
from extensions.runs.processes import LOST_STATUS, Silence, end_with
from tfe_ext.players.status import Statuses

_INTERVAL = 1.0
_FAILURES = 4
_PATIENCE = 25.0
_NOBODY = ", nor does any other player: is this host still connected to them?"
_TENSORFLOW = str(Path(tf.__file__).parent) + os.sep


class Watch:
    """A thread that asks the players whether they are there, until `stop`.

    A player is lost once four requests in a row went without an answer, after 2 to 24 s, or once
    another process answers in its place; standard error then names it. From then on, connections to
    players that do not answer are broken off, so that no call of TensorFlow waits for them. Should
    one last for 25 s nevertheless, this process ends with status 70. `first` is what each player
    answered when it joined.
    """

    def __init__(
        self,
        statuses: Statuses,
        first: Mapping[str, bytes],
        break_off: Callable[[Collection[str]], None],
    ) -> None:
        self._statuses = statuses
        self._first = first
        self._break_off = break_off
        self._failed = Silence[str]()
        """In requests."""
        self._known = threading.Event()
        self._over = threading.Event()
        self._lost: PlayerLostError | None = None
        self._asking = threading.Lock()
        self._thread = threading.Thread(target=self._watch, name="watch players", daemon=True)

    def start(self) -> None:
        """Starts asking the players."""
        self._thread.start()

    def stop(self) -> None:
        """Stops asking the players, so that nothing ends the process."""
        self._over.set()

    def explain(self) -> PlayerLostError | None:
        """Returns the loss behind an error of TensorFlow; None if all players still answer.

        It takes as long as a loss takes to be sure of, and no time if all answer at once.
        """
        while not self._known.is_set() and self._ask():
            self._known.wait(_INTERVAL)
        return self._lost

    def _watch(self) -> None:
        since: dict[tuple[int, int, int], float] = {}
        while not self._over.wait(_INTERVAL):
            self._ask()
            if not self._known.is_set():
                continue
            self._break_off(self._failed.longest(_FAILURES))
            now = time.monotonic()
            since = {place: since.get(place, now) for place in _waiting_for_tensorflow()}
            if now - min(since.values(), default=now) > _PATIENCE and not self._over.is_set():
                assert self._lost is not None
                _say(f"{self._lost} This process ends, because TensorFlow would wait forever.")
                end_with(self._lost, LOST_STATUS)

    def _ask(self) -> bool:
        """Returns whether some player did not answer this time."""
        with self._asking:
            answers = self._statuses.ask()
            self._failed.hear({name: answer is not None for name, answer in answers.items()}, 1)
            for name, answer in answers.items():
                where = self._statuses.addresses[name]
                if answer is not None and answer != self._first[name]:
                    self._conclude(name, f"at {where} was started anew, and has lost its shares")
            silent = self._failed.longest(_FAILURES)
            for name in silent:
                where, all_are = self._statuses.addresses[name], len(silent) == len(answers)
                self._conclude(name, f"no longer answers at {where}" + _NOBODY * all_are)
        return None in answers.values()

    def _conclude(self, name: str, reason: str) -> None:
        if self._lost is None:
            self._lost = PlayerLostError(name, reason)
            if not self._over.is_set():
                _say(str(self._lost))
            self._known.set()


def _waiting_for_tensorflow() -> list[tuple[int, int, int]]:
    """Returns each thread that is inside TensorFlow, with the call and the instruction there."""
    return [
        (thread, id(frame), frame.f_lasti)
        for thread, frame in sys._current_frames().items()
        if frame.f_code.co_filename.startswith(_TENSORFLOW)
    ]


def _say(line: str) -> None:
    print(f"pea: {line}", file=printing.ERR, flush=True)
