"""Notices a player that is lost, though TensorFlow would wait for it without end."""

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf

from extensions.errors import PlayerLostError
from extensions.runs.processes import end_with
from tfe_ext.players.status import Statuses

LOST_STATUS = 70
_INTERVAL = 1.0
_FAILURES = 4
_PATIENCE = 10
_TENSORFLOW = str(Path(tf.__file__).parent) + os.sep


class Watch:
    """A thread that asks the players whether they are there, until `stop`.

    A player is lost once four requests in a row went without an answer, after 2 to 35 s, or once
    another process answers in its place; standard error then names it. From then on, a single call
    of TensorFlow that takes more than 10 s ends this process with status 70.

    Args:
        statuses: whom to ask.
        first: what each player answered when it joined.
    """

    def __init__(self, statuses: Statuses, first: Mapping[str, bytes]) -> None:
        self._statuses = statuses
        self._first = first
        self._failures = dict.fromkeys(first, 0)
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
        while not self._known.is_set():
            if self._over.wait(_INTERVAL):
                return
            self._ask()
        waited: dict[tuple[int, int, int], int] = {}
        while not self._over.wait(_INTERVAL):
            waited = {place: waited.get(place, 0) + 1 for place in _waiting_for_tensorflow()}
            if max(waited.values(), default=0) > _PATIENCE:
                assert self._lost is not None
                _say(f"{self._lost} TensorFlow keeps waiting for it: this process ends.")
                end_with(self._lost, LOST_STATUS)

    def _ask(self) -> bool:
        """Returns whether some player did not answer this time."""
        with self._asking:
            answers = self._statuses.ask()
            for name, answer in answers.items():
                where = self._statuses.addresses[name]
                self._failures[name] = 0 if answer is not None else self._failures[name] + 1
                if answer is not None and answer != self._first[name]:
                    self._conclude(name, f"at {where} was started anew, and has lost its shares")
                elif self._failures[name] >= _FAILURES:
                    self._conclude(name, f"no longer answers at {where}")
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
    print(f"pea: {line}", file=sys.stderr, flush=True)
