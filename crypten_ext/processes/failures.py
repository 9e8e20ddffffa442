"""What went wrong in one party, told in another process: which party, which error, which cause."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from extensions import errors
from extensions.errors import PartyLostError, PeaError

_TRACE_LIMIT = 8000


class PartyFailedError(PartyLostError):
    """A task raised in one party; the message names its rank, the exception's type and its text.

    Attributes:
        rank: The party that failed first.
        exception_type: Name of the exception's class.
        exception_message: The exception's own message.
    """

    def __init__(self, rank: int, exception_type: str, exception_message: str) -> None:
        super().__init__(rank, f"raised {exception_type}: {exception_message}".rstrip(": "))
        self.exception_type = exception_type
        self.exception_message = exception_message


def is_connection_loss(error: BaseException) -> bool:
    """Whether `error` only says that the connection to another party broke.

    gloo raises a bare RuntimeError whose text names its source file, torch's store a DistError.
    """
    if isinstance(error, ConnectionError):
        return True
    if not isinstance(error, RuntimeError):
        return False
    return "gloo" in str(error) or any(kind.__name__ == "DistError" for kind in type(error).mro())


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One party's exception as text, so that it always travels and can always be read.

    Attributes:
        name: Name of the exception's class.
        text: The exception's message.
        trace: The traceback, shortened from its beginning.
        from_project: Whether the class is one of `extensions.errors`.
        attributes: Plain attributes of an error of the project, such as its argument's name.
        is_echo: Whether it only says that the connection to another party broke.
        lost_rank: The rank that a PartyLostError names.
    """

    name: str
    text: str
    trace: str
    from_project: bool
    attributes: Mapping[str, Any] = field(default_factory=dict)
    is_echo: bool = False
    lost_rank: int | None = None

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """The description of `error`."""
        ours = isinstance(error, PeaError) and type(error).__module__ == errors.__name__
        return cls(
            name=type(error).__name__,
            text=str(error),
            trace="".join(traceback.format_exception(error))[-_TRACE_LIMIT:],
            from_project=ours,
            attributes={k: v for k, v in vars(error).items() if ours and isinstance(v, str | int)},
            is_echo=is_connection_loss(error),
            lost_rank=error.rank if isinstance(error, PartyLostError) else None,
        )

    def as_error(self, rank: int, *, as_raised: bool) -> PeaError:
        """The error to raise for this failure of party `rank`, with the party's traceback as note.

        With `as_raised` an error of the project keeps its own type and attributes.
        """
        error: PeaError
        if as_raised and self.from_project:
            kind: type[PeaError] = getattr(errors, self.name)
            error = kind.__new__(kind, f"party {rank}: {self.text}")
            vars(error).update(self.attributes)
        else:
            error = PartyFailedError(rank, self.name, self.text)
        error.add_note(f"The traceback in party {rank}:\n{self.trace}")
        return error


def describe_ending(status: int) -> str:
    """How a process with this exit status ended, to follow "party 2"."""
    if status >= 0:
        return f"exited with status {status} before it was done"
    try:
        return f"was killed by signal {-status} ({signal.Signals(-status).name})"
    except ValueError:
        return f"was killed by signal {-status}"


def root_cause(
    failures: Mapping[int, Failure], ended: Mapping[int, int], world_size: int
) -> PeaError:
    """The error that names the party which was first.

    A broken connection is an echo of another party's end, so a process that ended comes before
    an exception, and a party's own exception before an echo. An error of the project that all
    parties raised alike, such as a wrong argument, is nobody's loss and keeps its type.

    Args:
        failures: Exceptions by rank, in the order in which the parties told them.
        ended: Exit statuses by rank; a signal, negative, comes before an exit.
        world_size: Number of parties.
    """
    if ended:
        rank = min(ended, key=lambda rank: ended[rank])
        return PartyLostError(rank, describe_ending(ended[rank]))
    own = [rank for rank, failure in failures.items() if not failure.is_echo]
    telling = [rank for rank, failure in failures.items() if failure.lost_rank is not None]
    rank = [*own, *telling, *failures][0]
    first = failures[rank]
    if (lost := first.lost_rank) is not None and 0 <= lost < world_size:
        return PartyLostError(lost, first.text.removeprefix(f"party {lost} "))
    alike = len({(failure.name, failure.text) for failure in failures.values()}) == 1
    return first.as_error(rank, as_raised=alike and len(failures) == world_size)
