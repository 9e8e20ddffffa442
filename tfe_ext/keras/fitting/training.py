"""The steps of one call of `fit`, each by the settings that the optimizer has at that time."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from extensions.protocols.dpsgd_plan import StepPlan
from tfe_ext.keras.base_optimizer import Optimizer
from tfe_ext.keras.layers import Chain
from tfe_ext.keras.trainer import Trainer


class Training:
    """Private training of a model on the same records.

    Args:
        trainer: of the model.
        chain: the model.
        optimizer: how it is trained.
        x: as in `Sequential.fit`.
        y: likewise.
        steps: number of all steps, over which the probability of an overflow is spread.
        physical_rows: as in `Sequential.fit`.

    Raises:
        ArgumentError: records that do not fit, before anything is shared.
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
        self._step: Callable[[Sequence[int]], None]
        self._plan: StepPlan
        self._padding: float

    def prepare(self, left: int) -> None:
        """Checks so many steps that are left, if settings have changed since the last one.

        Raises:
            ArgumentError: records or settings that do not fit, before anything is shared.
            GradientError: so many steps might leave the range for which bounds are proven.
        """
        optimizer, trainer = self._optimizer, self._trainer
        optimizer.follow()
        settings = optimizer.settings, optimizer.source
        if settings == self._settings:
            return
        if optimizer.max_feature_norm != self._norm:
            self._place()
        self._step, self._plan = trainer.prepare(
            self._chain, optimizer, self._records, self._steps, self._physical_rows
        )
        rate = optimizer.settings.sample_rate
        self._padding = 1.0 - rate * self._records.size / self._plan.rows
        trainer.check_start(self._chain, self._plan, optimizer.max_weight_norm)
        if not self._is_foreseen():
            optimizer.begin(self._plan, left)
        self._settings = settings

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
        return self._padding

    def charge(self, times: int) -> None:
        """Records what so many steps more cost the records, which are not made."""
        self._optimizer.charge(self._plan, self._steps, times)

    def step(self, left: int) -> None:
        """Makes one of so many steps that are left.

        Raises:
            ArgumentError: of `prepare`.
            GradientError: likewise.
        """
        self.prepare(left)
        public = self._optimizer.public(self._plan)
        self._optimizer.account(self._plan, self._steps)
        self._step(public)
