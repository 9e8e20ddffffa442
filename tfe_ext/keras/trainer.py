"""What a model does on its servers: the traced step of training, and the count of its errors."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from extensions.errors import ArgumentError, GradientError
from extensions.network.evaluation import count_misses
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.drift import check_start, within_initial_bound
from tfe_ext.cost.cost import Cost, cost_of_graph
from tfe_ext.keras.batches import OwnersRecords, Records, SharedRecords, check_owners, shapes_of
from tfe_ext.keras.layers import Chain
from tfe_ext.keras.optimizers import Optimizer
from tfe_ext.keras.step import logits_of, parameters_of, update
from tfe_ext.keras.vouching import VouchedPart, records_of
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.private_tensors import share_of
from tfe_ext.ring.shares import Share

DEFAULT_FEATURE_NORM = 32.0
"""Taken for evaluations before `compile` has said otherwise."""


class Trainer:
    """Traces the step of one model, keeps it as long as it fits, and runs evaluations.

    Args:
        ring: that of the protocol.
    """

    def __init__(self, ring: ABY3Ring) -> None:
        self.ring = ring
        self._records: Records | None = None
        self._key: Any = None
        self._step: Any = None

    def forget(self) -> None:
        """Lets the next step be traced anew."""
        self._key = self._step = None

    def prepare(
        self, chain: Chain, optimizer: Optimizer, x: Any, y: Any, steps: int
    ) -> tuple[Callable[[], None], StepPlan]:
        """Returns what makes one step whenever it is called, and the step's public constants.

        It is one graph for one set of shapes and settings, traced when it is first called. Records
        of equal shapes take the place of those before without a new trace.

        Args:
            chain: the model.
            optimizer: how it is trained.
            x: as in `Sequential.fit`.
            y: likewise.
            steps: number of steps, over which the probability of an overflow is spread.

        Raises:
            ArgumentError: records or settings that do not fit.
        """
        records = self._take(chain, x, y, optimizer.settings.max_feature_norm)
        rate = optimizer.settings.sample_rate
        rows = records.rows(rate, optimizer.settings.overflow_probability / steps)
        plan = optimizer.plan(
            chain.network,
            frac_bits=self.ring.frac_bits,
            rows=sum(rows),
            expected=rate * records.size,
        )
        key = (records.shapes, rows, rate, plan)
        if self._key != key:

            def step() -> None:
                batch = records.sample(rows, rate, optimizer.source)
                update(self.ring, chain, batch, plan, optimizer.source)

            self._key, self._step = key, tf.function(step, autograph=False)
        return self._step, plan

    def check_start(self, chain: Chain, max_weight_norm: float) -> None:
        """Checks the norms of weights and biases that training is to start from; opens that alone.

        Cost:
            A graph is traced.

        Raises:
            ArgumentError: one is beyond its part of the bound.
        """
        parameters = [p for pair in parameters_of(self.ring, chain) for p in pair if p is not None]

        @tf.function(autograph=False)
        def within() -> tf.Tensor:
            return _opened(within_initial_bound(self.ring, parameters, max_weight_norm))

        names = [f"parameter {i}" for i in range(len(parameters))]
        check_start(dict(zip(names, within().numpy().tolist(), strict=True)), max_weight_norm)

    def cost(self) -> Cost:
        """Returns what the last step costs, read from its graph.

        Raises:
            GradientError: there was none.
        """
        if self._step is None:
            raise GradientError("No step was traced yet: call fit() before step_cost().")
        return cost_of_graph(self._step.get_concrete_function().graph)

    def accuracy(self, chain: Chain, x: Any, y: Any, optimizer: Optimizer | None) -> float:
        """Returns the part of the records that the model gets right; opens their number only."""
        records = self.records(chain, x, y, optimizer)

        @tf.function(autograph=False)
        def wrong() -> tf.Tensor:
            batch = records.everything()
            count = count_misses(
                self.ring, logits_of(self.ring, chain, batch.x), batch.y, ties="right"
            )
            return _opened(count)

        return 1.0 - int(wrong()) / records.size

    def records(self, chain: Chain, x: Any, y: Any, optimizer: Optimizer | None) -> Records:
        """Returns the records that `Sequential.evaluate` takes, checked.

        Raises:
            ArgumentError: records that do not fit.
        """
        if _are_tensors(x, y):
            shares = share_of(self.ring, x, "x"), share_of(self.ring, y, "y")
            return SharedRecords(*shares, chain.network)
        norm = optimizer.settings.max_feature_norm if optimizer else DEFAULT_FEATURE_NORM
        return OwnersRecords(self.ring.servers, self._check(chain, x, y, norm))

    def _take(self, chain: Chain, x: Any, y: Any, max_feature_norm: float) -> Records:
        if _are_tensors(x, y) or isinstance(x, VouchedPart) or isinstance(y, VouchedPart):
            vouched = records_of(x, y, max_feature_norm)
            self._records = SharedRecords(vouched.x, vouched.y, chain.network)
            return self._records
        own = self._check(chain, x, y, max_feature_norm)
        if isinstance(self._records, OwnersRecords) and self._records.shapes == shapes_of(own):
            self._records.replace(own)
        else:
            self._records = OwnersRecords(self.ring.servers, own)
        return self._records

    def _check(self, chain: Chain, x: Any, y: Any, max_feature_norm: float) -> Any:
        return check_owners(
            x,
            y,
            chain.network,
            frac_bits=self.ring.frac_bits,
            max_feature_norm=max_feature_norm,
        )


def _opened(share: Share) -> tf.Tensor:
    return tf.add_n([part for part in share.additive3().parts if part is not None])


def _are_tensors(x: Any, y: Any) -> bool:
    """Whether either is a tensor of the host, of whatever kind."""
    return hasattr(x, "prot") or hasattr(y, "prot")


def steps_of(steps: int | None, epochs: float, sample_rate: float) -> int:
    """Returns the number of steps that is given, or that so many epochs take.

    Raises:
        ArgumentError: fewer than one step, or no epochs.
    """
    if steps is not None:
        if steps < 1:
            raise ArgumentError("steps", steps, "at least 1")
        return steps
    if not 0.0 < epochs < 1e6:
        raise ArgumentError("epochs", epochs, "positive")
    return max(1, round(epochs / sample_rate))
