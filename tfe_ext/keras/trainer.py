"""What a model does on its servers: the traced step of training, and the counts in between."""

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import tensorflow as tf

from extensions.errors import ArgumentError, GradientError
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import SystemSource
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.drift import check_start, within_initial_bound
from extensions.protocols.optimizer.sample import Half
from extensions.ring.interface import NoiseSource
from extensions.rules import Between, Whole
from tfe_ext.costs.cost import Cost
from tfe_ext.graphs.batches import (
    OwnersRecords,
    Records,
    SharedRecords,
    check_owners,
    check_shared,
    shapes_of,
)
from tfe_ext.graphs.pieces import InPieces
from tfe_ext.graphs.programs import Kept, Program
from tfe_ext.keras.base_optimizer import Optimizer
from tfe_ext.keras.counting import Count, misses
from tfe_ext.keras.layers import Chain
from tfe_ext.keras.records.seen import Counted, Seen
from tfe_ext.keras.records.vouching import records_of
from tfe_ext.keras.steps.iterates import Iterates
from tfe_ext.keras.steps.step import opened, parameters_of
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.private_tensors import share_of
from tfe_ext.ring.variables import ScalarVariables

DEFAULT_FEATURE_NORM = 32.0
"""Taken for evaluations before `compile` has said otherwise."""
MOST_TABLES, MOST_PROGRAMS = 4, 8


class Trainer:
    """Traces what one model does, each graph once, and keeps it as long as it may serve again.

    A graph serves again for records of the same shapes, and for any learning rate: both are
    variables, which it reads when it runs.

    Attributes:
        start_fits: the bound on weights in which the present ones are known to have their part, or
            None if that is to be checked before the next step.
        held_out: what counts cost records on which the model was not trained.
        step: what makes the last step's graph run; None before the first one.
    """

    def __init__(self, ring: ABY3Ring) -> None:
        self.ring = ring
        self.start_fits: float | None = None
        self.held_out = Ledger()
        self._seen, self._counted = Seen(), Counted()
        self._tables = Kept(MOST_TABLES)
        self._programs = Kept(MOST_PROGRAMS)
        self._public: dict[int, ScalarVariables] = {}
        self._beside: tuple[Optimizer | None, Iterates | None] = None, None
        self.step: Program | InPieces | None = None

    def program(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns what was made for the key, which is kept as long as it may serve again."""
        return self._programs.get(key, make)

    def numbers(self, first: Sequence[int]) -> ScalarVariables:
        """Returns the public numbers of steps that take as many as these."""
        if len(first) not in self._public:
            self._public[len(first)] = ScalarVariables(self.ring.servers.devices, first)
        return self._public[len(first)]

    def beside(self, chain: Chain, optimizer: Optimizer | None) -> Iterates:
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
        found = self.program(key, lambda: Program(within))().numpy().tolist()
        check_start({f"layer {i}": fits for i, fits in enumerate(found)}, max_weight_norm)

    def cost(self, *, memory: bool = False) -> Cost:
        """Returns what the last step costs, read from its graph."""
        if self.step is None:
            raise GradientError("No step was traced yet: call fit() before step_cost().")
        cost = self.step.cost
        return dataclasses.replace(cost, memory=self.step.memory) if memory else cost

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
                    "No epsilon covers their exact number. Say count_noise=5.0, a standard "
                    "deviation in records, which is charged to the optimizer's ledger.",
                )
            ledgers: tuple[Ledger, ...] = (private,)
        else:
            ledgers = (self.held_out, self._counted.ledger(marks))
        source = SystemSource() if optimizer is None else optimizer.source
        key = ("count", id(records), noise, own_of(source), *facts_of(chain))
        program = self.program(key, lambda: misses(self.ring, chain, records, noise, source))
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
            return self._shared(use, *shares, chain)
        norm = optimizer.settings.max_feature_norm if optimizer else DEFAULT_FEATURE_NORM
        return self._owned(use, chain, x, y, norm)

    def training_records(self, chain: Chain, x: Any, y: Any, max_feature_norm: float) -> Records:
        """Returns the records that `Sequential.fit` takes, checked, on their devices.

        Those of equal shapes take the place of those before, in graphs that were traced too.
        """
        if _are_tensors(x, y) or isinstance(x, Half) or isinstance(y, Half):
            records = self._shared("learnt", *records_of(x, y, max_feature_norm), chain)
        else:
            records = self._owned("learnt", chain, x, y, max_feature_norm)
        self._seen.add(records)
        return records

    def _shared(self, use: str, x: Any, y: Any, chain: Chain) -> Records:
        shares = check_shared(x, y, chain.network)
        shapes = tuple(share.shape for share in shares)
        return self._placed((use, shapes), shares, lambda: SharedRecords(shares))

    def _owned(self, use: str, chain: Chain, x: Any, y: Any, max_feature_norm: float) -> Records:
        own = check_owners(
            x,
            y,
            chain.network,
            frac_bits=self.ring.frac_bits,
            max_feature_norm=max_feature_norm,
        )
        key = use, shapes_of(own), chain.network.widths
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


def own_of(source: NoiseSource) -> Hashable:
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
