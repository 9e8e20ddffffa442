"""What is opened at the end of a run: counts of held-out records, the model, or neither."""

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

from extensions.layers.measures import accuracy_of, half_width, quality
from extensions.layers.passes import Parameters, forward
from extensions.layers.spec import ADDITIVE
from extensions.layers.tally import (
    cells,
    compared,
    kind_of,
    opened_bits,
    opened_cells,
    sensitivity,
    summary,
    tally,
)
from extensions.privacy.accounting import Ledger
from extensions.protocols.host import (
    Batch,
    Host,
    SumOf,
    in_blocks,
    named,
    pairs,
    total_of_blocks,
)
from extensions.protocols.noise import add_gaussian_noise, noise_without
from extensions.protocols.noisy_sums.additive.training import TITLE as COUNTS
from extensions.protocols.noisy_sums.counts import charge_counts, count_wrong
from extensions.protocols.noisy_sums.noisy_sum import noisy_words
from extensions.protocols.noisy_sums.whitening import TITLE as WHITENING
from extensions.protocols.records import Records, blocks_for
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Integers, Reals, decode, encode
from extensions.ring.interface import Ring, Share
from extensions.runs.config import TrainConfig

COUNT = "the number of correct predictions on held-out records"
SUMS = {
    "bins": (
        "of held-out records: right and wrong predictions of each class, the sum of squared "
        "errors, how often the record of class 1 scores higher, and recall of the top share"
    ),
    "classes": "of held-out records: right and wrong predictions of each class",
    "moments": "of held-out records: the sums of squared errors, of targets and of their squares",
}
MODEL = "the model"
ITERATES = "the model after each step"
STATISTICS = "noisy sums over all records of products of features and of labels, and so the model"
BY_BIN = (
    "of held-out records: right and wrong predictions of each class by bin of their score, and the "
    "sum of squared errors"
)
_COUNTS = "counts"


def titles_of(config: TrainConfig, *, counted: bool = True) -> list[str]:
    """Returns what a run opens, as reports say it, with held-out records if any are counted."""
    counts = COUNT
    if config.judged == "all":
        kind = kind_of(config.classes)
        counts = BY_BIN if kind == "bins" and not config.hidden else SUMS[kind]
    titles = {
        WHITENING: config.whiten and config.split == "rows",
        STATISTICS: config.method == "statistics",
        COUNTS: config.model == ADDITIVE and config.cells != "equal",
        ITERATES: config.open == "each-step",
        MODEL: config.evaluate == "opened",
        counts: counted and config.evaluate in ("mpc", "opened"),
        f"{counts}, with noise": counted and config.evaluate == "noisy",
    }
    return [title for title, opened in titles.items() if opened]


def account_for_count(ledger: Ledger, host: Host, config: TrainConfig) -> None:
    """Records what noised counts cost a held-out record; nothing without them.

    A record moves the number of misses by at most 1, all sums by `sensitivity` together, where
    each has as many times the noise of a count, and a person k times as far, whatever the model,
    which held-out records have no part in. An exact count costs what no ledger can say.
    """
    if config.evaluate == "noisy":
        noise = config.count_noise / config.rows_per_unit if config.insecure_seed is None else None
        charge_counts(ledger, noise, noise_failure=_noise_failure(host, config))


def _noise_failure(host: Host, config: TrainConfig) -> float:
    """That of the counts' noise, which owners of a public model draw in the clear."""
    if not config.hidden:
        return 0.0
    opened = opened_cells(config.classes, hidden=True) if config.judged == "all" else 1
    return host.noise_failure(opened)


def noise_of(config: TrainConfig) -> float:
    """Returns the deviation of a count's noise, of all parties together; 0 without."""
    if config.evaluate != "noisy":
        return 0.0
    wider = noise_without(config.parties, 0, config)
    return config.count_noise * wider


def expected_precision(config: TrainConfig, records: int) -> str | None:
    """Returns how well a noised count will tell the area under the ROC curve; None if not."""
    if config.evaluate != "noisy" or config.judged != "all" or config.classes != 2 or not records:
        return None
    half, tenth = (
        half_width(records, noise_of(config), share, hidden=config.hidden) for share in (0.5, 0.1)
    )
    return (
        f"with {records} held-out records and count noise {config.count_noise:g}, AUC will be "
        f"known to +- {half:.2g} (95 %) if half are of one class, to +- {tenth:.2g} if a tenth are."
    )


