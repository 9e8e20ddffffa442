"""The settings of one training run: the same for every party, checked before anything starts."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from extensions.accounting import CALIBRATIONS, calibrate_noise
from extensions.errors import ArgumentError
from extensions.fixed_point import check_frac_bits
from extensions.model import ModelSpec
from extensions.providers import Provider
from extensions.sampling import OVERFLOW_PROBABILITY, check_sample_rate

Backend = Literal["crypten", "tfe", "clear"]
Evaluate = Literal["mpc", "opened"]

ABY3_SERVERS = 3

_WORKLOAD = (
    *("parties", "model", "classes", "steps", "lr", "sample_rate", "private"),
    *("max_grad_norm", "noise_multiplier", "max_feature_norm", "frac_bits"),
)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything public about a run.

    Attributes:
        backend: "crypten" (processes), "tfe" (TF Encrypted's ABY3) or "clear" (plaintext, one
            process, same arithmetic).
        parties: number of data owners.
        provider: who deals correlated randomness: "dealer" (a process without data), "ttp"
            (CrypTen's third party, likewise) or "tfp" (party 0, which can then reconstruct every
            secret). Only "crypten" has a choice.
        data: name of the data set, for the report.
        features: name of the extractor that each owner used, for the report.
        model: "logistic" or "mlp:H".
        classes: number of outputs.
        steps: number of updates.
        lr: learning rate; the update is lr / expected batch size times the noisy sum.
        sample_rate: Poisson rate of each record in each step.
        max_grad_norm: C.
        epsilon: target, with `delta`; None if `noise_multiplier` is given.
        delta: of the guarantee.
        noise_multiplier: sigma / C; None until `resolved`.
        calibration: how epsilon becomes noise: "pld", "rdp" or "paper".
        private: False trains without clipping and noise, for comparison.
        max_feature_norm: public bound of the norm of a record's features.
        frac_bits: fractional bits of the ring.
        evaluate: "mpc" opens the number of correct predictions, "opened" opens the model.
        seed_data: public seed of splitting the data.
        insecure_seed: draws sampling and noise from this seed, which everybody knows: for
            comparing backends only.
    """

    backend: Backend = "crypten"
    parties: int = 3
    provider: Provider = "dealer"
    data: str = "digits"
    features: str = "raw"
    model: str = "logistic"
    classes: int = 10
    steps: int = 120
    lr: float = 10.0
    sample_rate: float = 0.1
    max_grad_norm: float = 1.0
    epsilon: float | None = None
    delta: float | None = None
    noise_multiplier: float | None = None
    calibration: str = "pld"
    private: bool = True
    max_feature_norm: float = 1.0
    frac_bits: int = 20
    evaluate: Evaluate = "mpc"
    seed_data: int = 0
    insecure_seed: int | None = None

    def __post_init__(self) -> None:
        choices = {"backend": Backend, "evaluate": Evaluate, "provider": Provider}
        for name, allowed in ((name, get_args(kind)) for name, kind in choices.items()):
            if getattr(self, name) not in allowed:
                raise ArgumentError(name, getattr(self, name), f"one of {allowed}")
        if self.backend == "tfe":
            self._check_aby3()
        least = 2 if self.backend == "crypten" else 1
        if not least <= self.parties <= 64:
            raise ArgumentError("parties", self.parties, f"in {least}..64")
        for name, floor in (("steps", 1), ("classes", 2), ("seed_data", 0)):
            if getattr(self, name) < floor:
                raise ArgumentError(name, getattr(self, name), f"at least {floor}")
        for name in ("lr", "max_grad_norm", "max_feature_norm"):
            value = getattr(self, name)
            if not 0.0 < value < math.inf:
                raise ArgumentError(name, value, "positive and finite")
        if self.calibration not in CALIBRATIONS:
            raise ArgumentError("calibration", self.calibration, f"one of {CALIBRATIONS}")
        if self.insecure_seed is not None and not 0 <= self.insecure_seed < 2**63:
            raise ArgumentError("insecure_seed", self.insecure_seed, "in 0..2^63 - 1")
        ModelSpec.parse(self.model, 1, self.classes)
        check_sample_rate(self.sample_rate)
        check_frac_bits(self.frac_bits)
        if self.private:
            self._check_privacy()

    def _check_aby3(self) -> None:
        if self.parties != ABY3_SERVERS:
            raise ArgumentError("parties", self.parties, f"{ABY3_SERVERS}, the servers of ABY3")
        if self.provider != TrainConfig.provider:
            raise ArgumentError(
                "provider", self.provider, "left out with the backend tfe", "ABY3 needs no dealer."
            )

    def _check_privacy(self) -> None:
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise ArgumentError(
                "epsilon, noise_multiplier",
                (self.epsilon, self.noise_multiplier),
                "exactly one of them given",
                "Or ask for a run without privacy by name.",
            )
        if self.delta is None or not 0.0 < self.delta < 1.0:
            raise ArgumentError("delta", self.delta, "in (0, 1)", "1 / (10 records) is usual.")
        if self.epsilon is not None and not 0.0 < self.epsilon < math.inf:
            raise ArgumentError("epsilon", self.epsilon, "positive and finite")
        if self.noise_multiplier is not None and not 0.0 <= self.noise_multiplier < math.inf:
            raise ArgumentError("noise_multiplier", self.noise_multiplier, "finite, at least 0")

    def resolved(self, failure_probability: float = OVERFLOW_PROBABILITY) -> "TrainConfig":
        """Returns the config with the noise multiplier that epsilon and delta call for.

        Args:
            failure_probability: that sampling or noise deviates over the run from what is
                accounted; part of delta.
        """
        if not self.private or self.noise_multiplier is not None:
            return self
        assert self.epsilon is not None
        assert self.delta is not None
        sigma = calibrate_noise(
            epsilon=self.epsilon,
            delta=self.delta,
            sample_rate=self.sample_rate,
            steps=self.steps,
            calibration=self.calibration,
            overflow_probability=failure_probability,
        )
        return replace(self, noise_multiplier=sigma, epsilon=None)

    def workload(self) -> dict[str, Any]:
        """Returns the settings that decide what the parties compute, whatever their records are."""
        return {name: getattr(self, name) for name in _WORKLOAD}

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings as the keyword arguments that make an equal config."""
        return asdict(self)
