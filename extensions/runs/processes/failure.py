"""An exception on its way from one process to another."""

from __future__ import annotations

import pickle
import signal
import traceback
from dataclasses import dataclass

from extensions.errors import PeaError

_TRACE_LIMIT = 8000


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An exception that travels whatever it holds.

    Attributes:
        kinds: Names of the exception's class and of all classes above it, its own first.
        text: Its message.
        trace: Its traceback, shortened from the beginning.
        pickled: The exception itself, if it is one of the project's and can be pickled.
    """

    kinds: tuple[str, ...]
    text: str
    trace: str
    pickled: bytes | None

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Returns the failure that `error` is."""
        try:
            pickled = pickle.dumps(error) if isinstance(error, PeaError) else None
        except Exception:  # whatever its attributes raise
            pickled = None
        return cls(
            kinds=tuple(kind.__name__ for kind in type(error).mro()),
            text=str(error),
            trace="".join(traceback.format_exception(error))[-_TRACE_LIMIT:],
            pickled=pickled,
        )

    @property
    def name(self) -> str:
        """The name of the exception's class."""
        return self.kinds[0]

    @property
    def error(self) -> PeaError | None:
        """The project's own exception as it was raised: class, attributes, message and notes.

        None for an exception of another origin, whose class this process may not have.
        """
        error: PeaError | None = None if self.pickled is None else pickle.loads(self.pickled)
        return error


def describe_ending(status: int) -> str:
    """Returns how a process with this exit status ended, to follow "party 2"."""
    if status >= 0:
        return f"exited with status {status} before it was done"
    named = -status in {*signal.Signals}
    name = f" ({signal.Signals(-status).name})" if named else ""
    return f"was killed by signal {-status}{name}"
