"""Who deals the correlated randomness of a run, and what that asks of the parties' trust."""

from dataclasses import dataclass
from typing import Literal

from extensions.errors import ArgumentError
from extensions.ring.tuples import MOST_MAKERS

Provider = Literal["dealer", "parties", "tfp"]


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
            "A dealer, a process without data, makes all correlated randomness. It must not "
            "collude with any party: together with one it can reconstruct every secret of the "
            "others."
        ),
    ),
    "parties": Dealing(
        title="parties themselves",
        host_name="PARTIES",
        notice=(
            "The parties make all correlated randomness themselves, by oblivious transfer and "
            "lattice encryption. Each is safe from all others together, if they follow the "
            "protocol. It takes the parties far more traffic than a dealer."
        ),
    ),
    "tfp": Dealing(
        title="first party trusted",
        host_name="INSECURE_TFP",
        notice=(
            "CrypTen's default provider (trusted first party): party 0 makes all correlated "
            "randomness and can reconstruct every secret of the others. Use it only if party 0 is "
            "trusted, or use the provider 'dealer'."
        ),
    ),
}

DEALER_NOISE_NOTICE = (
    "The dealer adds noise, and no party can check that it does. The report's "
    "epsilon_without_noise_of shows epsilon if it adds none or tells a party."
)


def check_provider(provider: str, parties: int | None = None) -> None:
    """Checks that there is such a provider, for so many parties if they are known."""
    if provider not in DEALINGS:
        raise ArgumentError("provider", provider, f"one of {tuple(DEALINGS)}")
    if provider == "parties" and parties is not None and not 2 <= parties <= MOST_MAKERS:
        allowed = f"in 2..{MOST_MAKERS} with the provider 'parties'"
        raise ArgumentError("parties", parties, allowed, "Choose {provider=dealer} for more.")
