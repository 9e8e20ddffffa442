"""One party of SPU's ABY3 at 1/sqrt(x), for an interpreter that has the package `spu`.

It imports nothing of this project but `benchmarks.instruments.spu_party` and
`benchmarks.inverse_sqrt.points`.
"""

from typing import Any

from benchmarks.instruments.spu_party import SpuParty, compiled, serve, timed

METHODS = {"rsqrt": False, "rsqrt, enable_lower_accuracy_rsqrt": True}
"""The measured settings, by the value of that option: a polynomial of degree 4, or of degree 2.

Neither has Newton steps, and no other option of SPU 0.9.5 changes what rsqrt sends under ABY3.
"""


class Party(SpuParty):
    """This party at the methods."""

    def approximate(self, *, method: str, frac_bits: int, count: int) -> Any:
        """Returns what the method gives at the `points`, to the first party."""
        from benchmarks.inverse_sqrt.points import points

        runtime, programme = self._prepare(method, frac_bits, points(frac_bits, count))
        runtime.run(programme)
        (output,) = programme.output_names
        return self.opened(_io(frac_bits, method), runtime, output)

    def call(self, *, method: str, frac_bits: int, batch: int, calls: int) -> list[float]:
        """Returns the seconds from the end of one call to that of the next."""
        from benchmarks.inverse_sqrt.points import batch_of

        runtime, programme = self._prepare(method, frac_bits, batch_of(frac_bits, batch))
        self.link.barrier()
        return timed(lambda: runtime.run(programme), calls)

    def profile(self, *, method: str, frac_bits: int, batch: int) -> None:
        """One call, after which SPU logs what its link carried."""
        from benchmarks.inverse_sqrt.points import batch_of

        x = batch_of(frac_bits, batch)
        runtime, programme = self._prepare(method, frac_bits, x, profiled=True)
        runtime.run(programme)

    def _prepare(self, method: str, frac_bits: int, x: Any, *, profiled: bool = False) -> Any:
        """A runtime that holds this party's share of x, and the compiled programme."""
        import jax
        from spu.api import Runtime

        runtime = Runtime(self.link, _configuration(frac_bits, method, profiled))
        self.share(_io(frac_bits, method), runtime, "x", x)
        return runtime, compiled(jax.lax.rsqrt, {"x": x})


def _io(frac_bits: int, method: str) -> Any:
    from spu.api import Io

    return Io(3, _configuration(frac_bits, method, False))


def _configuration(frac_bits: int, method: str, profiled: bool) -> Any:
    from spu import libspu

    configuration = libspu.RuntimeConfig(
        protocol=libspu.ProtocolKind.ABY3,
        field=libspu.FieldType.FM64,
        fxp_fraction_bits=frac_bits,
    )
    configuration.enable_lower_accuracy_rsqrt = METHODS[method]
    configuration.enable_hal_profile = profiled
    return configuration


if __name__ == "__main__":
    serve(Party)
