"""The steps of one call of `fit`, each by the settings that the optimizer has at that time."""

from dataclasses import replace
from typing import Any

from extensions.protocols.dpsgd import Sums
from extensions.protocols.host import Batch
from extensions.protocols.step import Step
from tfe_ext.graphs.pieces import Sampling
from tfe_ext.keras.base_optimizer import Optimizer
from tfe_ext.keras.layers import Chain
from tfe_ext.keras.steps.step import parameters_of
from tfe_ext.keras.trainer import Trainer, facts_of, own_of
from tfe_ext.ring.variables import ScalarVariables


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
        fixed, store = replace(step, rule=step.rule.fixed), trainer.beside(chain, optimizer)
        optimizer.check_goes_on(name for name in step.names if name not in store)
        beside = tuple(variable for name in step.names for variable in store.of(name))
        public = self._public = trainer.numbers(optimizer.public(step.rule))

        def clipped(batch: Batch) -> Sums:
            return fixed.clipped(ring, parameters_of(ring, chain), batch)

        def finished(sums: Sums) -> None:
            fixed.finish(ring, sums, source, store, [0, *public.read()])

        drawn = id(records), tuple(rows), sampling.pieces, rate, own_of(source)
        trainer.step = trainer.program(
            ("step", *drawn, fixed.rule, beside, *facts_of(chain)),
            lambda: sampling.program(ring.servers.devices, fixed.plan, clipped, finished),
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
        assert self._trainer.step is not None
        self._trainer.step()
