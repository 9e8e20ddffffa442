"""Who deals to the parties on this machine: a process without data, watched by their launcher."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from typing import get_args

from crypten_ext.dealer import ADDRESS, BACKLOG
from crypten_ext.processes.worker import THIRD_PARTY
from extensions.errors import ArgumentError, DealerLostError, LostError, ThirdPartyLostError
from extensions.runs.processes import Process, describe_ending
from extensions.runs.providers import Provider


class DealingProcess:
    """A dealer or a third party.

    Args:
        name: "the dealer" or "the third party".
        lost: Makes its error from a reason.
        process: Runs since just now.
        silence: Seconds without a sign of life after which it counts as lost.
    """

    def __init__(
        self, name: str, lost: Callable[[str], LostError], process: Process, silence: float
    ) -> None:
        self._name = name
        self._lost = lost
        self._process = process
        self._silence = silence

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def loss(self, step: float) -> LostError | None:
        """Returns the error that its end or silence calls for, `step` seconds after the last call.

        None while it works, and once it has ended because its parties said goodbye.
        """
        status = self._process.status
        if status:
            self.end()  # it has printed all that it will
            reason = describe_ending(status)
        elif status is None and self._process.silence_after(step) >= self._silence:
            reason = f"stopped answering for {self._silence:g} s"
        else:
            return None
        error = self._lost(f"{reason}.")
        if lines := self._process.last_lines():
            error.add_note(f"The last lines that {self._name} printed:\n{lines}")
        return error

    def end(self) -> None:
        """The process is killed and reaped."""
        self._process.end()


def check_provider(provider: str, parties: int) -> None:
    """Raises ArgumentError for no provider, or one that cannot deal for so many parties."""
    if provider not in get_args(Provider):
        raise ArgumentError("provider", provider, f"one of {get_args(Provider)}")
    if provider == "ttp" and parties < 2:
        raise ArgumentError("world_size", parties, "at least 2 with CrypTen's third party")


def start_dealing(
    provider: Provider, parties: int, env: dict[str, str], silence: float
) -> DealingProcess | None:
    """Returns the provider's process, None if it needs none; `env` then tells the parties of it.

    Args:
        provider: Checked by `check_provider`.
        parties: Their number.
        env: What their environments have in common.
        silence: Seconds without a sign of life after which a third party counts as lost; a
            dealer's parties find its silence themselves.
    """
    if provider == "dealer":
        with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as listener:
            host, port = listener.getsockname()
            descriptor = listener.fileno()
            dealer = Process(
                *("crypten_ext.dealer", str(descriptor), str(parties)),
                env=env,
                descriptors=[descriptor],
            )
        env[ADDRESS] = f"{host}:{port}"
        return DealingProcess("the dealer", DealerLostError, dealer, math.inf)
    if provider == "ttp":
        env[THIRD_PARTY] = "1"
        third = Process("crypten_ext.third_party", env={**env, "RANK": str(parties)})
        return DealingProcess("the third party", ThirdPartyLostError, third, silence)
    return None
