"""The hosts by name; the code of each is imported in a process of its own alone."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from benchmarks.instruments import spu
from benchmarks.instruments.hosts import ABY3, CRYPTEN, GLOO, SPU
from benchmarks.inverse_sqrt import spu_party
from benchmarks.inverse_sqrt.session import INV_SQRT, OURS, PAPER, SQRT_RECIPROCAL, measure
from extensions.errors import PeaError, install_command
from extensions.rules import one_of

TIMED = {
    CRYPTEN: (OURS, PAPER, INV_SQRT, SQRT_RECIPROCAL),
    GLOO: (OURS,),
    ABY3: (OURS, PAPER, INV_SQRT),
    SPU: tuple(spu_party.METHODS),
}
"""Methods whose time is taken. The others are settings that buy accuracy with more rounds."""

_HERE = (
    (CRYPTEN, "crypten", "crypten"),
    (GLOO, "crypten", "crypten"),
    (ABY3, "tf_encrypted", "tfe"),
)
"""Those that this interpreter may have, each with its package and what installs it."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """A host that can run here.

    Attributes:
        name: CRYPTEN, ABY3 or SPU.
        options: what its functions take besides the task: SPU's interpreter.
        versions: of packages in that interpreter.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def available(spu_python: str, names: Collection[str] | None = None) -> list[Host]:
    """Returns the hosts that can run here; prints a line for each that cannot.

    Args:
        spu_python: an interpreter that may have SPU.
        names: of the hosts that are wanted, all by default.

    Raises:
        ArgumentError: there is no host of such a name.
        PeaError: none of them can run here.
    """
    wanted = tuple(TIMED) if names is None else tuple(names)
    for name in wanted:
        one_of(TIMED).check("host", name)
    hosts = []
    for name, package, extra in _HERE:
        if name not in wanted:
            continue
        if find_spec(package):
            hosts.append(Host(name=name))
        else:
            print(f"{name} is left out: it is not installed. Type: {install_command(extra)}")
    if SPU in wanted:
        if versions := spu.versions(spu_python):
            hosts.append(Host(name=SPU, options={"python": spu_python}, versions=versions))
        else:
            print(
                f"{SPU} is left out: {spu_python} does not have it. Type in an environment of its "
                f"own: {install_command('spu')}, and give its python as spu_python."
            )
    if not hosts:
        raise PeaError("No host is left to be measured; the lines above say what to install.")
    return hosts


def values(host: str, frac_bits: int, count: int, **options: Any) -> dict[str, list[float]]:
    """Returns each method's approximations at the points, by name."""
    found: dict[str, list[float]] = _module(host).values(
        frac_bits=frac_bits, count=count, **options
    )
    return found


def timings(
    host: str, frac_bits: int, plan: Sequence[tuple[str, int, int]], **options: Any
) -> list[dict[str, Any]]:
    """Returns what `measure` finds for each method, batch and number of calls of the plan."""
    if host == GLOO:
        options["host"] = GLOO
    with _module(host).session(frac_bits=frac_bits, **options) as session:
        return [measure(session, *step) for step in plan]


def _module(host: str) -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if host == SPU:
        from benchmarks.inverse_sqrt import spu_host

        return spu_host
    if host == ABY3:
        from benchmarks.inverse_sqrt import aby3_host

        return aby3_host
    from benchmarks.inverse_sqrt import crypten_host

    return crypten_host
