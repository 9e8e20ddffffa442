"""Providers among CrypTen's, and the marker that lets them work ahead."""

from typing import Any

from crypten_ext.dealer.provider import AskingProvider, DealerProvider
from crypten_ext.ring.first_party import CHOSEN, ChosenFirstParty

import crypten


def install() -> None:
    """``crypten.cfg.mpc.provider`` = "DEALER" or "INSECURE_TFP" chooses who deals from here on."""
    add(DealerProvider())
    _providers()[CHOSEN] = ChosenFirstParty()


def remove() -> None:
    """CrypTen no longer knows these names."""
    drop(DealerProvider.NAME)
    drop(CHOSEN)


def add(provider: AskingProvider) -> None:
    """CrypTen knows this provider by its name from here on."""
    _providers()[provider.NAME] = provider


def drop(name: str) -> None:
    """CrypTen no longer knows the provider of this name."""
    _providers().pop(name, None)


def begin_step() -> None:
    """A step of a loop begins, at every party; with CrypTen's own providers nothing happens.

    If a step was just completed, the next ones are expected to need the same tuples. The dealer
    sends their corrections ahead of need, so that no party waits for it; parties that make their
    own make a step's at once. A step that needs others gets them as it goes. `crypten_ext.optim`
    calls this in ``zero_grad``.
    """
    provider = crypten.mpc.get_default_provider()
    if isinstance(provider, AskingProvider):
        provider.begin_step()


def _providers() -> dict[str, Any]:
    providers: dict[str, Any] = vars(crypten.mpc)["__SUPPORTED_PROVIDERS"]
    return providers
