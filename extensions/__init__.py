"""The protocols of PEA, stated once, for every secure-computation host.

This package knows no framework: it needs NumPy alone and imports neither torch nor
tensorflow. A host takes part by implementing `extensions.ring.interface.Ring`.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("pea-mpl")
except PackageNotFoundError:  # a checkout that was not installed
    __version__ = "0.0.0"
