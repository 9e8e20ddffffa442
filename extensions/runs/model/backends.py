"""Hosts that compute with shares of a model, found by entry point as hosts of training are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from extensions.checks import check_seconds
from extensions.errors import ArgumentError
from extensions.runs.hosts import find
from extensions.runs.model.joint_use import PartyFiles, Request
from extensions.runs.options import Meeting
from extensions.runs.providers import Provider, check_provider


@dataclass(frozen=True, kw_only=True)
class Computing:
    """How parties compute with their shares.

    Attributes:
        backend: framework to compute with: crypten (processes), or another that is installed and
            can do it. All backends read the same files of shares.
        provider: source of correlated randomness, as in `pea train`.
        timeout: seconds after which a computation on this machine ends.

    Raises:
        ArgumentError: no provider, or a time that is not positive.
    """

    backend: str = "crypten"
    provider: Provider = "dealer"
    timeout: float = 3600.0

    def __post_init__(self) -> None:
        check_provider(self.provider)
        check_seconds("timeout", self.timeout)


class ModelBackend(Protocol):
    """What a module behind an entry point of the group ``pea.backends`` offers for this."""

    def use(
        self, request: Request, files: Sequence[PartyFiles], computing: Computing
    ) -> list[dict[str, Any]]:
        """Returns what each party gets, by rank, all on this machine (`perform`)."""

    def use_party(
        self, request: Request, files: PartyFiles, meeting: Meeting, computing: Computing
    ) -> dict[str, Any]:
        """Returns what this party gets, where parties were started one by one."""


def find_model_backend(name: str) -> ModelBackend:
    """Returns the backend of that name, which must compute with shares."""
    backend = find(name)
    if not hasattr(backend, "use"):
        allowed = "one that computes on shares, such as 'crypten'"
        advice = "All backends read the same files of shares."
        raise ArgumentError("backend", name, allowed, advice, code="choice")
    return cast(ModelBackend, backend)
