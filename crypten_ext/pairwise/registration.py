"""The parties themselves among CrypTen's providers."""

from crypten_ext.dealer.registration import add, drop
from crypten_ext.pairwise.maker import disconnect
from crypten_ext.pairwise.provider import PartiesProvider


def install() -> None:
    """``crypten.cfg.mpc.provider = "PARTIES"`` chooses them from here on."""
    add(PartiesProvider())


def remove() -> None:
    """CrypTen knows this provider no more, and what the parties had in common is forgotten."""
    disconnect()
    drop(PartiesProvider.NAME)
