"""What the peers' latest statuses say: who works, who has left, and who is lost.

A status is "alive" and a count while a party works. At its end it is one of four farewells: "bye",
"raised" and an exception's type, "lost", a rank and what became of that party, or "no dealer" and
what became of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extensions.errors import DealerLostError, LostError, PartyLostError
from extensions.runs.processes import Silence
from extensions.transport.kernel import stopped

UNSAID = "-"
_NO_DEALER = "no dealer "
_LONGEST_STATUS = 200


class Peers:
    """The statuses of the other parties, and for how long each has not changed.

    Args:
        ranks: The other parties' ranks.
    """

    def __init__(self, ranks: Iterable[int]) -> None:
        self._statuses = dict.fromkeys(ranks, UNSAID)
        self._silence = Silence[int]()

    @property
    def ranks(self) -> list[int]:
        """The other parties' ranks."""
        return list(self._statuses)

    def hear(self, statuses: Mapping[int, str], step: float) -> None:
        """Takes in what was read `step` seconds after the last time: no change is silence."""
        before = self._statuses
        self._statuses = {
            rank: "".join(filter(str.isprintable, status[:_LONGEST_STATUS]))
            for rank, status in statuses.items()
        }
        self._silence.hear({rank: self._statuses[rank] != before[rank] for rank in before}, step)

    def said_bye(self, rank: int) -> bool:
        """Whether this party finished without trouble."""
        return self._statuses[rank] == "bye"

    def nobody_left(self, limit: float, lost: int | None = None) -> bool:
        """Whether each has said a farewell, is lost or has been silent for `limit` seconds."""
        silent = self._silence.longest(limit)
        return all(
            rank == lost or self._said_farewell(rank) or rank in silent for rank in self._statuses
        )

    def lost(self, limit: float) -> LostError | None:
        """The error that a farewell or a silence of `limit` seconds calls for, None if neither.

        A farewell comes before a silence, and names the party that was lost first.
        """
        for rank, status in self._statuses.items():
            if status.startswith(_NO_DEALER):
                return DealerLostError(status.removeprefix(_NO_DEALER))
            kind, _, rest = status.partition(" ")
            if kind == "raised":
                return PartyLostError(rank, f"raised {rest}")
            first, _, reason = rest.partition(" ")
            if kind == "lost" and first.isdecimal():
                return PartyLostError(int(first), reason)
        silent = [rank for rank in self._silence.longest(limit) if not self._said_farewell(rank)]
        return PartyLostError(silent[0], stopped(limit)) if silent else None

    def likely_lost(self, *, out_of_touch: bool) -> PartyLostError | None:
        """The likeliest loss behind a broken connection that no status explains.

        Args:
            out_of_touch: Whether statuses cannot be read any more; then any party that had not
                left may be the one.
        """
        present = [rank for rank in self._statuses if not self._said_farewell(rank)]
        if out_of_touch and present:
            others = "".join(f"or party {rank} " for rank in present[1:])
            return PartyLostError(present[0], f"{others}closed its connection")
        left = [rank for rank in self._statuses if self.said_bye(rank)]
        if left:
            return PartyLostError(left[0], "finished while this party still waited for it")
        return None

    def _said_farewell(self, rank: int) -> bool:
        return self._statuses[rank].startswith(("bye", "raised ", "lost ", _NO_DEALER))


def farewell_of(error: BaseException) -> str:
    """Returns the farewell of a party that an error ends."""
    if isinstance(error, DealerLostError):
        return _NO_DEALER + str(error).removeprefix("the dealer ")
    if isinstance(error, PartyLostError):
        return f"lost {error.rank} " + str(error).removeprefix(f"party {error.rank} ")
    return f"raised {type(error).__name__}"
