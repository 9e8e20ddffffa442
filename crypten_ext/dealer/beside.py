"""Who deals beside the parties: a process without data, started and watched by their launcher."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, get_args

from crypten_ext.dealer.client import ADDRESS
from crypten_ext.dealer.local import LocalDealer
from crypten_ext.processes.worker import THIRD_PARTY
from crypten_ext.third_party.local import LocalThirdParty
from extensions.errors import ArgumentError, PeaError
from extensions.runs.providers import Provider


class Beside(Protocol):
    """A dealer or a third party."""

    @property
    def pid(self) -> int:
        """The process id."""

    def loss(self, step: float) -> PeaError | None:
        """The error that its end or silence calls for, `step` seconds after the last call."""

    def end(self) -> None:
        """The process is killed and reaped."""


def check_provider(provider: str, parties: int) -> None:
    """Raises ArgumentError for no provider, or one that cannot deal for so many parties."""
    if provider not in get_args(Provider):
        raise ArgumentError("provider", provider, f"one of {get_args(Provider)}")
    if provider == "ttp" and parties < 2:
        raise ArgumentError("world_size", parties, "at least 2 with CrypTen's third party")


def start(
    provider: Provider, parties: int, env: dict[str, str], folder: Path, silence: float
) -> Beside | None:
    """Returns the provider's process, None if it needs none; `env` then tells the parties of it.

    Args:
        provider: checked by `check_provider`.
        parties: their number.
        env: what their environments have in common.
        folder: for what the process prints.
        silence: seconds without a sign of life after which it counts as lost.
    """
    if provider == "dealer":
        dealer = LocalDealer(parties, env, folder / "dealer.log")
        env[ADDRESS] = dealer.address
        return dealer
    if provider == "ttp":
        env[THIRD_PARTY] = "1"
        return LocalThirdParty(parties, env, silence)
    return None
