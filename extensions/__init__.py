"""The protocols of PEA, stated once, for every secure-computation host.

This package knows no framework: it imports neither torch nor tensorflow. The protocols and the
ring (`extensions.protocols`, `extensions.ring`) need NumPy alone.
A host takes part by implementing `extensions.ring.interface.Ring` and, for whole runs,
`extensions.protocols.host.Host`.
"""

from typing import TYPE_CHECKING

__version__: str

if not TYPE_CHECKING:

    def __getattr__(name: str) -> str:
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("pea-mpl")
        except PackageNotFoundError:  # a checkout that was not installed
            return "0.0.0"
