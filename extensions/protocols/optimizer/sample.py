"""One fresh sample of the records, which serves one step of an optimizer.

A `Sample` is the token of a batch: what is public of it, what the host holds of it, and which
optimizers used it. A host marks its own tensors or arrays with the two `Half`s of a sample, so that

- `Half.fits` tells whether features and targets are those of one sample,
- `Sample.use` refuses a second step on it, because the accounting takes each sample as a fresh one,
- `Sample.cut` returns its pieces, and an optimizer's `InTurn` makes sure that every piece comes in
  turn, adds up what is computed of them, and returns that of the whole with the last one.

A sample is a Python object of the process that trains. Nothing of it is sent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

from extensions.errors import ArgumentError, GradientError
from extensions.privacy.sampling import check_sample_rate
from extensions.rules import POSITIVE

Side = Literal["features", "targets"]
Sums = TypeVar("Sums")


class Accounts(Protocol):
    """An optimizer, or whatever else makes steps on samples."""

    @property
    def private(self) -> bool:
        """Whether it accounts for its steps: one such step is all that a sample can serve."""


@dataclass(frozen=True, kw_only=True)
class SampleFacts:
    """What everybody knows of a sample.

    Attributes:
        feature_norm: bound of the Euclidean norm of a record's features, before it is encoded.
        expected_size: sample_rate times the number of records of all parties.
        overflow_probability: that it lacks rows for its records.
    """

    feature_norm: float
    expected_size: float
    sample_rate: float
    overflow_probability: float = 0.0


@dataclass(frozen=True, eq=False)
class Sample:
    """One sample of the records, which serves one step, or a piece of one.

    Attributes:
        rows: its public number of rows; of a piece, those of the whole.
        shared: what the host holds of it, beside the tensors that it marked; or None.
        whole: of which it is a piece; None of a whole one.
        index: of the piece, from 0 on.
    """

    public: SampleFacts
    rows: int
    shared: Any = None
    whole: "Sample | None" = None
    index: int = 0
    count: int = 1
    _users: list[Accounts] = field(default_factory=list)

    def cut(self, index: int, count: int, shared: Any = None) -> "Sample":
        """Returns one of so many pieces of it, of which the host holds `shared`."""
        return Sample(self.public, self.rows, shared, self, index, count)

    def like(self, shared: Any) -> "Sample":
        """Returns one of which the same is known, that no step has used."""
        return Sample(self.public, self.rows, shared, self.whole, self.index, self.count)

    def use(self, optimizer: Accounts) -> None:
        """Notes that the optimizer makes its step on the sample.

        Raises:
            GradientError: it made one before; or it is private, and so was another that did.
        """
        if self.whole is not None and self.index == 0:
            self.whole.use(optimizer)
        if any(user is optimizer or (user.private and optimizer.private) for user in self._users):
            raise GradientError(
                "The batch was used for an earlier step: the accounting takes each batch as a "
                "fresh sample. Take the next one from poisson_batches; for the whole of the data "
                "(sample_rate=1.0) call vouch_for in each step."
            )
        self._users.append(optimizer)


def vouched(
    x: Sequence[int],
    y: Sequence[int],
    max_feature_norm: float,
    sample_rate: float = 1.0,
    shared: Any = None,
) -> Sample:
    """Returns a sample of which a caller states what nobody can check.

    Args:
        x: shape of the features, (rows, ...).
        y: shape of the targets, (rows, outputs).
        max_feature_norm: bound of the Euclidean norm of a record's features.
    """
    rate = check_sample_rate(sample_rate)
    POSITIVE.check("max_feature_norm", max_feature_norm)
    if len(x) < 2 or len(y) != 2 or x[0] != y[0] or x[0] == 0:
        allowed = "shapes (records, ...) and (records, outputs)"
        raise ArgumentError("x, y", (tuple(x), tuple(y)), allowed, code="shape")
    facts = SampleFacts(
        feature_norm=float(max_feature_norm), expected_size=float(x[0]), sample_rate=rate
    )
    return Sample(facts, x[0], shared)


@dataclass(frozen=True, eq=False)
class Half:
    """The features or the targets of a sample."""

    batch: Sample
    side: Side

    def fits(self, targets: "Half | None") -> bool:
        """Whether these are features, and those the targets of the same sample."""
        if targets is None or (self.side, targets.side) != ("features", "targets"):
            return False
        return targets.batch is self.batch

    def __str__(self) -> str:
        return f"the {self.side} of a batch"


class InTurn(Generic[Sums]):
    """The pieces of one sample, which an optimizer takes one after the other."""

    def __init__(self) -> None:
        self._last: Sample | None = None
        self._settings: object = None
        self._sums: Sums | None = None

    @property
    def is_open(self) -> bool:
        """Whether pieces are still due."""
        return self._last is not None

    def check(self, piece: Sample, settings: object) -> None:
        """Checks that the sample, or piece, is the next one.

        Pieces of one sample that were cut otherwise may have rows in common, and are refused.

        Args:
            settings: all on which its sums depend, to be compared by ``==``.

        Raises:
            GradientError: pieces of another one are still due, or one was left out; or settings
                changed between pieces.
        """
        last = self._last
        due = 0 if last is None else last.index + 1
        other = last is not None and (piece.whole is not last.whole or piece.count != last.count)
        if piece.index != due or other:
            raise GradientError(
                f"Piece {due + 1} of a batch is due, and this is piece {piece.index + 1}, of "
                "another batch or cut otherwise. Pass on every piece that in_pieces yields, in "
                "turn."
            )
        if last is not None and settings != self._settings:
            raise GradientError(
                "Settings or the model changed between two pieces of a batch, whose sums have one "
                "noise. Change them after a step."
            )
        self._settings = settings

    def add(self, piece: Sample, sums: Sums, added: Callable[[Sums, Sums], Sums]) -> Sums | None:
        """Returns the sums of the whole sample if this was its last piece, else None; local."""
        total = sums if self._sums is None else added(self._sums, sums)
        if piece.index + 1 < piece.count:
            self._last, self._sums = piece, total
            return None
        self._last, self._sums = None, None
        return total
