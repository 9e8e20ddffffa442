"""The protocols of PEA, stated once, for every secure-computation host.

This package knows no framework: it imports neither torch nor tensorflow. The protocols and the
ring (`extensions.protocols`, `extensions.ring`) need NumPy alone.
A host takes part by implementing `extensions.ring.interface.Ring` and, for whole runs,
`extensions.protocols.host.Host`.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("pea-mpl")
except PackageNotFoundError:  # a checkout that was not installed
    __version__ = "0.0.0"
