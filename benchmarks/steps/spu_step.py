"""One party of SPU at the step of `benchmarks.steps.linear_step`, written in JAX.

`benchmarks.instruments.spu.SpuParties` runs it by an interpreter that has the package `spu`; it
imports nothing of this project but `benchmarks.instruments.spu_party` and
`extensions.transport.kernel`.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.instruments.spu_party import SpuParty, compiled, serve, timed
from extensions.transport.kernel import carried, connections

PLAIN, GHOST, MATERIALISED = "plain SGD", "DPSGD", "DPSGD, materialised"
"""As in `benchmarks.steps.linear_step`, which needs more than SPU's environment has."""
NAMES = ("x", "norms", "y", "weight", "bias")
WARM_UP = 2


def step(kind: str, x: Any, norms: Any, y: Any, weight: Any, bias: Any, *noise: Any) -> Any:
    """Returns weight and bias after one step, with bound 1, rate 1 and the parties' noise.

    rsqrt(max(||g||^2, 1)) is min(1, 1 / ||g||), and keeps rsqrt in the range in which SPU has it.
    """
    import jax
    import jax.numpy as jnp

    delta = jax.nn.sigmoid(x @ weight.T + bias) - y
    if kind == MATERIALISED:
        gradients = delta[:, :, None] * x[:, None, :]
        squares = (gradients * gradients).sum((1, 2)) + (delta * delta).sum(1)
        factor = jax.lax.rsqrt(jnp.maximum(squares, 1.0))[:, None]
        of_weight = (gradients * factor[:, :, None]).sum(0)
        of_bias = (delta * factor).sum(0)
    else:
        if kind == GHOST:
            squares = (delta * delta).sum(1) * (norms + 1.0)
            delta = delta * jax.lax.rsqrt(jnp.maximum(squares, 1.0))[:, None]
        of_weight, of_bias = delta.T @ x, delta.sum(0)
    of_weight, of_bias = noisy((of_weight, of_bias), noise)
    return weight - of_weight / len(x), bias - of_bias / len(x)


def inputs(batch: int, features: int, classes: int) -> dict[str, Any]:
    """Returns rows, their squared norms, targets, weight and bias, as `linear_step` draws them."""
    draws = np.random.default_rng(0)
    x = draws.uniform(-1.0, 1.0, (batch, features)) / np.sqrt(features)
    y = np.eye(classes)[np.arange(batch) % classes]
    weight = draws.uniform(-0.1, 0.1, (classes, features))
    values = (x, (x * x).sum(1), y, weight, np.zeros(classes))
    return {name: np.float32(value) for name, value in zip(NAMES, values, strict=True)}


def noisy(updates: Sequence[Any], noise: Sequence[Any]) -> list[Any]:
    """Returns updates with each party's noise, a vector of as many values as they have together."""
    found, start = [], 0
    for update in updates:
        for own in noise:
            update = update + own[start : start + update.size].reshape(update.shape)
        found.append(update)
        start += update.size
    return found


class Stepping(SpuParty):
    """This party at a step; a subclass says at which."""

    def given(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what is shared before, by name; behind x, norms and y are the parameters."""
        raise NotImplementedError

    def step(self, kind: str, sizes: Mapping[str, Any], *values: Any) -> Any:
        """Returns the parameters after a step, given what is shared and each party's noise."""
        raise NotImplementedError

    def measure(
        self, *, kind: str, steps: int, sizes: dict[str, Any], sigma: float, protocol: str = "ABY3"
    ) -> Any:
        """Returns bytes by TCP's count, the seconds of each step, and the opened result.

        Each party's noise, of standard deviation `sigma`, is its own private input, drawn anew for
        each step.
        """
        from spu import libspu
        from spu.api import Io, Runtime

        given = self.given(sizes)
        values = sum(given[name].size for name in [*given][3:])
        noises = [f"noise {owner}" for owner in range(0 if kind == PLAIN else self.parties)]
        owned = dict.fromkeys(noises, np.zeros(values, np.float32))
        programme = compiled(partial(self.step, kind, sizes), {**given, **owned})
        configuration = _configuration(protocol)
        io, runtime = Io(self.parties, configuration), Runtime(self.link, configuration)
        for name, value in given.items():
            self.share(io, runtime, name, value)
        draws = np.random.default_rng()

        def act() -> None:
            for owner, name in enumerate(owned):
                drawn = draws.normal(0.0, sigma, values).astype(np.float32)
                shares = io.make_shares(drawn, libspu.Visibility.VIS_SECRET, owner)
                runtime.set_var(name, shares[self.rank])
            runtime.run(programme)

        timed(act, WARM_UP)
        self.link.barrier()
        before = _carried()
        seconds = timed(act, steps)
        self.link.barrier()
        size = (_carried() - before) / steps
        found = [self.opened(io, runtime, name) for name in programme.output_names]
        cost = {"rounds": None, "bytes": size, "dealt": 0.0, "seconds": seconds}
        return {"cost": cost, "opened": found}


class Party(Stepping):
    """This party at a step of a linear model."""

    def given(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what `inputs` does."""
        return inputs(**sizes)

    def step(self, kind: str, sizes: Mapping[str, Any], *values: Any) -> Any:
        """Returns what `step` does."""
        return step(kind, *values)


def _carried() -> int:
    """What all connections of this process sent and received."""
    return sum(carried(one.descriptor for one in connections()))


def _configuration(protocol: str) -> Any:
    """A protocol over 64 bits as SPU sets it, with its cheapest sigmoid and private inputs."""
    from spu import libspu

    configuration = libspu.RuntimeConfig(
        protocol=getattr(libspu.ProtocolKind, protocol),
        field=libspu.FieldType.FM64,
        fxp_fraction_bits=18,
    )
    configuration.sigmoid_mode = libspu.RuntimeConfig.SigmoidMode.SIGMOID_SEG3
    configuration.enable_lower_accuracy_rsqrt = True
    configuration.experimental_enable_colocated_optimization = True
    return configuration


if __name__ == "__main__":
    serve(Party)
