"""A third party's process on this machine, as the launcher of its parties sees it."""

from __future__ import annotations

from crypten_ext.processes.failures import describe_ending
from crypten_ext.processes.process import Inbox, PartyProcess
from extensions.errors import ThirdPartyLostError


class LocalThirdParty:
    """A running `crypten_ext.third_party` of a process group on the loopback interface.

    Args:
        parties: number of parties, which is its rank.
        env: what the parties' environments have in common.
        silence: seconds without a sign of life after which it counts as lost.
    """

    def __init__(self, parties: int, env: dict[str, str], silence: float) -> None:
        own = {**env, "RANK": str(parties)}
        self._process = PartyProcess(parties, own, Inbox(), program="crypten_ext.third_party")
        self._silence = silence

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def loss(self, step: float) -> ThirdPartyLostError | None:
        """The error that its end or its silence calls for, `step` seconds after the last call.

        None while it answers, and if party 0 told it to end.
        """
        status = self._process.status
        if status:
            error = ThirdPartyLostError(f"{describe_ending(status)}.")
        elif status is None and self._process.silence_after(step) >= self._silence:
            error = ThirdPartyLostError(f"stopped answering for {self._silence:g} s.")
        else:
            return None
        if said := self._process.last_lines():
            error.add_note(f"The last lines that the third party printed:\n{said}")
        return error

    def end(self) -> None:
        """The process is killed and reaped."""
        self._process.end()
