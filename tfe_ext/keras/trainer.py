"""What a model does on its servers: the traced step of training, and the counts in between."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from extensions.errors import ArgumentError, GradientError
from extensions.layers.passes import Parameters
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import SystemSource
from extensions.protocols.dpsgd import Sums
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.drift import check_start, within_initial_bound
from extensions.protocols.host import Batch
from extensions.protocols.noise import add_gaussian_noise
from extensions.protocols.noisy_sums.counts import charge_counts, count_wrong
from extensions.protocols.optimizer.sample import Half
from extensions.protocols.records import blocks_for
from extensions.protocols.step import Step
from extensions.ring.fixed_point import decode
from extensions.ring.interface import NoiseSource
from extensions.rules import POSITIVE, Between, Whole
from tfe_ext.costs.cost import Cost
from tfe_ext.graphs.batches import OwnersRecords, Records, SharedRecords, check_owners, check_shared
from tfe_ext.graphs.program import Kept, Program
from tfe_ext.graphs.programs import InPieces, Sampling, Total, total_of
from tfe_ext.keras.base_optimizer import Optimizer
from tfe_ext.keras.columns import Columns
from tfe_ext.keras.iterates import Iterates, logits_of, opened, parameters_of
from tfe_ext.keras.layers import Chain
from tfe_ext.keras.records import Counted, Seen, records_of
from tfe_ext.ring.aby3_ring import ABY3Ring, noise_failure
from tfe_ext.ring.private_tensors import share_of
from tfe_ext.ring.shares import Replicated, Share
from tfe_ext.ring.variables import ScalarVariables

DEFAULT_FEATURE_NORM = 32.0
"""Taken for evaluations before `compile` has said otherwise."""
MOST_TABLES, MOST_PROGRAMS = 4, 8


@dataclass(frozen=True, kw_only=True)
class Count:
    """How many records a model gets right; the number is opened whenever it is asked for.

    The program opens how many it gets wrong (`misses`), with noise of that deviation in records, or
    exactly if it is None. Each number is charged to the ledgers; without noise it costs infinity.
    Any one server, which knows its own summand, still faces noise of the deviation
    (`extensions.protocols.noise.add_gaussian_noise`).
    """

    program: Program | Total
    records: int
    frac_bits: int
    noise: float | None
    source: NoiseSource
    ledgers: tuple[Ledger, ...]

    def __post_init__(self) -> None:
        if self.noise is not None:
            POSITIVE.check("count_noise", self.noise)

    def accuracy(self, announce: Callable[[], None]) -> float:
        """Returns the part of the records that the model gets right, in [0, 1].

        It is charged, then announced, and then opened: the rounds of a forward pass, a product, a
        comparison and `extensions.layers.evaluation.any_of`.
        """
        self.charge()
        announce()
        (wrong,) = decode(self.program().numpy(), self.frac_bits)
        return min(1.0, max(0.0, 1.0 - float(wrong) / self.records))

    def charge(self, times: int = 1) -> None:
        """Records so many openings, whether they are made or not."""
        failure = noise_failure(1, times) if self.noise is not None else 0.0
        for ledger in self.ledgers:
            charge_counts(ledger, self.noise, self.source, times, failure)


def misses(
    ring: ABY3Ring, chain: Chain, records: Records, noise: float | None, source: NoiseSource
) -> Program | Total:
    """Returns what opens the number of records that the model gets wrong, on the ring's grid.

    Owners' records are counted in blocks that memory holds, shared ones all at once.
    """

    def wrong(batch: Batch) -> Share:
        found: Share = count_wrong(ring, logits_of(ring, chain, batch.x), batch.y)
        return found

    def finish(count: Share) -> tf.Tensor:
        if noise is None:
            return opened(count)
        bits = ring.frac_bits
        return opened(*add_gaussian_noise(ring, [count], noise, frac_bits=bits, source=source))

    sizes, network = records.sizes, chain.network
    blocks = blocks_for(sizes, network.widths[0], network.comparisons)
    return total_of(ring.servers.devices, records, blocks, 1, wrong, finish)


class Trainer:
    """Traces what one model does, each graph once, and keeps it as long as it may serve again.

    A graph serves again for records of the same shapes, and for any learning rate: both are
    variables, which it reads when it runs.

    Attributes:
        start_fits: the bound on weights in which the present ones are known to have their part, or
            None if that is to be checked before the next step.
        held_out: what counts cost records on which the model was not trained.
        programs: what was made for the keys of graphs.
        step: what makes the last step's graph run; None before the first one.
    """

    def __init__(self, ring: ABY3Ring) -> None:
        self.ring = ring
        self.start_fits: float | None = None
        self.held_out = Ledger()
        self._seen, self._counted = Seen(), Counted()
        self._tables = Kept(MOST_TABLES)
        self.programs = Kept(MOST_PROGRAMS)
        self._public: dict[int, ScalarVariables] = {}
        self._beside: tuple[Optimizer | None, Iterates | None] = None, None
        self.step: Program | InPieces | None = None

    def numbers(self, first: Sequence[int]) -> ScalarVariables:
        """Returns the public numbers of steps that take as many as these."""
        if len(first) not in self._public:
            self._public[len(first)] = ScalarVariables(self.ring.servers.devices, first)
        return self._public[len(first)]

    def optimizer_state(self, chain: Chain, optimizer: Optimizer | None) -> Iterates:
        """Returns what this optimizer goes on from with the model; zeros for another one."""
        whose, before = self._beside
        same = before is not None and whose is optimizer and before.are_of(chain)
        found = Iterates(self.ring, chain, before if same else None)
        self._beside = optimizer, found
        return found

    def check_start(self, chain: Chain, plan: StepPlan, max_weight_norm: float) -> None:
        """Checks the weights that training is to start from, if bounds depend on them, and once.

        How many tests of `within_initial_bound` each layer passes is opened, and nothing else.
        """
        if self.start_fits is not None and self.start_fits <= max_weight_norm:
            return
        if plan.private and len(plan.layers) > 1:
            self._check_norms(chain, max_weight_norm)
        self.start_fits = max_weight_norm

    def _check_norms(self, chain: Chain, max_weight_norm: float) -> None:
        def within() -> tf.Tensor:
            pairs = parameters_of(self.ring, chain)
            layers = [[part for part in pair if part is not None] for pair in pairs]
            return opened(within_initial_bound(self.ring, layers, max_weight_norm))

        key = ("start", max_weight_norm, *facts_of(chain))
        found = self.programs.get(key, lambda: Program(within))().numpy().tolist()
        check_start({f"layer {i}": fits for i, fits in enumerate(found)}, max_weight_norm)

    def cost(self, *, memory: bool = False) -> Cost:
        """Returns what the last step costs, read from its graph."""
        if self.step is None:
            raise GradientError("step_cost() needs a traced step: call fit() first.")
        cost = self.step.cost
        return replace(cost, memory=self.step.memory) if memory else cost

    def count(
        self,
        chain: Chain,
        data: tuple[Any, Any],
        optimizer: Optimizer | None,
        noise: float | None,
        use: str,
    ) -> Count:
        """Returns what counts right predictions, and charges them to the records' ledger.

        Others for the same use take the place of the records. A number without noise of records on
        which the model is trained in private is refused.
        """
        records = self.records(chain, *data, optimizer, use)
        marks = self._seen.marks(records)
        private = None if optimizer is None else optimizer.ledger
        if private is not None and (seen := self._seen.owners(marks)):
            if noise is None:
                raise ArgumentError(
                    "x",
                    f"of {', '.join(seen)} records on which the model was trained",
                    "held-out records, or counted with noise",
                    "No epsilon covers an exact count of them. Give count_noise=5.0, a standard "
                    "deviation in records, which is charged to the optimizer's ledger.",
                )
            ledgers: tuple[Ledger, ...] = (private,)
        else:
            ledgers = (self.held_out, self._counted.ledger(marks))
        source = SystemSource() if optimizer is None else optimizer.source
        key = ("count", id(records), noise, source_key(source), *facts_of(chain))
        program = self.programs.get(key, lambda: misses(self.ring, chain, records, noise, source))
        return Count(
            program=program,
            records=records.size,
            frac_bits=self.ring.frac_bits,
            noise=noise,
            source=source,
            ledgers=ledgers,
        )

    def charge_counts(self, optimizer: Optimizer) -> None:
        """Charges the optimizer with earlier counts of the records on which it trains now."""
        if optimizer.ledger is not None:
            for counts in self._counted.take(self._seen):
                optimizer.ledger.add(counts)

    def records(
        self, chain: Chain, x: Any, y: Any, optimizer: Optimizer | None, use: str = "tried"
    ) -> Records:
        """Returns the records that `Sequential.evaluate` takes, checked, on their devices."""
        if _are_tensors(x, y):
            shares = share_of(self.ring, x, "x"), share_of(self.ring, y, "y")
            return self._shared(use, check_shared(*shares, chain.network))
        norm = optimizer.settings.max_feature_norm if optimizer else DEFAULT_FEATURE_NORM
        if isinstance(x, Columns):
            return self._shared(use, x.shared(self.ring, chain.network, norm))
        return self._owned(use, chain, x, y, norm)

    def training_records(self, chain: Chain, x: Any, y: Any, max_feature_norm: float) -> Records:
        """Returns the records that `Sequential.fit` takes, checked, on their devices.

        Those of equal shapes take the place of those before, in graphs that were traced too.
        """
        network = chain.network
        if isinstance(x, Columns):
            records = self._shared("learnt", x.shared(self.ring, network, max_feature_norm))
        elif _are_tensors(x, y) or isinstance(x, Half) or isinstance(y, Half):
            shares = records_of(x, y, max_feature_norm)
            records = self._shared("learnt", check_shared(*shares, network))
        else:
            records = self._owned("learnt", chain, x, y, max_feature_norm)
        self._seen.add(records)
        return records

    def _shared(self, use: str, shares: Sequence[Replicated]) -> Records:
        shapes = tuple(share.shape for share in shares)
        return self._placed((use, shapes), shares, lambda: SharedRecords(shares))

    def _owned(self, use: str, chain: Chain, x: Any, y: Any, max_feature_norm: float) -> Records:
        own = check_owners(
            x, y, chain.network, frac_bits=self.ring.frac_bits, max_feature_norm=max_feature_norm
        )
        sizes = tuple((name, len(each)) for name, each in own.items())
        key = use, sizes, chain.network.widths
        return self._placed(key, own, lambda: OwnersRecords(self.ring.servers, own))

    def _placed(self, key: Hashable, given: Any, make: Callable[[], Records]) -> Records:
        known = key in self._tables
        records: Records = self._tables.get(key, make)
        if known:
            records.replace(given)
        return records


def facts_of(chain: Chain) -> tuple[Hashable, ...]:
    """Returns what every graph of a model depends on."""
    return chain.network, *map(id, chain.flat)


def source_key(source: NoiseSource) -> Hashable:
    """Returns what a graph depends on of a source: nothing of the system's."""
    return None if type(source) is SystemSource else id(source)


