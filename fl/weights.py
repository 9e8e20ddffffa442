"""What clients exchange of a model, as one row of numbers, in the order of its state."""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy

from extensions.errors import ArgumentError, UpdateError

Weights = npt.NDArray[np.float32]
Shared = str | Sequence[str]
"""Which values of a model clients exchange: `Parts.of`."""

LOCAL = "local."
"""Before the names of values that a client keeps, among those of its state."""


@dataclass(frozen=True)
class Parts:
    """The names of what clients do not exchange of a model, though training changes it.

    Attributes:
        without: all of them.
        local: those that each client keeps from round to round, and integers.
    """

    without: tuple[str, ...] = ()
    local: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: nn.Module, *, statistics: bool = True, shared: Shared = "all") -> "Parts":
        """Returns the parts of a model by the settings of a run.

        Raises ArgumentError for a name that nothing has which training changes.
        """
        state, others = _state(model), running_statistics(model)
        names = [k for k, v in state.items() if _moves(v)]
        chosen = names if shared == "all" else _chosen(model, names, others, shared)
        dropped = () if statistics else others
        without = tuple(k for k in names if k not in chosen or k in dropped)
        if shared == "all":
            return cls(without)
        sent = {id(v) for v in _exchanged(model, without).values()}
        kept = (k for k, v in state.items() if id(v) not in sent and _trains(v, statistics))
        return cls(without, tuple(kept))

    def get(self, model: nn.Module) -> dict[str, Tensor]:
        """Returns a copy of what a client keeps of a model, by name after `LOCAL`."""
        state = _state(model)
        return {f"{LOCAL}{k}": state[k].detach().to("cpu", copy=True) for k in self.local}

    def set(self, model: nn.Module, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Gives the model what a client's state has of it, which is nothing before its first round.

        Returns the rest of it. Raises ArgumentError if names, types or shapes are others.
        """
        ours = {f"{LOCAL}{k}": v.detach() for k, v in _state(model).items() if k in self.local}
        kept = {name: state[name] for name in ours if name in state}
        same = [v.shape == ours[k].shape and v.dtype == ours[k].dtype for k, v in kept.items()]
        if kept and not (all(same) and kept.keys() == ours.keys()):
            rule = "what clients keep of this model"
            raise ArgumentError("state of a client", sorted(kept)[:2], rule, code="file")
        for name, value in kept.items():
            ours[name].copy_(value)
        return {name: value for name, value in state.items() if name not in ours}


WHOLE = Parts()


def _chosen(
    model: nn.Module, names: Sequence[str], statistics: Collection[str], shared: Shared
) -> Collection[str]:
    """Returns the names among these that clients share."""
    if shared == "trainable":
        return set(names) - set(statistics)
    if shared == "fedbn":
        layers = tuple(f"{name}." for name in batch_norms(model))
        return {k for k in names if not k.startswith(layers)}
    patterns = [shared] if isinstance(shared, str) else shared
    if not isinstance(patterns, Sequence) or not all(isinstance(p, str) for p in patterns):
        raise ArgumentError("shared", shared, "names of parameters, or a choice", code="type")
    found = {p: {k for k in names if fnmatchcase(k, p)} for p in patterns}
    wrong = [p for p, own in found.items() if not own]
    if wrong or not found:
        rule = "'all', 'trainable', 'fedbn', or names of parameters that are trained"
        hint = f"The model has {', '.join(names)}."
        raise ArgumentError("shared", wrong, rule, hint, code="choice")
    return set().union(*found.values())


def _entries(model: nn.Module, without: Collection[str]) -> dict[str, Tensor]:
    """Returns what clients exchange of a model, by name, in single precision."""
    entries = _exchanged(model, without)
    if wrong := {str(entry.dtype) for entry in entries.values()} - {"torch.float32"}:
        rule, hint = "of single precision", "Type: model.float()"
        raise ArgumentError("model", sorted(wrong), rule, hint, code="type")
    if not entries:
        raise ArgumentError("model", type(model).__name__, "a model with trainable parameters")
    return entries


def _exchanged(model: nn.Module, without: Collection[str]) -> dict[str, Tensor]:
    """Returns each tensor once, under the first of its names where layers share it."""
    found = {k: v for k, v in _state(model).items() if k not in without and _moves(v)}
    first = {id(entry): name for name, entry in reversed(found.items())}
    once = {name: entry for name, entry in found.items() if first[id(entry)] == name}
    places = Counter(entry.data_ptr() for entry in once.values() if entry.numel())
    if shared := [name for name, entry in once.items() if places[entry.data_ptr()] > 1]:
        rule = "a model whose parameters each have their own memory"
        hint = "To tie them, use one parameter: last.weight = first.weight."
        raise ArgumentError("model", shared[:2], rule, hint)
    return once


def _state(model: nn.Module) -> dict[str, Tensor]:
    state: dict[str, Tensor] = model.state_dict(keep_vars=True)
    if any(map(is_lazy, state.values())):
        hint = "Call it on two records first: model(x[:2])."
        raise ArgumentError("model", type(model).__name__, "a model without lazy layers", hint)
    return state


def _moves(entry: Tensor) -> bool:
    """Whether training changes an entry: a buffer, or a parameter that is not frozen."""
    return entry.is_floating_point() and _trains(entry, buffers=True)


def _trains(entry: Tensor, buffers: bool) -> bool:
    return entry.requires_grad or (buffers and not isinstance(entry, nn.Parameter))


def device_of(model: nn.Module) -> torch.device:
    """Returns where the model's values are, and so where its records have to be."""
    first: Tensor = next(iter(model.state_dict().values()))
    return first.device


def batch_norms(model: nn.Module) -> list[str]:
    """Returns the names of all layers of BatchNorm, every name of each."""
    modules = model.named_modules(remove_duplicate=False)
    return [name for name, part in modules if isinstance(part, _BatchNorm)]


def running_statistics(model: nn.Module) -> tuple[str, ...]:
    """Returns the names of all floating-point values of the model that are no parameters."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    values = model.state_dict()
    return tuple(k for k, v in values.items() if v.is_floating_point() and k not in parameters)


def get_weights(
    model: nn.Module, *, without: Collection[str] = (), like: nn.Module | None = None
) -> Weights:
    """Returns a copy of what clients exchange of a model (size,).

    That is every parameter that is trained, and every floating-point buffer; a tensor that layers
    share is there once. Frozen parameters, integer buffers such as counts of batches, and what is
    left out are no part of it: every training of a client begins with those of the model that the
    run was given, or with its own (`Parts`).

    Args:
        model: of single precision in what is exchanged.
        without: names of what is left out.
        like: the model that says what is exchanged, of which `model` was a copy before its
            training; None: `model` itself.

    Raises:
        ArgumentError: a model without parameters that are trained, of another precision, or whose
            parameters are several in the same memory: copies of it would not share that.
    """
    state = _state(model)
    entries = [state[name].detach() for name in _entries(like or model, without)]
    row: Weights = torch.cat([entry.reshape(-1).cpu().float() for entry in entries]).numpy().copy()
    return row


def not_exchanged(model: nn.Module, *, without: Collection[str] = ()) -> dict[str, str]:
    """Returns a digest of the floating-point values that are not exchanged, for `facts`.

    All parties of a run, and a run that goes on, must have the same. It is empty where all is
    exchanged.
    """
    exchanged = {id(entry) for entry in _exchanged(model, without).values()}
    kept = {k: v for k, v in _state(model).items() if v.is_floating_point()}
    digest = hashlib.sha256()
    left = {k: v.detach().cpu() for k, v in kept.items() if id(v) not in exchanged}
    for name, entry in left.items():
        digest.update(f"{name} {entry.dtype} {tuple(entry.shape)} ".encode())
        digest.update(entry.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return {"not exchanged": digest.hexdigest()} if left else {}


def of_parameters(model: nn.Module, *, without: Collection[str] = ()) -> npt.NDArray[np.bool_]:
    """Returns which values of `get_weights` are parameters, (size,)."""
    others = running_statistics(model)
    entries = _entries(model, without)
    return np.concatenate([np.full(entries[k].numel(), k not in others) for k in entries])


def set_weights(model: nn.Module, weights: Weights, *, without: Collection[str] = ()) -> None:
    """Gives the model these values of `get_weights`, in place."""
    row = torch.from_numpy(weights.copy())
    entries = _entries(model, without).values()
    with torch.no_grad():
        parts = torch.split(row, [entry.numel() for entry in entries])
        for entry, part in zip(entries, parts, strict=True):
            entry.copy_(part.reshape(entry.shape))


def next_weights(weights: Weights, mean: npt.NDArray[np.float64], *, delta: bool) -> Weights:
    """Returns the weights of the next model, from the mean of what clients sent.

    Raises UpdateError if the mean has another size, or leads to NaN or infinity.
    """
    if mean.shape != weights.shape:
        raise UpdateError(f"the mean has shape {mean.shape}, not {weights.shape}.")
    with np.errstate(over="ignore"):
        new = (weights + mean if delta else mean).astype(np.float32)
    if not np.all(np.isfinite(new)):
        raise UpdateError("the new model would hold NaN or infinity.")
    return new
