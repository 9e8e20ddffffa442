"""Adam's moments in an optimizer of scripts: this party's shares of them, and steps by them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from crypten_ext.nn.named_shares import from_arrays, to_arrays
from crypten_ext.nn.provenance import LayerUse, Pairs
from crypten_ext.ring.crypten_ring import CrypTenRing
from extensions.protocols.dpsgd import Sums
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.optimizer import AdamPlan, adam_of, adam_updates
from extensions.protocols.settings import ScriptTraining
from extensions.ring.fixed_point import Integers

_PREFIXES = ("first moment of ", "second moment of ")


class AdamMoments:
    """The moments of a model's parameters, zero before the first step.

    Args:
        model: encrypted.
        settings: of the optimizer.
    """

    def __init__(self, model: Any, settings: ScriptTraining) -> None:
        self._model = model
        self._settings = settings
        self._moments: tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]] = ({}, {})

    def plan(self, step: StepPlan) -> AdamPlan:
        """Returns the constants of steps by sums of that plan.

        Raises:
            ArgumentError: they do not fit the ring.
        """
        return adam_of(self._settings, step, self._settings.eps)

    def step(
        self, ring: CrypTenRing, sums: Sums, plan: AdamPlan, layers: Sequence[LayerUse], number: int
    ) -> tuple[Pairs, Callable[[], None]]:
        """Returns what a step takes from each layer, and what lets the moments go on.

        Args:
            ring: of the model.
            sums: noisy.
            plan: of the step.
            layers: as they were applied.
            number: of the step, from 1 on.
        """
        before = self._of(layers, 0), self._of(layers, 1)
        updates, after = adam_updates(ring, sums, before, plan, plan.public(number))

        def note() -> None:
            for which, pairs in enumerate(after):
                self._keep(layers, which, pairs)

        return updates, note

    def _of(self, layers: Sequence[LayerUse], which: int) -> Sums:
        names, known = self._names(), self._moments[which]

        def own(parameter: Any) -> torch.Tensor | None:
            if parameter is None or not parameter.requires_grad:
                return None
            found = known.get(names[id(parameter)])
            return torch.zeros_like(parameter.share) if found is None else found

        return [
            pair for layer in layers for pair in layer.apart(own(layer.weight), own(layer.bias))
        ]

    def _keep(self, layers: Sequence[LayerUse], which: int, pairs: Any) -> None:
        names, known, each = self._names(), self._moments[which], iter(pairs)
        for layer in layers:
            moved = layer.together([next(each) for _ in range(layer.stage.layers)])
            for parameter, moment in zip((layer.weight, layer.bias), moved, strict=True):
                if moment is not None:
                    known[names[id(parameter)]] = moment

    def _names(self) -> dict[int, str]:
        return {id(parameter): name for name, parameter in self._model.named_parameters()}

    def shares(self) -> dict[str, Integers]:
        """Returns this party's shares, by names that no parameter has; secret."""
        both = zip(_PREFIXES, self._moments, strict=True)
        return {name: array for p, own in both for name, array in to_arrays(p, own).items()}

    def load_shares(self, shares: Mapping[str, Integers]) -> None:
        """Those that `shares` returned are the moments; others of the mapping are left alone."""
        first, second = (from_arrays(prefix, shares) for prefix in _PREFIXES)
        self._moments = first, second
