"""One party of SPU at the steps of `benchmarks.steps.step`.

`benchmarks.instruments.spu.SpuParties` runs it by an interpreter that has the package `spu`; it
imports nothing that needs more than SPU's environment has.
"""

from functools import partial
from typing import Any

import numpy as np

from benchmarks.instruments.spu_party import SpuParty, compiled, serve, timed
from benchmarks.steps import spu_step as linear
from benchmarks.steps.models import spu_step as models
from benchmarks.steps.spu_step import PLAIN
from extensions.transport.kernel import carried, connections

WARM_UP = 2


class Party(SpuParty):
    """This party at a step of a linear model, or of one of the models."""

    def measure(
        self, *, kind: str, steps: int, sizes: dict[str, Any], sigma: float, protocol: str = "ABY3"
    ) -> Any:
        """Returns bytes by TCP's count, the seconds of each step, and the opened result.

        Each party's noise, of standard deviation `sigma`, is its own private input, drawn anew for
        each step.
        """
        from spu import libspu
        from spu.api import Io, Runtime

        work: Any = linear
        fixed = [kind]
        if "model" in sizes:
            work, fixed = models, [kind, sizes["model"]]
        given = work.inputs(**sizes)
        values = sum(given[name].size for name in [*given][3:])
        noises = [f"noise {owner}" for owner in range(0 if kind == PLAIN else self.parties)]
        owned = dict.fromkeys(noises, np.zeros(values, np.float32))
        programme = compiled(partial(work.step, *fixed), {**given, **owned})
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
