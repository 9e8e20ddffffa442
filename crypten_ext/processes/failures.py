"""Which party was lost first, and by which error, when several report failures at once."""

from __future__ import annotations

from collections.abc import Mapping

from extensions.errors import LostError, PartyLostError, PeaError
from extensions.runs.processes import Failure, describe_ending


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


def is_connection_loss(failure: Failure) -> bool:
    """Whether the failure only says that the connection to another party broke.

    gloo raises a bare RuntimeError whose text names its source file, torch's store a DistError.
    """
    if "ConnectionError" in failure.kinds:
        return True
    return "RuntimeError" in failure.kinds and (
        "gloo" in failure.text or "DistError" in failure.kinds
    )


def root_cause(
    failures: Mapping[int, Failure], ended: Mapping[int, int], world_size: int
) -> PeaError:
    """Returns the error that names the party which was first.

    A broken connection is an echo of another party's end, so a process that ended comes before
    an exception, and a party's own exception before an echo. An error of the project that all
    parties raised alike, such as a wrong argument, is nobody's loss and keeps its type. So does the
    loss of who deals, whichever party tells of it. `failures` are in the order in which the parties
    told them; of statuses a signal, negative, comes before an exit.
    """
    if ended:
        rank = min(ended, key=lambda rank: ended[rank])
        return PartyLostError(rank, describe_ending(ended[rank]))
    own = [rank for rank, failure in failures.items() if not is_connection_loss(failure)]
    telling = [r for r, failure in failures.items() if isinstance(failure.error, PartyLostError)]
    rank = [*own, *telling, *failures][0]
    first = failures[rank]
    named = first.error
    if isinstance(named, PartyLostError) and 0 <= named.rank < world_size:
        return PartyLostError(named.rank, first.text.removeprefix(f"party {named.rank} "))
    if isinstance(named, LostError) and not isinstance(named, PartyLostError):
        return named
    alike = len({(failure.name, failure.text) for failure in failures.values()}) == 1
    if named is None or not alike or len(failures) < world_size:
        named = PartyFailedError(rank, first.name, first.text)
    named.add_note(f"The traceback in party {rank}:\n{first.trace}")
    return named
