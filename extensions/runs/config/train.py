"""The settings of one training run, checked before anything starts, and its noise."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from extensions.layers.spec import ADDITIVE
from extensions.privacy.accounting import check_target
from extensions.privacy.planning import Phase, Target, plan
from extensions.protocols.settings import SHARE
from extensions.runs.config.additive import SHARES, noise_of_counts
from extensions.runs.config.cross_rules import LEARNT, check_rules
from extensions.runs.config.defaults import follows_noise, rate_of, with_defaults
from extensions.runs.config.noise import check_noise
from extensions.runs.config.run_config import RunConfig
from extensions.runs.entry_points import check_offered

Failure = Callable[["TrainConfig"], float]
"""How probable it is that noise of a run's joint training deviates from what is accounted."""
HOSTS = "pea.backends"
"""The entry point group of those who make runs (`extensions.runs.hosts`)."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig(RunConfig):
    """The settings of a run, of which `RunConfig` says what each means.

    Raises:
        ArgumentError: one is out of range, or they do not go together.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "chosen", tuple(self.chosen))  # JSON has lists
        super().__post_init__()
        check_offered(HOSTS, "backend", self.backend)
        self.spec(whole=True)  # refuses unknown models
        check_rules(self)
        for name, asked in (("epsilon", self.private), ("epsilon_init", self.strategy)):
            if self.private and asked and (epsilon := getattr(self, name)) is not None:
                check_target(epsilon, name)
        check_noise(self)

    def resolved(self, noise_failure: float = 0.0, records: int | None = None) -> "TrainConfig":
        """Returns the config with all that follows from its facts: settings, noise and overflow.

        Epsilon is that of the run as the accountant composes it, local models and whitening
        included. It stays in the config, as what was asked for.

        Args:
            noise_failure: that noise deviates over the joint training from what is accounted.
            records: number of all parties' training records, or persons, from which the settings
                that nobody gave follow; public. None where there are none such.

        Raises:
            ArgumentError: no noise meets a target, or no epsilon could be told at the end; or steps
                of a method that has none, or one output for other than two classes.
        """
        if not self.settled and (self.chosen or self.epochs is not None):
            assert records is not None, "settings that nobody gave follow from numbers of records"
            return self.resolving(records)(lambda _: noise_failure)
        check_rules(self, LEARNT)
        if not self.private or self.settled:
            return self
        assert self.delta is not None
        phases = self._phases(noise_failure)
        target = Target(delta=self.delta, neighbours=self.neighbours, calibration=self.calibration)
        found, overflow = plan(tuple(phases.values()), target)
        noises = dict(zip(phases, found, strict=True))
        config = self.derived(
            noise_multiplier=noises["joint"],
            noise_multiplier_init=noises.get("init"),
            noise_multiplier_whiten=noises.get("whiten"),
            noise_multiplier_counts=noises.get("counts"),
            overflow_probability=overflow,
            settled=True,
        )
        check_noise(config)
        return config

    def _phases(self, noise_failure: float) -> dict[str, Phase]:
        """Returns what is spent of the budget, in order."""
        once = partial(Phase, steps=1, sample_rate=1.0, epsilon=self.epsilon, padded=False)
        of_steps = partial(Phase, sample_rate=self.sample_rate)
        phases = {}
        if self.strategy is not None:
            noise = self.noise_multiplier_init or 0.0
            phases["init"] = of_steps(
                steps=self.local_steps, noise_multiplier=noise, epsilon=self.epsilon_init
            )
        if self.whiten:
            noise = self.noise_multiplier_whiten or 0.0
            phases["whiten"] = once(noise_multiplier=noise, share=self.whiten_share or SHARE)
        if self.model == ADDITIVE and (share := SHARES[self.cells]):
            phases["counts"] = once(noise_multiplier=noise_of_counts(self), share=share)
        phases["joint"] = of_steps(
            steps=self.steps,
            noise_multiplier=self.noise,
            epsilon=self.epsilon,
            overflow_probability=noise_failure,
            padded=self.model != ADDITIVE,
        )
        return phases

    def resolving(self, records: int) -> Callable[[Failure], "TrainConfig"]:
        """Returns what finds the noise, once settings are checked with those that nobody gave.

        Args:
            records: as in `resolved`.

        Raises:
            ArgumentError: a setting that does not fit, here; there, as `resolved`.
        """
        usual = with_defaults(self, records)

        def resolve(failure: Failure) -> TrainConfig:
            config = usual.resolved(failure(usual))
            if not self.chosen and self.epochs is None:
                return config
            by_noise = "lr" in self.chosen and follows_noise(usual)
            lr = rate_of(config, records) if by_noise else config.lr
            return config.derived(lr=lr, chosen=self.chosen, epochs=self.epochs, settled=True)

        return resolve

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings as the keyword arguments that make an equal config."""
        return asdict(self)
