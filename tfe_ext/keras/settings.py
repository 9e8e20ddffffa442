"""The arguments of an optimizer, which are attributes too."""

from dataclasses import dataclass, replace
from typing import Any

from extensions.checks import check_not_negative, check_positive
from extensions.errors import ArgumentError
from extensions.privacy.mechanisms import check_real
from extensions.privacy.sampling import check_sample_rate
from extensions.protocols.dpsgd_plan import check_momentum
from extensions.protocols.optimizer import Betas, bias_bits_of_layers
from extensions.protocols.optimizer.adam import EPS, FLOOR, check_eps, check_floor


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The arguments of all optimizers, which say what each means.

    Raises:
        ArgumentError: a value out of range.
    """

    learning_rate: float
    sample_rate: float
    l2_norm_clip: float = 1.0
    noise_multiplier: float = 0.0
    expected_batch_size: float | None
    max_feature_norm: float
    max_weight_norm: float
    colluders: int = 1
    degree: int = 2
    momentum: float = 0.0
    bias_scale: float = 1.0
    overflow_probability: float
    beta_1: float = 0.9
    beta_2: float = 0.999
    floor: float = FLOOR
    epsilon: float = EPS
    delta: float | None = None

    def __post_init__(self) -> None:
        for name in ("learning_rate", "l2_norm_clip", "max_feature_norm", "max_weight_norm"):
            check_positive(name, getattr(self, name))
        check_not_negative("noise_multiplier", self.noise_multiplier)
        check_sample_rate(self.sample_rate)
        check_momentum(self.momentum)
        _ = self.bias_bits, self.betas  # refuse what is none
        check_floor("floor", self.floor)
        check_eps("epsilon", self.epsilon)
        if self.delta is not None:
            check_real("delta", self.delta)

    @property
    def betas(self) -> Betas:
        """Adam's."""
        try:
            return Betas(self.beta_1, self.beta_2)
        except ArgumentError as error:
            raise error.of(error.argument.replace("beta", "beta_")) from None

    @property
    def bias_bits(self) -> int:
        """The bits b of the bias's input, 2^-b."""
        return bias_bits_of_layers(self.bias_scale, "with use_bias=False")


class Setting:
    """An attribute that is a field of an optimizer's `Settings`.

    Args:
        name: of the field, if the attribute has another.
    """

    def __init__(self, name: str = "") -> None:
        self._name = name

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = self._name or name

    def __get__(self, optimizer: Any, owner: type) -> Any:
        return self if optimizer is None else getattr(optimizer.settings, self._name)

    def __set__(self, optimizer: Any, value: Any) -> None:
        optimizer.settings = replace(optimizer.settings, **{self._name: value})
