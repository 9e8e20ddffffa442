"""Where a party that makes tuples beforehand meets the others."""

from dataclasses import dataclass
from pathlib import Path

from extensions.checks import check_seconds
from extensions.errors import ArgumentError
from extensions.rules import Whole
from extensions.runs.options import Meeting


@dataclass(frozen=True, kw_only=True)
class Place:
    """With the provider "parties": one party among the others, on its own host.

    Attributes:
        rank: of this party, which writes its own file; by default all parties are processes of this
            machine.
        rendezvous: as in `pea party`, by default tls://federation.toml.
        join_timeout: seconds within which all parties must have come.
        key: this party's own file of `pea keys`, with tls://.
    """

    rank: int | None = None
    rendezvous: str | None = None
    join_timeout: float = 300.0
    key: Path | None = None

    def meeting(self, provider: str, parties: int) -> Meeting | None:
        """Returns where this party meets the others; None if all are of this machine.

        Raises:
            ArgumentError: another provider, an option without a rank, or one out of range.
        """
        check_seconds("join_timeout", self.join_timeout)
        if self.rank is None:
            for name, given in (("rendezvous", self.rendezvous), ("key", self.key)):
                if given is not None:
                    raise ArgumentError(name, str(given), "without {rank}", code="conflict")
            return None
        if provider != "parties":
            rule, advice = "without {provider=parties}", "A dealer writes all parties' files."
            raise ArgumentError("rank", self.rank, rule, advice, code="conflict")
        Whole(0, parties - 1).check("rank", self.rank)
        meeting = Meeting(
            rank=self.rank,
            rendezvous=self.rendezvous or Meeting.rendezvous,
            join_timeout=self.join_timeout,
            key=self.key,
        )
        meeting.local(parties)
        return meeting
