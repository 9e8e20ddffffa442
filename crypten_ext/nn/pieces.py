"""A batch in pieces, one after the other: memory is that of one, clip and noise those of all."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from crypten_ext.nn.provenance import (
    Batch,
    Piece,
    Provenance,
    SharedBatch,
    content_of,
    mark,
    provenance_of,
    refusal,
)
from crypten_ext.ring.crypten_ring import as_tensor, ring_of
from crypten_ext.ring.factors import Factor
from extensions.errors import GradientError
from extensions.protocols.dpsgd import Sums, added
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.rules import Whole

from crypten.mpc import MPCTensor


def in_pieces(
    batches: Iterable[tuple[MPCTensor, MPCTensor]], rows: int
) -> Iterator[tuple[MPCTensor, MPCTensor]]:
    """Yields batches in pieces of so many rows: the optimizer makes its step with the last of each.

    With all others `step` adds up clipped gradients, and no noise; nothing is accounted for before
    the last. As in Opacus's BatchMemoryManager, a script needs no other change.

    Args:
        batches: of `poisson_batches`, or what `vouch_for` returned.
        rows: the most of a piece; public.

    Yields:
        features and targets of a piece, in turn; all must be passed on.

    Cost:
        Each piece takes the rounds of both passes, and those of the clipped sums. What owners do
        with the masks of their own rows is for whole batches: rows are opened among all here.

    Raises:
        ArgumentError: fewer rows than one.
        GradientError: tensors that are no batch, of two batches, or changed between two pieces.
    """
    Whole(1).check("rows", rows)
    for x, y in batches:
        origin, of_targets = provenance_of(x), provenance_of(y)
        for name, tensor, found in (("x", x, origin), ("y", y, of_targets)):
            if found is None or found.uses or found.batch.piece is not None:
                raise refusal(name, tensor, "part of a whole batch")
        assert origin is not None
        assert of_targets is not None
        if origin.part != "features":
            raise refusal("x", x, "the features of a batch")
        if of_targets.part != "targets" or of_targets.batch is not origin.batch:
            raise refusal("y", y, "those of the batch whose features are x")
        yield from _cut(origin.batch, x, y, rows)


def _cut(
    whole: Batch, x: MPCTensor, y: MPCTensor, rows: int
) -> Iterator[tuple[MPCTensor, MPCTensor]]:
    """Yields the pieces of a batch, each of rows as they were before the first one."""
    size = x.size(0)
    count = -(-size // rows)
    parts = [slice(size * i // count, size * (i + 1) // count) for i in range(count)]
    before = [(content_of(x.share[part]), content_of(y.share[part])) for part in parts]
    for i, (part, contents) in enumerate(zip(parts, before, strict=True)):
        for name, tensor, content in zip("xy", (x, y), contents, strict=True):
            if content_of(tensor.share[part]) != content:
                raise refusal(name, tensor, "what it was before its first piece")
        yield _piece(whole, Piece(whole, i, count, size), x, y, part)


def _piece(
    whole: Batch, piece: Piece, x: MPCTensor, y: MPCTensor, part: slice
) -> tuple[MPCTensor, MPCTensor]:
    shared = None
    own = x.share[part].clone()
    if whole.shared is not None:
        shared = SharedBatch(
            features=Factor(own.reshape(len(own), -1)),
            squared_norms=whole.shared.squared_norms[part],
            padding=whole.shared.padding[part],
        )
    batch, ring = Batch(whole.public, shared, piece), ring_of(x)
    return (
        mark(as_tensor(ring, own), Provenance(batch, "features")),
        mark(as_tensor(ring, y.share[part].clone()), Provenance(batch, "targets")),
    )


class Accumulated:
    """Clipped sums of the pieces of one batch so far."""

    def __init__(self) -> None:
        self._last: Piece | None = None
        self._plan: StepPlan | None = None
        self._sums: Sums | None = None

    @property
    def is_open(self) -> bool:
        """Whether pieces are still due."""
        return self._last is not None

    def check(self, batch: Batch, plan: StepPlan) -> None:
        """Returns only if the batch, or piece, is the next one.

        Pieces of one batch that were cut otherwise may have rows in common, and are refused.

        Args:
            batch: of the step.
            plan: likewise.

        Raises:
            GradientError: pieces of another one are still due, or one was left out; or settings
                changed between pieces.
        """
        piece, last = batch.piece, self._last
        index = 0 if piece is None else piece.index
        due = 0 if last is None else last.index + 1
        other = last is not None and (
            piece is None or piece.whole is not last.whole or piece.count != last.count
        )
        if index != due or other:
            raise GradientError(
                f"Piece {due + 1} of a batch is due, and this is piece {index + 1}, of another "
                "batch or cut otherwise. Pass on every piece that in_pieces yields, in turn."
            )
        if self._plan is not None and _fixed(plan) != self._plan:
            raise GradientError(
                "Settings or the model changed between two pieces of a batch, whose sums have one "
                "noise. Change them after a step."
            )

    def add(self, batch: Batch, sums: Sums, plan: StepPlan) -> Sums | None:
        """Returns the sums of the whole batch if this was its last piece, else None; local."""
        piece = batch.piece
        total = added(self._sums, sums, plan)
        if piece is not None and piece.index + 1 < piece.count:
            self._last, self._plan, self._sums = piece, _fixed(plan), total
            return None
        self._last, self._plan, self._sums = None, None, None
        return total


def _fixed(plan: StepPlan) -> StepPlan:
    """Returns what of a plan its sums depend on."""
    return replace(plan, learning_rate=plan.expected_batch_size)
