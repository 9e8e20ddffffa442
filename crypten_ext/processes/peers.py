"""What the peers' latest words say: who lives, who has left, and who is lost.

A word is "alive" and a count while a party works, and at its end one of three farewells: "bye",
"raised" and an exception's type, or "lost", a rank and what became of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extensions.errors import PartyLostError

UNSAID = "-"
_LONGEST_WORD = 200


class Peers:
    """The words of the other parties and how long ago each was new.

    Args:
        ranks: The other parties' ranks.
    """

    def __init__(self, ranks: Iterable[int]) -> None:
        self._words = dict.fromkeys(ranks, UNSAID)
        self._silent = dict.fromkeys(self._words, 0.0)

    @property
    def ranks(self) -> list[int]:
        """The other parties' ranks."""
        return list(self._words)

    def hear(self, words: Mapping[int, str], step: float) -> None:
        """The words are known; one that is the same as `step` seconds before adds to a silence."""
        for rank, word in words.items():
            word = "".join(filter(str.isprintable, word[:_LONGEST_WORD]))
            self._silent[rank] = self._silent[rank] + step if word == self._words[rank] else 0.0
            self._words[rank] = word

    def said_bye(self, rank: int) -> bool:
        """Whether this party finished without trouble."""
        return self._words[rank] == "bye"

    def nobody_left(self, limit: float) -> bool:
        """Whether each has said a farewell or has been silent for `limit` seconds."""
        return all(self._said_farewell(r) or self._silent[r] >= limit for r in self._words)

    def lost(self, limit: float) -> PartyLostError | None:
        """The error that a farewell or a silence of `limit` seconds calls for, None if neither.

        A farewell comes before a silence, and names the party that was lost first.
        """
        for rank, word in self._words.items():
            kind, _, rest = word.partition(" ")
            if kind == "raised":
                return PartyLostError(rank, f"raised {rest}")
            first, _, reason = rest.partition(" ")
            if kind == "lost" and first.isdecimal():
                return PartyLostError(int(first), reason)
        for rank, silence in self._silent.items():
            if silence >= limit and not self._said_farewell(rank):
                return PartyLostError(rank, f"stopped answering for {limit:g} s")
        return None

    def likely_lost(self, *, out_of_touch: bool) -> PartyLostError | None:
        """The likeliest loss behind a broken connection that no word explains.

        Args:
            out_of_touch: Whether words cannot be heard any more; then any party that had not
                left may be the one.
        """
        present = [rank for rank in self._words if not self._said_farewell(rank)]
        if out_of_touch and present:
            others = "".join(f"or party {rank} " for rank in present[1:])
            return PartyLostError(present[0], f"{others}closed its connection")
        left = [rank for rank in self._words if self.said_bye(rank)]
        if left:
            return PartyLostError(left[0], "finished while this party still waited for it")
        return None

    def _said_farewell(self, rank: int) -> bool:
        return self._words[rank].partition(" ")[0] in ("bye", "raised", "lost")
