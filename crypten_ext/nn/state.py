"""What an optimizer of scripts goes on from: this party's shares of the parameters, and beside."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from crypten_ext.nn.provenance import LayerUse, Pairs, split_parameters
from extensions.protocols.dpsgd import Sums
from extensions.protocols.optimizer import MODEL, TOTAL, Store
from extensions.ring.fixed_point import Integers

_IN_FILES = {TOTAL: "sum of iterates"}


class Shares(Store):
    """An encrypted model's parameters, and shares like them, zeros before the first step.

    `names` are those of `extensions.protocols.updates` for what there is beside.
    """

    def __init__(self, model: Any, names: Sequence[str]) -> None:
        self._model = model
        self._beside: dict[str, dict[str, torch.Tensor]] = {name: {} for name in names}
        self._layers: Sequence[LayerUse] = ()

    def at(self, layers: Sequence[LayerUse]) -> "Shares":
        """Returns it, which from now on is read and written layer by layer of these."""
        self._layers = layers
        return self

    def __contains__(self, name: str) -> bool:
        return bool(self._beside[name])

    def drop(self, name: str) -> None:
        """Forgets the shares of that name."""
        self._beside[name].clear()

    def read(self, name: str) -> Pairs:
        """Returns the shares of each layer; None of what is frozen."""
        places = self._places()

        def own(parameter: Any) -> Any:
            if parameter is None or not parameter.requires_grad:
                return None
            if name == MODEL:
                return parameter.share
            found = self._beside[name].get(places[id(parameter)])
            return torch.zeros_like(parameter.share) if found is None else found

        return [
            pair
            for layer in self._layers
            for pair in split_parameters(layer.stage, own(layer.weight), own(layer.bias))
        ]

    def write(self, changed: Mapping[str, Sums]) -> None:
        """Puts shares in the place of those before."""
        places = self._places()
        for name, pairs in changed.items():
            for parameter, share in self._joined(pairs):
                if name == MODEL:
                    parameter.share = share
                else:
                    self._beside[name][places[id(parameter)]] = share

    def _joined(self, pairs: Sums) -> Iterator[tuple[Any, torch.Tensor]]:
        """Yields parameters, and of each its shares in pairs, of which a stage may have several."""
        pair = iter(pairs)
        for layer in self._layers:
            parts = zip(*(next(pair) for _ in range(layer.stage.layers)), strict=True)
            for parameter, each in zip((layer.weight, layer.bias), parts, strict=True):
                own = [part for part in each if part is not None]
                if own:
                    yield parameter, torch.cat(own).reshape(parameter.size())

    def _places(self) -> dict[int, str]:
        return {id(parameter): name for name, parameter in self._model.named_parameters()}

    def shares(self) -> dict[str, Integers]:
        """Returns what is beside by names that no parameter has, as checkpoints keep it; secret."""
        return {
            _prefix(name) + place: share.numpy()
            for name, shares in self._beside.items()
            for place, share in shares.items()
        }

    def load_shares(self, shares: Mapping[str, Integers]) -> None:
        """Replaces all by what `shares` returned; others of the mapping are left alone."""
        for name, own in self._beside.items():
            own.clear()
            for key, array in shares.items():
                if key.startswith(_prefix(name)):
                    own[key.removeprefix(_prefix(name))] = torch.from_numpy(array.copy())


def _prefix(name: str) -> str:
    return f"{_IN_FILES.get(name, name.replace('_', ' '))} of "
