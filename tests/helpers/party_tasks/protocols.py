"""What the parties of the CrypTen tests do; every function runs in each party of a pool."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import crypten_ext
from crypten_ext import nn, optim
from crypten_ext.nn.batches import poisson_batches
from crypten_ext.nn.provenance import provenance_of
from crypten_ext.processes.worker import Context
from extensions.errors import PeaError
from extensions.layers.losses import Loss
from tests.helpers.refused import fields_of
from tests.helpers.replayed import replayed

import crypten
from crypten import communicator
from crypten.mpc import MPCTensor
from crypten.mpc.primitives import ArithmeticSharedTensor, BinarySharedTensor

Reals = npt.NDArray[np.float64]
Outcome = tuple[str, str]

_COLLECTIVES = [
    *("all_gather", "all_reduce", "barrier", "broadcast", "broadcast_obj", "gather", "reduce"),
    *("irecv", "isend", "recv", "recv_obj", "scatter", "send", "send_obj"),
]
_OPENINGS = [
    (owner, name)
    for owner in (MPCTensor, ArithmeticSharedTensor, BinarySharedTensor)
    for name in ("get_plain_text", "reveal", "reveal_batch")
    if hasattr(owner, name)
]
SMALL = 2**40


@contextmanager
def session(frac_bits: int = 20, **settings: Any) -> Iterator[None]:
    """Inside the block our methods are on, at that precision, and CrypTen counts its traffic.

    Party 0 deals, unless the settings say otherwise.
    """
    was_enabled = crypten_ext.is_enabled()
    own = {
        "encoder.precision_bits": frac_bits,
        "communicator.verbose": True,
        "mpc.provider": "INSECURE_TFP",
    }
    with crypten.cfg.temp_override({**own, **settings}):
        crypten_ext.enable()
        try:
            yield
        finally:
            if not was_enabled:
                crypten_ext.disable()


def outcome(action: Callable[[], Any]) -> Outcome:
    """Returns type and text of the project's error that `action` raised, empty if none.

    CrypTen warns of plaintext inputs before our layers refuse them.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            action()
    except PeaError as error:
        return type(error).__name__, fields_of(error)
    return "", ""


def rounds() -> int:
    """Returns the rounds that CrypTen has counted."""
    return int(communicator.get().get_communication_stats()["rounds"])


@contextmanager
def recorded() -> Iterator[list[dict[str, Any]]]:
    """Yields a list that gets, for each collective of the block, its kind and what it opened.

    `small` counts opened words below 2^40 in magnitude, as a fixed-point value is and a masked one
    is not; `live` the bit positions that are ever set, `ones` the bits that are, in either half.
    """
    host, log = communicator.get(), []

    def wrap(name: str) -> Callable[..., Any]:
        original = getattr(host, name)

        def call(*arguments: Any, **options: Any) -> Any:
            result = original(*arguments, **options)
            log.append({"name": name, **_summary(result)})
            return result

        return call

    wrapped = {name: wrap(name) for name in _COLLECTIVES}
    try:
        vars(host).update(wrapped)
        yield log
    finally:
        for name in wrapped:
            delattr(host, name)


def _summary(opened: Any) -> dict[str, Any]:
    tensors = opened if isinstance(opened, list) else [opened]
    words = np.concatenate([t.numpy().ravel() for t in tensors if torch.is_tensor(t)] or [[]])
    words = words.astype(np.int64)
    live = int(np.bitwise_or.reduce(words, initial=0)) % 2**64
    return {
        "words": len(words),
        "small": int(((words > -SMALL) & (words < SMALL)).sum()),
        "ones": [
            int(np.unpackbits(half.view(np.uint8)).sum()) for half in np.array_split(words, 2)
        ],
        "live": live.bit_count(),
    }


@contextmanager
def nothing_revealed() -> Iterator[None]:
    """Inside the block CrypTen's own ways of opening a tensor raise."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a value was opened")

    originals = [(owner, name, vars(owner)[name]) for owner, name in _OPENINGS]
    try:
        for owner, name, _ in originals:
            setattr(owner, name, refuse)
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


def build(style: str, parameters: list[tuple[Reals, Reals | None]], activation: str) -> Any:
    """Returns a plaintext model, written with our layers, with CrypTen's or with PyTorch's."""
    if style == "torch":
        layers: list[Any] = []
        for weight, bias in parameters:
            layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
            with torch.no_grad():
                layer.weight.copy_(torch.from_numpy(weight))
                if bias is not None:
                    layer.bias.copy_(torch.from_numpy(bias))
            layers += [layer, getattr(torch.nn, activation)()]
        model = torch.nn.Sequential(*layers[:-1]) if len(layers) > 2 else layers[0]
        return crypten.nn.from_pytorch(model, torch.zeros(1, parameters[0][0].shape[1]))
    kinds = nn if style == "ours" else crypten.nn
    layers = []
    for weight, bias in parameters:
        layer = kinds.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
        layer.set_parameter("weight", torch.from_numpy(weight).requires_grad_())
        if bias is not None:
            layer.set_parameter("bias", torch.from_numpy(bias).requires_grad_())
        layers += [layer, getattr(kinds, activation)()]
    return crypten.nn.Sequential(*layers[:-1])


def opened(tensors: list[Any]) -> list[Reals]:
    """Returns the plaintext of encrypted tensors."""
    return [tensor.get_plain_text().numpy().astype(np.float64) for tensor in tensors]


def train(
    context: Context,
    *,
    x: Reals,
    y: Reals,
    parameters: list[tuple[Reals, Reals | None]],
    style: str = "ours",
    activation: str = "ReLU",
    optimizer: str = "DPSGD",
    kind: Loss = "sigmoid",
    frac_bits: int = 20,
    steps: int = 1,
    sample_rate: float = 1.0,
    classes: int = 3,
    seed: int | None = None,
    delta: float | None = None,
    decay: float = 1.0,
    **options: Any,
) -> dict[str, Any]:
    """Returns, for each step, the opened batch, the opened model before and after, and traffic.

    After each step the learning rate is multiplied by the decay, as PyTorch's schedules do it.
    """
    with session(frac_bits):
        model = build(style, parameters, activation).encrypt()
        source = replayed(seed)
        if optimizer.startswith("DP"):
            options |= {"source": source, "sample_rate": sample_rate, "steps": steps}
        stepper = getattr(optim, optimizer)(model, **options)
        schedule = torch.optim.lr_scheduler.ExponentialLR(stepper, decay)
        settings = {"sample_rate": sample_rate, "steps": steps, "classes": classes}
        log = []
        for batch, targets in poisson_batches(x, y, **settings, source=source):
            shared = provenance_of(batch).batch.shared
            padding = MPCTensor.from_shares(shared.padding, precision=0)
            seen = opened([batch, targets, padding])
            before = opened(model.parameters())
            with recorded() as traffic, nothing_revealed():
                counts = [rounds()]
                stepper.zero_grad()
                logits = model(batch)
                counts.append(rounds())
                loss = nn.LOSSES[kind]()(logits, targets)
                counts.append(rounds())
                loss.backward()
                counts.append(rounds())
                stepper.step()
                counts.append(rounds())
            schedule.step()
            with recorded() as plain:
                after = opened(model.parameters())
            log.append(
                {
                    "batch": seen,
                    "before": before,
                    "after": after,
                    "rounds": np.diff(counts).tolist(),
                    "traffic": traffic,
                    "unmasked": plain,
                }
            )
        spent = None if delta is None else stepper.get_epsilon(delta)
        return {"steps": log, "epsilon": spent}
