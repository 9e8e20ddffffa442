"""Who deals the correlated randomness of a run, and what that asks of the parties' trust."""

from dataclasses import dataclass
from typing import Literal

from extensions.errors import ArgumentError

Provider = Literal["dealer", "ttp", "tfp"]

DEALER_ADDRESS = "DEALER_ADDRESS"
"""Environment variable that tells a party where the dealer is, as HOST:PORT."""


@dataclass(frozen=True)
class Dealing:
    """One provider: its name in a report, the host's own name, and what is printed once a run."""

    title: str
    host_name: str
    notice: str


DEALINGS: dict[str, Dealing] = {
    "dealer": Dealing(
        title="dealer",
        host_name="DEALER",
        notice=(
            "A dealer, a process that holds no data, deals all correlated randomness. It must not "
            "collude with any party: together with one it can reconstruct every secret of the "
            "others."
        ),
    ),
    "ttp": Dealing(
        title="third party trusted",
        host_name="TTP",
        notice=(
            "CrypTen's trusted third party, a process that holds no data, deals all correlated "
            "randomness. It must not collude with any party: together with one it can reconstruct "
            "every secret of the others. The dealer (--provider dealer) asks for the same trust "
            "and is faster."
        ),
    ),
    "tfp": Dealing(
        title="first party trusted",
        host_name="TFP",
        notice=(
            "CrypTen's default provider (trusted first party): party 0 deals all correlated "
            "randomness and can reconstruct every secret of the others. Run it only where party 0 "
            "is trusted, or use --provider dealer."
        ),
    ),
}


def check_provider(provider: str) -> None:
    """Returns only if there is such a provider.

    Raises:
        ArgumentError: there is none.
    """
    if provider not in DEALINGS:
        raise ArgumentError("provider", provider, f"one of {tuple(DEALINGS)}")
