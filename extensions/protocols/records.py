"""Owners' records, of which all parties know what is public before anything is shared."""

from collections.abc import Sequence
from dataclasses import dataclass

from extensions.errors import ArgumentError
from extensions.privacy.sampling import OwnRecords, capacity
from extensions.protocols.agreement import NOTHING, Exchange, Statement, agree, check_equal
from extensions.protocols.host import Blocks, Host, pieces_of
from extensions.protocols.settings import Split, Training
from extensions.public import SIZES, Public

BLOCK = 1 << 25
"""Words of features at a time where records may come in blocks, at most: 256 MB a copy."""
COMPARED = 1 << 22
"""Comparisons at a time there, at most: each takes some dozens of words."""


@dataclass(frozen=True)
class Records:
    """Records of which all parties know the sizes.

    Attributes:
        own: of each rank of the host.
        sizes: number of records of each party; of persons, where these may have several. One
            number of all where each party has other columns of the same records.
        widths: there the number of columns of each party, else empty.
        outputs: there the number of label columns of each party, which only one has.
    """

    own: Sequence[OwnRecords]
    sizes: tuple[int, ...]
    features: int
    widths: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()

    @classmethod
    def agreed(
        cls,
        exchange: Exchange,
        own: Sequence[OwnRecords],
        statement: Statement = NOTHING,
        problem: ArgumentError | None = None,
        *,
        split: Split = "rows",
    ) -> "Records":
        """Returns a program's records with the sizes of all parties'; as `exchange_public`."""
        public = [
            Public(records=len(each), features=each.features.shape[1], classes=each.labels.shape[1])
            for each in own
        ]
        everybody = exchange_public(exchange, public or [Public()], statement, problem, split)
        sizes = tuple(each.records for each in everybody)
        widths = tuple(each.features for each in everybody)
        if split == "rows":
            return cls(own, sizes, max(widths))
        return cls(own, sizes[:1], sum(widths), widths, tuple(each.classes for each in everybody))

    def block(self, rank: int) -> slice:
        """Returns which of all columns a party has, where these are apart."""
        start = sum(self.widths[:rank])
        return slice(start, start + self.widths[rank])

    def blocks(self, host: Host) -> Blocks:
        """Returns the columns of this program's owners, where the host shares them from."""
        return Blocks.of(host, self.own, self.widths, self.outputs)

    def rows(self, config: Training) -> list[int]:
        """Returns each party's public number of rows in a batch, k for each person.

        Over all steps a sample exceeds its rows with the settings' overflow probability. Pieces
        have equally many.
        """
        needed = self._needed(config)
        pieces = pieces_of(needed, config.physical_rows)
        return [-(-n // pieces) * pieces for n in needed]

    def pieces(self, config: Training) -> int:
        """Returns in how many pieces a batch is computed: each has some rows of every party's."""
        return pieces_of(self._needed(config), config.physical_rows)

    def _needed(self, config: Training) -> list[int]:
        each = config.overflow_probability / (config.steps * len(self.sizes))
        k = config.rows_per_unit
        return [k * capacity(size, config.sample_rate, each) for size in self.sizes]

    def padding(self, config: Training) -> float:
        """Returns which part of a batch's rows is beyond the expected sample."""
        return 1.0 - config.sample_rate * sum(self.sizes) / sum(self.rows(config))


def blocks_for(sizes: Sequence[int], features: int, comparisons: int) -> int:
    """Returns in how many parts records are computed, so that memory holds one.

    So many comparisons are made at once for each record.
    """
    most = min(BLOCK // features, COMPARED // max(1, comparisons))
    return max(1, min(-(-sum(sizes) // max(1, most)), max(sizes)))


def exchange_public(
    exchange: Exchange,
    own: Sequence[Public],
    statement: Statement = NOTHING,
    problem: ArgumentError | None = None,
    split: Split = "rows",
) -> list[Public]:
    """Returns what is public of every party's records, by rank; one round.

    It fails in every party if it does in one: for its problem, or because settings or shapes
    differ; where parties have other columns of the same records, because they have different
    numbers of records, or not one of them the labels.
    """
    words = [[getattr(each, name) for name in SIZES] for each in own]
    everybody = [Public(*row) for row in agree(exchange, words, statement, problem)]
    if split == "rows":
        _check_rows(everybody)
    else:
        _check_columns(everybody)
    return everybody


def _check_rows(everybody: Sequence[Public]) -> None:
    shapes = {each.shape for each in everybody if each.records}
    if len(shapes) > 1 and any(len(shape) > 1 for shape in shapes):
        given = f"records of shapes {sorted(shapes)}"
        raise ArgumentError("x", given, "of one shape at every party", code="shape")
    widths = {each.features for each in everybody if each.records}
    if len(widths) > 1:
        given = f"rows of {sorted(widths)} features"
        raise ArgumentError("x", given, "of one width at every party", code="shape")
    outputs = max(each.classes for each in everybody)
    if any(each.targets not in (0, outputs) for each in everybody):
        needed = sorted({each.classes for each in everybody if each.records})
        given = f"labels for {needed} classes"
        raise ArgumentError("y", given, "for as many classes everywhere", code="shape")


def _check_columns(everybody: Sequence[Public]) -> None:
    check_equal({rank: Statement(run={"records": p.records}) for rank, p in enumerate(everybody)})
    labelled = [rank for rank, each in enumerate(everybody) if each.classes]
    if everybody[0].records and len(labelled) != 1:
        given = f"at parties {labelled}" if labelled else "at no party"
        advice = "Leave the column of labels out of the other files."
        raise ArgumentError("labels", given, "at one party", advice, code="data")
