"""One step of secure DPSGD, made once of settings and shapes: every host and entry uses it.

A `Step` has the public constants, whose bounds are proven when it is made and never again. It
computes on what a host's ring gives it:

- `clipped` returns the sums of clipped gradients of some rows; those of several pieces add up;
- `after` has the optimizer's rule use noisy sums, and changes what is stored;
- `public` returns the integers of a step that are public and may be others in each.

A run (`extensions.protocols.pea`) has a host compile `sampled`, which draws the rows too. Scripts
of CrypTen have gradients of their own, and models of Keras a graph; what they keep is a `Store`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import Any

from extensions.layers.chain import Network
from extensions.layers.losses import row_weights
from extensions.layers.passes import Parameters, forward
from extensions.protocols.dpsgd import Sums, added, clipped_sums, with_noise
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.drift import with_largest_rate
from extensions.protocols.host import Batch, Host, Placed
from extensions.protocols.optimizer import (
    Mean,
    State,
    Store,
    largest_weight,
    move,
    multipliers,
    rule_of,
)
from extensions.protocols.records import Records
from extensions.protocols.settings import ScriptTraining, Training
from extensions.protocols.updates import Kept, UpdateRule, rule_for
from extensions.ring.interface import NoiseSource, Ring


@dataclass(frozen=True)
class Step:
    """Protocol 3, once for all steps of a run."""

    config: Training
    network: Network
    rule: UpdateRule
    mean: Mean

    @classmethod
    def of(cls, config: Training, records: Records) -> "Step":
        """Returns the step of a run on records of which the sizes are known.

        If bounds are not proven for it, the error names the largest learning rate for which they
        are.
        """
        expected = config.sample_rate * sum(records.sizes) * config.rows_per_unit
        network = config.network(records.features)
        rows = sum(records.rows(config))

        def made(lr: float) -> tuple[UpdateRule, Mean]:
            rule = rule_of(config, network, rows, expected, lr)
            largest = largest_weight(config, network, rule)
            return rule, Mean.over(config.average, config.steps, config.frac_bits, largest)

        return cls(config, network, *with_largest_rate(config.lr, made))

    @classmethod
    def of_script(
        cls, config: ScriptTraining, network: Network, rows: int, expected: float
    ) -> "Step":
        """Returns the next step of a script.

        Args:
            config: with the ring's parties and fractional bits.
            rows: of a batch, padding included.
            expected: expected number of real ones, if the settings do not say it.
        """
        bound, own = config.max_weight_norm, config.expected_batch_size
        shapes = network.shapes(
            max_feature_norm=config.max_feature_norm,
            max_weight_norm=bound,
            max_grad_norm=config.max_grad_norm,
        )
        size = expected if own is None else own
        plan = StepPlan.of(
            config, layers=shapes, rows=rows, learning_rate=config.lr, expected_batch_size=size
        )
        mean = Mean.over(config.average, config.steps or 1, config.frac_bits, bound)
        return cls(config, network, rule_for(config).of(config, plan), mean)

    @property
    def names(self) -> Sequence[str]:
        """Of what the rule keeps from step to step."""
        return self.rule.names_of(self.config)

    @property
    def plan(self) -> StepPlan:
        """The public constants of the sums."""
        return self.rule.plan

    def public(self, number: int) -> list[int]:
        """Returns the public integers of a step, from number 1 on.

        They are whether the model before it is one of those whose mean is taken, and those of the
        rule.
        """
        return [self.mean.counts(number), *self.rule.public(number, self._rates[number - 1])]

    @cached_property
    def _rates(self) -> list[float]:
        """What the learning rate is multiplied by in each step."""
        return multipliers(self.config.lr_schedule, self.config.steps)

    def clipped(self, ring: Ring, model: Parameters, batch: Batch) -> Sums:
        """Returns the sums of clipped gradients of rows, without noise."""
        plan, weights = self.plan, None
        trace = forward(ring, self.network, model, batch.x)  # 3.5
        gradients = trace.backward(batch.y, batch.squared_norms, plan.guard_shifts)
        if self.config.class_weights is not None:
            weights = row_weights(ring, batch.y, self.config.class_weights)
        return clipped_sums(ring, gradients, plan, batch.padding, weights)  # 3.6-3.13

    def finish(
        self, ring: Ring, sums: Sums, source: NoiseSource, store: Store, public: Sequence[Any]
    ) -> None:
        """Adds noise to sums of all rows, and makes a step by them; as `after`."""
        self.after(ring, with_noise(ring, sums, self.plan, source), store, public)  # 3.14-3.16

    def after(self, ring: Ring, noisy: Sums, store: Store, public: Sequence[Any]) -> None:
        """Makes a step by noisy sums; `public` are its integers, or what stands for them."""
        counted, *integers = public
        updates, kept = self.updates(ring, noisy, store, integers)
        if self.mean.count > 1 and counted:
            self.mean.add(store, counted)
        move(store, updates, kept)  # 3.17

    def updates(
        self, ring: Ring, noisy: Sums, store: Store, integers: Sequence[Any]
    ) -> tuple[Sums, Kept]:
        """Returns what `UpdateRule.after` does, and stores nothing."""
        kept = {name: store.read(name) for name in self.names}
        return self.rule.after(ring, noisy, kept, integers)

    def sampled(self, host: Host, records: Records) -> "SampledStep":
        """Returns the step as a host computes it, with a sample of records, which are placed."""
        rows, pieces = records.rows(self.config), records.pieces(self.config)
        placed = records.blocks(host) if records.widths else host.place(records.own)
        return SampledStep(self, host, placed, rows, pieces)


@dataclass(frozen=True)
class SampledStep:
    """A step over a fresh sample, whose rows may be computed in pieces, one after the other.

    With a sampling rate of 1 it is all records, so that a host may make it once for all steps.

    Attributes:
        rows: public number of rows of each party, a multiple of the pieces.
        pieces: of the sample, each with equally many rows of every party.
    """

    step: Step
    host: Host
    placed: Placed
    rows: Sequence[int]
    pieces: int

    @property
    def rate(self) -> float:
        """The Poisson sampling rate q."""
        return self.step.config.sample_rate

    @cached_property
    def standing(self) -> Sequence[Batch] | None:
        """The pieces of the batch of all steps; None if each step draws its own."""
        if self.rate < 1.0:
            return None
        return self.host.standing(self.placed, self.rows, self.pieces)

    def _batches(self) -> Iterable[Batch]:
        """A step's batch in pieces; it is where the step begins."""
        if self.standing is None:
            return self.host.samples(self.placed, self.rows, self.rate, self.pieces)  # 3.1, 3.4
        self.host.begin_step()
        return self.standing

    def clipped(self, parts: Parameters, batch: Batch) -> Sums:
        """Returns the sums of a batch's rows, given the state's parts."""
        model = State.of(parts, self.step.config).model
        return self.step.clipped(self.host.ring, model, batch)

    def finish(self, parts: Parameters, sums: Sums, *public: Any) -> Parameters:
        """Returns the parts after the step, given the sums of all rows and the public integers."""
        state = State.of(parts, self.step.config)
        self.step.finish(self.host.ring, sums, self.host.noise, state, public)
        return state.parts

    def __call__(self, parts: Parameters, *public: Any) -> Parameters:
        """Returns the parts after the step; memory is that of one piece."""
        each = (self.clipped(parts, batch) for batch in self._batches())
        return self.finish(parts, reduce(partial(added, plan=self.step.plan), each), *public)
