"""Who deals to the parties on this machine: a process without data, watched by their launcher."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Literal

from crypten_ext.processes.worker import THIRD_PARTY
from extensions.errors import ArgumentError, DealerLostError, LostError, ThirdPartyLostError
from extensions.rules import Whole
from extensions.runs.processes import Process, Template, describe_ending
from extensions.runs.processes.credentials import Credentials
from extensions.runs.providers import Provider, check_provider

Beside = Provider | Literal["ttp"]
"""Who may deal beside parties; "ttp" is CrypTen's third party."""


class DealingProcess(Process):
    """A dealer or a third party, with its name and what makes its error from a reason."""

    def __init__(
        self,
        name: str,
        lost: Callable[[str], LostError],
        module: str,
        *arguments: str,
        **given: Any,
    ) -> None:
        self._name = name
        self._lost = lost
        self._told: LostError | None = None
        super().__init__(module, *arguments, receive=self._hear, **given)

    def _hear(self, frame: bytes) -> None:
        """It tells its launcher which party it lost, and nothing else."""
        if frame:
            _, failure = pickle.loads(frame)
            self._told = failure.error

    def loss(self) -> LostError | None:
        """Returns the error that its end calls for.

        None while it works, and once it has ended because its parties said goodbye.
        """
        status = self.status
        if not status:
            return None
        self.end()  # it has printed all that it will
        return self._told or self.error(describe_ending(status))

    def error(self, reason: str) -> LostError:
        """Returns the error that says how it was lost, with what it printed."""
        error = self._lost(f"{reason}.")
        if lines := self.last_lines():
            error.add_note(f"The last lines that {self._name} printed:\n{lines}")
        return error


def check_dealing(provider: str, parties: int) -> None:
    """Raises ArgumentError for no provider, or one that cannot deal for so many parties."""
    if provider != "ttp":
        check_provider(provider, parties)
    elif parties < 2:
        raise ArgumentError("world_size", parties, Whole(2), "CrypTen's third party needs two.")


def start_dealing(
    provider: Beside,
    parties: int,
    env: dict[str, str],
    template: Template | None,
    seat: Credentials,
) -> DealingProcess | None:
    """Returns the provider's process, None if it needs none; `env` then tells the parties of it."""
    if provider == "dealer":
        return DealingProcess(
            *("the dealer", DealerLostError),
            *("crypten_ext.dealer.__main__", str(parties)),
            env={**env, **seat.env},
            descriptors=seat.descriptors,
            template=template,
        )
    if provider == "ttp":
        env[THIRD_PARTY] = "1"
        return DealingProcess(
            *("the third party", ThirdPartyLostError, "crypten_ext.third_party.__main__"),
            env={**env, **seat.env, "RANK": str(parties)},
            descriptors=seat.descriptors,
            template=template,
        )
    return None
