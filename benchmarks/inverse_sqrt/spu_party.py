"""One party of SecretFlow SPU's ABY3, for an interpreter that has the package `spu`.

Run as ``python -m benchmarks.inverse_sqrt.spu_party RANK ADDRESSES``, it reads one JSON line a
task, {"task": NAME, ...arguments}, and answers on the descriptor that standard output was. SPU's
log goes to the error output. Of this project only `benchmarks.inverse_sqrt.points` is imported.
"""

import json
import os
import pickle
import sys
import time
from typing import Any

METHODS = {"rsqrt": False, "rsqrt, enable_lower_accuracy_rsqrt": True}
"""The measured settings, by the value of that option: a polynomial of degree 4, or of degree 2.

Neither has Newton steps, and no other option of SPU 0.9.5 changes what rsqrt sends under ABY3.
"""


class Party:
    """This party's end of the link, and the programmes compiled so far."""

    def __init__(self, rank: int, addresses: list[str]) -> None:
        from spu.libspu import link

        parties = link.Desc()
        for i, address in enumerate(addresses):
            parties.add_party(str(i), address)
        self._rank = rank
        self._link = link.create_brpc(parties, rank)

    def approximate(self, *, method: str, frac_bits: int, count: int) -> list[float]:
        """Returns what the method gives at the `points`; the first party's answer."""
        from benchmarks.inverse_sqrt.points import points

        runtime, programme = self._prepare(method, frac_bits, points(frac_bits, count))
        runtime.run(programme)
        (output,) = programme.output_names
        shares = self._link.gather(pickle.dumps(runtime.get_var(output)).hex(), 0)
        if self._rank:
            return []
        io = self._io(frac_bits, method)
        opened = io.reconstruct([pickle.loads(bytes.fromhex(share)) for share in shares])
        return [float(value) for value in opened]

    def call(self, *, method: str, frac_bits: int, batch: int, calls: int) -> list[float]:
        """Returns the seconds from the end of one call to that of the next."""
        from benchmarks.inverse_sqrt.points import batch_of

        runtime, programme = self._prepare(method, frac_bits, batch_of(frac_bits, batch))
        self._link.barrier()
        ends = [time.perf_counter()]
        for _ in range(calls):
            runtime.run(programme)
            ends.append(time.perf_counter())
        return [after - before for before, after in zip(ends[:-1], ends[1:], strict=True)]

    def profile(self, *, method: str, frac_bits: int, batch: int) -> None:
        """One call, after which SPU logs what its link carried."""
        from benchmarks.inverse_sqrt.points import batch_of

        runtime, programme = self._prepare(
            method, frac_bits, batch_of(frac_bits, batch), profiled=True
        )
        runtime.run(programme)

    def _prepare(self, method: str, frac_bits: int, x: Any, *, profiled: bool = False) -> Any:
        """A runtime that holds this party's share of x, and the compiled programme."""
        import jax
        from spu import libspu
        from spu.api import Runtime
        from spu.utils import frontend

        programme, _ = frontend.compile(
            frontend.Kind.JAX,
            jax.lax.rsqrt,
            (x,),
            {},
            ["x"],
            [libspu.Visibility.VIS_SECRET],
            lambda outputs: [f"y{i}" for i in range(len(outputs))],
        )
        shares = []
        if self._rank == 0:
            made = self._io(frac_bits, method).make_shares(x, libspu.Visibility.VIS_SECRET)
            shares = [pickle.dumps(share).hex() for share in made]
        runtime = Runtime(self._link, self._configuration(frac_bits, method, profiled))
        runtime.set_var("x", pickle.loads(bytes.fromhex(self._link.scatter(shares, 0))))
        return runtime, programme

    def _io(self, frac_bits: int, method: str) -> Any:
        from spu.api import Io

        return Io(3, self._configuration(frac_bits, method, False))

    def _configuration(self, frac_bits: int, method: str, profiled: bool) -> Any:
        from spu import libspu

        configuration = libspu.RuntimeConfig(
            protocol=libspu.ProtocolKind.ABY3,
            field=libspu.FieldType.FM64,
            fxp_fraction_bits=frac_bits,
        )
        configuration.enable_lower_accuracy_rsqrt = METHODS[method]
        configuration.enable_hal_profile = profiled
        return configuration


def main() -> None:
    """The party answers tasks until its input ends."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        party = Party(int(sys.argv[1]), sys.argv[2].split(","))
        for line in sys.stdin:
            arguments = json.loads(line)
            answer = getattr(party, arguments.pop("task"))(**arguments)
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
        os._exit(0)  # SPU's link would wait for the others, which have gone


if __name__ == "__main__":
    main()
