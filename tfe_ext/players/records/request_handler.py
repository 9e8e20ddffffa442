"""Where a player's process answers what a client's graph asks of it."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from extensions.errors import ArgumentError
from extensions.protocols.agreement import canonical
from extensions.ring.fixed_point import Integers
from tfe_ext.players.records.share_store import STORE_REQUESTS, PlayerShareStore

ASK, TAKE = "pea:ask", "pea:take"
"""What clients call the functions by that `serve_requests` offers."""
UNNAMED_RULE = "such that the player can go on"
"""The rule that a client hears where a player's own would tell of its records, or of its ledger."""

_kept: list[Callable[..., Any]] = []
"""TensorFlow itself keeps no function."""


class RequestHandler:
    """A player's answers to one client after the other: it keeps shares, and has no records.

    An answer holds what is public, and whether something is refused, with the name of the rule and
    no value; `tell` is called with what its operator should know beside. Shares that were kept
    leave by `array` alone, for the player's own device.
    """

    named_requests: Sequence[str] = ()
    """Requests beside those of a shelf whose refusal may name its rule."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._shelf = PlayerShareStore()
        self._one_at_a_time = threading.Lock()

    def answer(self, message: bytes, arrays: Sequence[Integers] = ()) -> bytes:
        """Returns the answer to a request: JSON, and arrays that come with it.

        "ask" is what a `PlayerShareStore` is asked, with "keeper" and, as JSON, "fields"; or what
        `answer_of` knows, with its arguments.
        """
        what: Any = None
        with self._one_at_a_time:
            try:
                asked = json.loads(message)
                what = asked.pop("ask")
                if what not in STORE_REQUESTS:
                    return canonical(self.answer_of(what, asked))
                fields = json.loads(asked["fields"])
                said = self._shelf.answer(what, asked["keeper"], fields, arrays)
                return canonical({"said": json.dumps(said)})
            except Exception as error:
                return canonical({"refused": self._refusal(what, error)})

    def answer_of(self, what: str, asked: dict[str, Any]) -> Mapping[str, Any]:
        """Returns the answer to what is asked of records, of which there are none."""
        return {"none": True}

    def array(self, name: bytes) -> Integers:
        """Returns one of `PlayerShareStore.arrays`; of no words if there is none of the name."""
        return self._shelf.arrays.get(name.decode(), np.zeros(0, dtype=np.int64))

    def _refusal(self, what: Any, error: Exception) -> dict[str, str]:
        """What a client hears of an error, whose rule tells no value; the operator hears all."""
        self._tell(f"refused: {type(error).__name__}: {error}")
        if isinstance(error, ArgumentError) and what in (*self.named_requests, *STORE_REQUESTS):
            return {"name": error.argument, "rule": str(error.rule), "code": error.code}
        name = "budget" if what in ("reserve", "spend") else "request"
        return {"name": name, "rule": UNNAMED_RULE, "code": "value"}


def serve_requests(desk: RequestHandler) -> None:
    """Lets this process answer on its own device; once a process."""
    from tensorflow.python.ops import script_ops  # who types a wrong option needs no TensorFlow

    def ask(message: Any, *arrays: Any) -> Any:
        return np.array(desk.answer(bytes(message), arrays))

    def take(name: Any) -> Any:
        return desk.array(bytes(name))

    _kept.extend([ask, take])
    script_ops._py_funcs._funcs.update({ASK: ask, TAKE: take})
