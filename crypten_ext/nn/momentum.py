"""Momentum of an optimizer of scripts: this party's shares of what the last step subtracted."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from crypten_ext.nn.named_shares import from_arrays, to_arrays
from crypten_ext.nn.provenance import LayerUse, Pairs
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.optimizer import ratio_after, truncated_bits
from extensions.ring.fixed_point import Integers

_PREFIX = "velocity of "


class Momentum:
    """The velocity of a model's parameters, zero before the first step.

    Args:
        model: encrypted.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._truncated: int | None = None
        self._last: dict[str, torch.Tensor] = {}

    def ratio(self, plan: StepPlan) -> tuple[int, int]:
        """Returns by what the next step multiplies its sum (`ratio_after`)."""
        return ratio_after(plan, self._truncated)

    def before(self, plan: StepPlan, layers: Sequence[LayerUse]) -> Pairs | None:
        """Returns what the last step subtracted from each layer; None without momentum."""
        if not plan.momentum_numerator:
            return None
        names = self._names()

        def last(parameter: Any) -> torch.Tensor:
            known = self._last.get(names[id(parameter)])
            return torch.zeros_like(parameter.share) if known is None else known

        return [
            pair
            for layer in layers
            for pair in layer.apart(
                last(layer.weight), None if layer.bias is None else last(layer.bias)
            )
        ]

    def after(self, plan: StepPlan, layers: Sequence[LayerUse], updates: Pairs) -> None:
        """Takes note of what a step subtracted from each module, if there is momentum."""
        if not plan.momentum_numerator:
            return
        self._truncated = truncated_bits(plan, self.ratio(plan)[1])
        names = self._names()
        for layer, (weight, bias) in zip(layers, updates, strict=True):
            for parameter, moved in ((layer.weight, weight), (layer.bias, bias)):
                if moved is not None:
                    self._last[names[id(parameter)]] = moved

    def _names(self) -> dict[int, str]:
        return {id(parameter): name for name, parameter in self._model.named_parameters()}

    def shares(self) -> dict[str, Integers]:
        """Returns this party's shares, by names that no parameter has; secret."""
        return to_arrays(_PREFIX, self._last)

    def load_shares(self, shares: Mapping[str, Integers]) -> None:
        """Those that `shares` returned are the velocity; others of the mapping are left alone."""
        self._last = from_arrays(_PREFIX, shares)

    def state(self) -> int | None:
        """Returns by how many bits the last step was truncated, which is public."""
        return self._truncated

    def restore(self, state: int | None) -> None:
        """What `state` returned holds for the next step."""
        self._truncated = state
