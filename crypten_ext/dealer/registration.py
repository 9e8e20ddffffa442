"""The dealer among CrypTen's providers, and the marker that lets it deal ahead."""

from typing import Any

from crypten_ext.dealer.client import current
from crypten_ext.dealer.provider import DealerProvider

import crypten

PROVIDER = DealerProvider()


def install() -> None:
    """``crypten.cfg.mpc.provider = "DEALER"`` chooses the dealer from here on."""
    _providers()[DealerProvider.NAME] = PROVIDER


def remove() -> None:
    """CrypTen has its own providers only."""
    _providers().pop(DealerProvider.NAME, None)


def begin_step() -> None:
    """A step of a loop begins, at every party; without the dealer, nothing happens.

    If a step was just completed, the dealer expects the next ones to need the same tuples, and
    sends their corrections ahead of need, so that no party waits for it. A step that needs others
    is dealt as it goes. `crypten_ext.optim` calls this in ``zero_grad``.
    """
    if crypten.mpc.get_default_provider() is PROVIDER:
        current().begin_step()


def _providers() -> dict[str, Any]:
    providers: dict[str, Any] = vars(crypten.mpc)["__SUPPORTED_PROVIDERS"]
    return providers