class Outputs:
    """What a run opens of its model, by names, and of held-out records."""

    def __init__(self, host: Host, config: TrainConfig, held_out: Records) -> None:
        self._host = host
        self._config = config
        self._held_out = held_out
        self._network = config.network(held_out.features, whole=True)
        layers = self._network.layers
        shown = config.evaluate == "opened" or not config.hidden
        self._model = [*named([None] * 2 * layers)] if shown else []
        counted = config.evaluate != "none" and sum(held_out.sizes) > 0
        self.names = [*self._model, *([_COUNTS] if counted else [])]

    @property
    def titles(self) -> list[str]:
        """What the report says of the values."""
        return titles_of(self._config, counted=_COUNTS in self.names)

    def compute(self, model: Parameters) -> list[list[Integers]]:
        """Returns, for each holder, its summand of each value; nothing is opened.

        It costs a forward pass, and `extensions.layers.evaluation.count_misses` or
        `extensions.layers.tally.tally`, for each of the host's blocks. A public model is opened
        instead: owners count in the clear.
        """
        if not self._config.hidden:
            return self._of_public(model)
        host = self._host
        shown = host.summands(model) if self._model else [[] for _ in host.holders]
        if _COUNTS not in self.names:
            return shown
        network = self._network

        def count(model: Parameters, batch: Batch) -> Share:
            return self._counts(host.ring, model, batch.x, batch.y)

        size = cells(network.widths[-1]) if self._config.judged == "all" else 1
        sum_of, of = SumOf(size=size, count=count, finish=self._noised), self._held_out
        blocks = self._blocks(of.sizes)
        if of.widths:
            counted = total_of_blocks(host, model, of.blocks(host), of.sizes[0], blocks, sum_of)
        else:
            counted = host.total(model, of.own, of.sizes, blocks, sum_of)
        return [[*own, *counts] for own, counts in zip(shown, counted, strict=True)]

    @property
    def _records(self) -> int:
        return sum(self._held_out.sizes)

    def _blocks(self, sizes: Sequence[int]) -> int:
        """In how many parts so many records are counted."""
        counted = compared(self._config.classes) if self._config.judged == "all" else 1
        comparisons = max(counted, self._network.comparisons)
        return blocks_for(sizes, self._held_out.features, comparisons)

    @property
    def _bits(self) -> int:
        """Fractional bits of what is opened of held-out records."""
        config = self._config
        if config.judged == "all":
            return opened_bits(config.classes, config.frac_bits)
        return config.frac_bits

    def _of_public(self, model: Parameters) -> list[list[Integers]]:
        """The summands of a public model, and masked words of what owners count alone."""
        host, config = self._host, self._config
        shown = host.summands(model)
        if _COUNTS not in self.names:
            return shown
        values = pairs(host.open(shown))
        ring = ClearRing(config.frac_bits, parties=config.parties, rounding="floor")
        own = dict(zip(host.ranks, self._held_out.own, strict=True))

        def counts(rank: int) -> list[Integers]:
            size = [len(own[rank])]
            found = [
                self._counts(ring, values, one.features, one.labels)
                for (one,), _ in in_blocks([own[rank]], size, self._blocks(size))
            ]
            return [self._summary(ring, reduce(add, found))]

        sigmas = [self._sigma if config.evaluate == "noisy" else 0.0]
        counted = noisy_words(host, counts, sigmas, frac_bits=self._bits, split=config)
        return [[*one, *other] for one, other in zip(shown, counted, strict=True)]

    def _counts(self, ring: Ring, model: Parameters, x: Share, targets: Share) -> Share:
        """What is counted of rows, (counts,), with the ring's fractional bits."""
        if self._config.model == ADDITIVE:
            ((weight, bias),) = model
            logits = weight.T[x].sum(axis=1) + bias
        elif (encoder := self._config.encoder) is not None:
            bits, ((weight, bias),) = ring.frac_bits, model
            logits = encode(encoder.outputs(decode(weight, bits), decode(bias, bits), x), bits)
        else:
            logits = forward(ring, self._network, model, x).logits
        if self._config.judged == "all":
            return tally(ring, self._config.loss, logits, targets)
        return count_wrong(ring, logits, targets)

    @property
    def _sigma(self) -> float:
        """Deviation of the noise of each number."""
        config = self._config
        return config.count_noise * (sensitivity(config.classes) if config.judged == "all" else 1.0)

    def _summary(self, ring: Ring, counts: Share) -> Share:
        """What is opened of counts of all records, or of an owner's, if the model is public."""
        config = self._config
        if config.judged != "all":
            return counts
        return summary(ring, counts, config.classes, self._records, hidden=config.hidden)

    def _noised(self, _: Parameters, counts: Share) -> list[Share]:
        """What is opened of the counts, with Protocol 2's noise if it is asked for."""
        ring = self._host.ring
        sums = self._summary(ring, counts)
        if self._config.evaluate != "noisy":
            return [sums]
        return add_gaussian_noise(
            ring,
            [sums],
            self._sigma,
            frac_bits=self._bits,
            source=self._host.noise,
            split=self._config,
        )

    def parameters(self, opened: Sequence[Integers]) -> dict[str, Reals]:
        """Returns the opened weights and biases by name; nothing where the model stays shared."""
        values = dict(zip(self.names, opened, strict=True))
        return {name: decode(values[name], self._host.ring.frac_bits) for name in self._model}

    def quality(self, opened: Sequence[Integers]) -> dict[str, Any]:
        """Returns what the opened counts say of the model, by name; nothing if there are none.

        `accuracy` is the part of the held-out records that the model gets right, in [0, 1];
        `extensions.layers.measures.quality` says the others.
        """
        values = dict(zip(self.names, opened, strict=True))
        if _COUNTS not in values:
            return {}
        sums = decode(values[_COUNTS], self._bits)
        records, config = self._records, self._config
        if config.judged == "all":
            return quality(sums, config.classes, config.facts, records, noise_of(config))
        return accuracy_of(records - float(sums[0]), records, noise_of(config))

    @property
    def epsilon(self) -> float | None:
        """What the noised count costs a held-out record at the run's delta; None without one."""
        if _COUNTS not in self.names or self._config.evaluate != "noisy" or not self._config.delta:
            return None
        ledger = Ledger()
        account_for_count(ledger, self._host, self._config)
        return ledger.get_epsilon(self._config.delta)
