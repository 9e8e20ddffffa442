"""What an optimizer of scripts goes on from: this party's shares beside the parameters, by name."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from crypten_ext.nn.provenance import LayerUse, Pairs, apart
from crypten_ext.ring.crypten_ring import CrypTenRing
from extensions.errors import ArgumentError, GradientError
from extensions.privacy.ledger import GO_ON
from extensions.protocols.optimizer import Mean
from extensions.protocols.settings import ScriptTraining
from extensions.ring.fixed_point import Integers

TOTAL = "sum_of_iterates"


class Beside:
    """Shares like the parameters, zeros before the first step.

    Args:
        model: encrypted.
        names: of what there is (`extensions.protocols.updates`).
    """

    def __init__(self, model: Any, names: Sequence[str]) -> None:
        self._model = model
        self.named: dict[str, dict[str, torch.Tensor]] = {name: {} for name in names}

    def of(self, layers: Sequence[LayerUse]) -> dict[str, Pairs]:
        """Returns what a rule goes on from, for each layer; None of what is frozen."""
        places = self._places()

        def own(name: str, parameter: Any) -> torch.Tensor | None:
            if parameter is None or not parameter.requires_grad:
                return None
            found = self.named[name].get(places[id(parameter)])
            return torch.zeros_like(parameter.share) if found is None else found

        return {
            name: [
                pair
                for layer in layers
                for pair in apart(layer.stage, own(name, layer.weight), own(name, layer.bias))
            ]
            for name in self.named
            if name != TOTAL
        }

    def keep(self, layers: Sequence[LayerUse], kept: Mapping[str, Any]) -> None:
        """Takes what is kept for each layer in the place of what was; None stays."""
        places = self._places()
        for name, pairs in kept.items():
            for parameter, share in moved(layers, pairs):
                self.named[name][places[id(parameter)]] = share

    def _places(self) -> dict[int, str]:
        return {id(parameter): name for name, parameter in self._model.named_parameters()}

    def shares(self) -> dict[str, Integers]:
        """Returns it by names that no parameter has, as checkpoints keep it; secret."""
        return {
            _prefix(name) + place: share.numpy()
            for name, shares in self.named.items()
            for place, share in shares.items()
        }

    def load_shares(self, shares: Mapping[str, Integers]) -> None:
        """What `shares` returned takes the place of all; others of the mapping are left alone."""
        for name, own in self.named.items():
            own.clear()
            for key, array in shares.items():
                if key.startswith(_prefix(name)):
                    own[key.removeprefix(_prefix(name))] = torch.from_numpy(array.copy())


def moved(layers: Sequence[LayerUse], pairs: Any) -> list[tuple[Any, torch.Tensor]]:
    """Returns parameters, and of each its shares in pairs, of which each layer of a stage has one.

    Those of which there is none are left out.
    """
    pair, found = iter(pairs), []
    for layer in layers:
        own = [next(pair) for _ in range(layer.stage.layers)]
        weights, biases = (
            [part for part in parts if part is not None] for parts in zip(*own, strict=True)
        )
        if weights:
            found.append((layer.weight, torch.cat(weights).reshape(layer.weight.size())))
        if biases:
            found.append((layer.bias, torch.cat(biases)))
    return found


def _prefix(name: str) -> str:
    return f"{name.replace('_', ' ')} of "


class Averaging:
    """The mean of a training's last iterates (`extensions.protocols.optimizer.Mean`).

    Args:
        model: encrypted.
        settings: of the training; the mean is exact for weights below their `max_weight_norm`.
        total: this party's shares of the sum so far, by the parameters' names.

    Raises:
        ArgumentError: a part of steps whose number nobody knows.
    """

    def __init__(
        self, model: Any, settings: ScriptTraining, total: dict[str, torch.Tensor]
    ) -> None:
        self.average = settings.average
        if self.average and settings.steps is None:
            advice = "It says which iterates are the last."
            raise ArgumentError("steps", None, "with {average}", advice, code="missing")
        self.steps = settings.steps or 0
        self._model = model
        self._largest = settings.max_weight_norm
        self._total = total

    def check(self, ring: CrypTenRing, made: int) -> None:
        """Returns only if a step may follow on so many.

        Raises:
            ArgumentError: too few bits of the ring are left for the mean.
            GradientError: it was the last, or the sum of those that count is lacking.
        """
        if not self.average:
            return
        if made >= self.steps:
            raise GradientError(
                f"All steps = {self.steps} are made, and the model is the mean of its last "
                f"iterates. Make another optimizer to train it further, and {GO_ON}"
            )
        mean = self._mean(ring)
        if any(map(mean.counts, range(1, made + 1))) and not self._total:
            raise GradientError(
                f"The sum of the iterates before step {made + 1} is lacking. Load the shares that "
                "the optimizer had then, or begin anew."
            )

    def before(self, ring: CrypTenRing, made: int) -> None:
        """Counts the present model, after so many steps, if it is one of the last; local."""
        if self.average and self._mean(ring).counts(made + 1):
            for name, parameter in self._model.named_parameters():
                if parameter.requires_grad:
                    share = parameter.share
                    self._total[name] = self._total[name] + share if name in self._total else share

    def after(self, ring: CrypTenRing, made: int) -> None:
        """Puts the mean in the model's place after the last step; one truncation then."""
        if made != self.steps or not self._total:
            return
        named = self._model.named_parameters()
        parameters = {name: each for name, each in named if name in self._total}
        last = [parameter.share for parameter in parameters.values()]
        totals = [self._total.pop(name) for name in parameters]
        means = self._mean(ring).of_shares(ring, totals, last)
        for parameter, share in zip(parameters.values(), means, strict=True):
            parameter.share = share

    def _mean(self, ring: CrypTenRing) -> Mean:
        return Mean.over(self.average, self.steps, ring.frac_bits, self._largest)