def _are_tensors(x: Any, y: Any) -> bool:
    return hasattr(x, "prot") or hasattr(y, "prot")


def steps_of(steps: int | None, epochs: float, sample_rate: float) -> int:
    """Returns the number of steps that is given, or that so many epochs take."""
    if steps is not None:
        Whole(1).check("steps", steps)
        return steps
    Between(0.0, 1e6, above=True, below=True).check("epochs", epochs)
    return max(1, round(epochs / sample_rate))


class Training:
    """Private training of a model on the same records, given as in `Sequential.fit`.

    The probability of an overflow is spread over all steps.
    """

    def __init__(
        self,
        trainer: Trainer,
        chain: Chain,
        optimizer: Optimizer,
        x: Any,
        y: Any,
        steps: int,
        physical_rows: int | None = None,
    ) -> None:
        self._trainer, self._chain, self._optimizer = trainer, chain, optimizer
        self._given, self._steps, self._physical_rows = (x, y), steps, physical_rows
        self._settings: Any = None
        self._place()
        self._step: Step
        self._public: ScalarVariables

    def prepare(self, left: int) -> None:
        """Checks so many steps that are left, if settings have changed since the last one.

        Raises GradientError if the steps might leave the range for which bounds are proven, or the
        optimizer goes on from what this model has not.
        """
        optimizer = self._optimizer
        optimizer.follow()
        settings = optimizer.settings, optimizer.source
        if settings == self._settings:
            return
        if optimizer.max_feature_norm != self._norm:
            self._place()
        self._trace()
        self._trainer.check_start(self._chain, self._step.plan, optimizer.max_weight_norm)
        if not self._is_foreseen():
            optimizer.begin(self._step, left)
        self._settings = settings

    def _trace(self) -> None:
        """Finds the step by the present settings, and its graph; one may serve again."""
        trainer, optimizer, records = self._trainer, self._optimizer, self._records
        settings, source, ring = optimizer.settings, optimizer.source, trainer.ring
        network = self._chain.network.with_bias_bits(settings.bias_bits)
        chain, rate = replace(self._chain, network=network), settings.sample_rate
        rows = records.rows(rate, settings.overflow_probability / self._steps)
        sampling = Sampling.of(records, rows, rate, source, self._physical_rows)
        step = self._step = optimizer.step(
            network, frac_bits=ring.frac_bits, rows=sampling.all_rows, expected=rate * records.size
        )
        fixed, store = (
            replace(step, rule=step.rule.fixed),
            trainer.optimizer_state(chain, optimizer),
        )
        optimizer.check_goes_on(name for name in step.names if name not in store)
        beside = tuple(variable for name in step.names for variable in store.of(name))
        public = self._public = trainer.numbers(optimizer.public(step.rule))

        def model() -> Parameters:
            return parameters_of(ring, chain)

        def finished(sums: Sums) -> None:
            fixed.finish(ring, sums, source, store, [0, *public.read()])

        drawn = id(records), tuple(rows), sampling.pieces, rate, source_key(source)
        trainer.step = trainer.programs.get(
            ("step", *drawn, fixed.rule, beside, *facts_of(chain)),
            lambda: sampling.program(ring, fixed.plan, model, fixed.clipped, finished),
        )

    def _is_foreseen(self) -> bool:
        """Whether only the schedule has changed something, all of which was checked before."""
        if self._optimizer.schedule is None or self._settings is None:
            return False
        settings, source = self._settings
        same = replace(self._optimizer.settings, lr=settings.lr)
        return (same, self._optimizer.source) == (settings, source)

    def _place(self) -> None:
        self._norm = self._optimizer.max_feature_norm
        self._records = self._trainer.training_records(self._chain, *self._given, self._norm)

    @property
    def records(self) -> int:
        """Number of records of all owners."""
        return self._records.size

    @property
    def padding(self) -> float:
        """Which part of a step's rows is beyond the expected sample."""
        settings, plan = self._step.config, self._step.plan
        return 1.0 - settings.sample_rate * self._records.size / plan.rows

    def charge(self, times: int) -> None:
        """Records what so many steps more cost the records, which are not made."""
        self._optimizer.charge(self._step, self._steps, times)

    def step(self, left: int) -> None:
        """Makes one of so many steps that are left; see `prepare` for errors."""
        self.prepare(left)
        self._public.assign(self._optimizer.account(self._step, self._steps))
        step = self._trainer.step
        assert step is not None
        if step.standing is not None:
            step.standing.prepare()
        step()
