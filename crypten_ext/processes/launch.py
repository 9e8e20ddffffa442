"""Parties on this machine: one process each, which no trouble of a peer can hang or orphan.

    with Parties(3) as parties:
        results = parties.run("package.module:function", per_party=[{}, {}, {}], rounds=4)

A party that fails, dies or stops answering ends the whole pool, and the error names the party
that was first, not those that only saw a connection break.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self

from crypten_ext.compat import check_installed
from crypten_ext.local_dealer import ADDRESS
from crypten_ext.processes.dealing import Beside, DealingProcess, check_dealing, start_dealing
from crypten_ext.processes.failures import PartyFailedError, root_cause
from crypten_ext.processes.worker import PROGRAM, environment_of
from extensions.checks import check_seconds
from extensions.errors import ArgumentError, DealerLostError, LostError, PartyLostError, PeaError
from extensions.rules import Whole
from extensions.runs.options import Transport
from extensions.runs.processes import Failure, Process, Silences, Template, shared_template
from extensions.runs.processes.credentials import credentials_for

__all__ = ["Parties", "PartyFailedError"]

_TICK = 0.1
_SETTLING = 1.5
_LEAVING = 5.0
_LONGEST_STEP = 1.0

_IMPORTED = (PROGRAM, "crypten_ext.registry")

OnEvent = Callable[[int, dict[str, Any]], None]


@contextmanager
def template_of(
    parties: int, *, env: Mapping[str, str] | None = None, modules: Sequence[str] = ()
) -> Iterator[Template | None]:
    """Yields what `parties` parties are copies of, which imports from now on; None but on Linux.

    All blocks that are open at once with equal arguments share it, and so do pools: one that opens
    inside the block finds imported what the block began to import. The address of a dealer may
    differ, and the number of parties as far as each has as many threads. Tasks need `modules`
    beside CrypTen.

    Raises MissingExtraError if torch or CrypTen is not installed.
    """
    check_installed()
    common = environment_of(parties, "", env or {})
    early = {name: value for name, value in (env or {}).items() if name != ADDRESS}
    kind = (common["OMP_NUM_THREADS"], frozenset(early.items()))
    with shared_template(*_IMPORTED, *modules, env=common, key=kind) as template:
        yield template


class Parties:
    """A pool of `world_size` CrypTen parties on this machine, ready for one task after another.

    Args:
        world_size: Number of parties, at least 1.
        timeout: Seconds that starting, and each task, may take.
        env: Environment variables for the parties, over those of this process.
        silence: Seconds without a sign of life after which a party counts as lost, or who deals.
        starting: Seconds until their first sign of life. Both are counted by the others' signs.
        provider: Who deals correlated randomness: "tfp" and "parties" start nobody, "dealer" and
            "ttp" a dealer (`crypten_ext.dealer`) or CrypTen's third party
            (`crypten_ext.third_party`) beside the parties. With "ttp" CrypTen is configured for it;
            for the others a task does.
        modules: That tasks will need. On Linux they are imported once for all parties, as CrypTen
            is, and for all pools that are open at once with equal `modules` and `env`: that spares
            processor time and memory (`template_of`).
        transport: "tls", with keys that are made for this pool, or "gloo", in the clear.

    Guarantees:
        traffic between the parties stays on the loopback interface; what they print is kept out of
        sight, and only its end is shown when a party dies; no process outlives the `with` block,
        nor this process if it is killed. Arguments and results are never logged.

    Edge cases:
        a party is silent only if none of its threads can run (it is stopped, or native code holds
        the interpreter); the timeout finds endless loops. Time in which this process is itself
        stopped does not count, nor does time in which no party gives a sign of life, unless that is
        six times as long.
    """

    def __init__(
        self,
        world_size: int,
        *,
        timeout: float = 600.0,
        env: dict[str, str] | None = None,
        silence: float = 20.0,
        starting: float = 120.0,
        provider: Beside = "tfp",
        modules: Sequence[str] = (),
        transport: Transport = "tls",
    ) -> None:
        Whole(1).check("world_size", world_size)
        check_dealing(provider, world_size)
        self.world_size = world_size
        check_seconds("timeout", timeout)
        check_seconds("silence", silence)
        check_seconds("starting", starting)
        self._timeout, self._silence, self._starting = timeout, silence, starting
        self._env = dict(env or {})
        self._stack = ExitStack()
        self._parties: list[Process] = []
        self._provider, self._modules, self._transport = provider, modules, transport
        self._dealing: DealingProcess | None = None
        self._inbox: SimpleQueue[tuple[int, bytes]] = SimpleQueue()
        self._directory = ""
        self._closed = "it was never opened"
        self._busy = threading.Lock()

    def __enter__(self) -> Self:
        if self._directory:
            raise PeaError("This pool was opened before. Open a new one: with Parties(...).")
        with self._busy, self._all_or_none():
            self._directory = tempfile.mkdtemp(prefix="parties-")
            common = environment_of(self.world_size, self._directory, self._env)
            imported = template_of(self.world_size, env=self._env, modules=self._modules)
            own = self._stack.enter_context(imported)
            self._start(common, own)
            self._gather(self._timeout, None)
            self._closed = ""
        return self

    def _start(self, common: dict[str, str], own: Template | None) -> None:
        number, dealer = self.world_size, self._provider == "dealer"
        all_of_them = number + (self._provider in ("ttp", "dealer"))
        folder = Path(self._directory)
        with credentials_for(self._transport, folder, all_of_them, dealer=dealer) as given:
            self._dealing = start_dealing(self._provider, number, common, own, given[-1])
            for rank, seat in enumerate(given[:number]):
                party = Process(
                    PROGRAM,
                    env={**common, **seat.env, "RANK": str(rank)},
                    receive=partial(self._hear, rank),
                    descriptors=seat.descriptors,
                    template=own,
                )
                self._parties.append(party)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and not self._closed:
                for party in self._parties:
                    party.send(b"")
                deadline = time.monotonic() + _LEAVING
                for party in self._parties:
                    party.wait(max(0.0, deadline - time.monotonic()))
        finally:
            self._closed = self._closed or "its block has ended"
            self._end()

    @property
    def pids(self) -> list[int]:
        """The parties' process ids, by rank."""
        return [party.pid for party in self._parties]

    @property
    def dealer_pid(self) -> int | None:
        """The process id of the dealer or the third party; None without one."""
        return None if self._dealing is None else self._dealing.pid

    def run(
        self,
        task: str,
        *,
        per_party: Sequence[dict[str, Any]] | None = None,
        on_event: OnEvent | None = None,
        timeout: float | None = None,
        **common: Any,
    ) -> list[Any]:
        """What ``task(context, **arguments)`` returned in each party, by rank.

        Args:
            task: Where the parties find the function: "package.module:function".
            per_party: Further keyword arguments for each rank, over the common ones.
            on_event: Called here as ``on_event(rank, event)`` for each event that a task emits.
            timeout: Seconds for this task, instead of the pool's.
            **common: Keyword arguments for all parties; they are pickled.

        Raises:
            PartyFailedError: A task raised. An error of this project that all parties raised
                alike is raised here with its own type.
            PartyLostError: A party died, stopped answering or did not finish in time.
            DealerLostError, ThirdPartyLostError: Who deals died or stopped answering.
            PeaError: The pool is closed, as it is after any error while parties work.
        """
        if not all(task.partition(":")):
            raise ArgumentError("task", task, "'package.module:function'")
        own = [{}] * self.world_size if per_party is None else list(per_party)
        if len(own) != self.world_size:
            allowed = f"a list of {self.world_size} dicts, one for each party"
            raise ArgumentError("per_party", f"{len(own)} entries", allowed, code="shape")
        check_seconds("timeout", limit := self._timeout if timeout is None else timeout)
        frames = [pickle.dumps((task, {**common, **extra})) for extra in own]
        with self._busy:
            if self._closed:
                raise PeaError(f"The pool is closed: {self._closed}. Open a new Parties(...).")
            with self._all_or_none():
                for party, frame in zip(self._parties, frames, strict=True):
                    party.send(frame)
                return self._gather(limit, on_event)

    @contextmanager
    def _all_or_none(self) -> Iterator[None]:
        """No party survives an error in this block, and the pool says from then on what it was."""
        try:
            yield
        except BaseException as error:
            self._closed = str(error).rstrip(".") or type(error).__name__
            self._end()
            if type(error) is PartyLostError and (lines := self._parties[error.rank].last_lines()):
                error.add_note(f"The last lines that party {error.rank} printed:\n{lines}")
            raise

    def _end(self) -> None:
        self._stack.close()
        for party in self._parties:
            party.end()
        if self._dealing is not None:
            self._dealing.end()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _gather(self, limit: float, on_event: OnEvent | None) -> list[Any]:
        """One answer from each party, by rank, within `limit` seconds."""
        answers: dict[int, Any] = {}
        failures: dict[int, Failure] = {}
        elapsed, settling, before = 0.0, 0.0, time.monotonic()
        silences = self._silences()
        while len(answers) < self.world_size:
            for rank, kind, body in self._frames():
                if kind == "event":
                    if on_event is not None:
                        on_event(rank, body)
                elif kind == "failed":
                    failures[rank] = body
                else:
                    answers[rank] = body
            now = time.monotonic()
            step, before = min(now - before, _LONGEST_STEP), now
            elapsed += step
            statuses = {rank: party.status for rank, party in enumerate(self._parties)}
            ended = {rank: status for rank, status in statuses.items() if status is not None}
            loss = self._dealing.loss() if self._dealing is not None else None
            if failures or ended or loss:
                settling += step
                told = len(failures) + len(ended) >= self.world_size
                if settling >= _SETTLING or (told and not self._may_know_more(failures, loss)):
                    if loss is not None and not ended:
                        raise loss
                    raise root_cause(failures, ended, self.world_size)
                continue
            if silent := silences.lost(step):
                raise self._silent(*silent)
            if elapsed >= limit:
                late = [rank for rank in range(self.world_size) if rank not in answers]
                others = "".join(f", nor had party {rank}" for rank in late[1:])
                raise PartyLostError(late[0], f"had not finished after {limit:g} s{others}")
        return [answers[rank] for rank in range(self.world_size)]

    def _may_know_more(self, failures: dict[int, Failure], loss: LostError | None) -> bool:
        """Whether the end of who deals is still to say why the parties lost it."""
        lost = [isinstance(failure.error, DealerLostError) for failure in failures.values()]
        return self._dealing is not None and loss is None and any(lost)

    def _silences(self) -> Silences:
        """Who is silent from now on: the parties by rank, then who deals."""
        watched = [*self._parties]
        if self._dealing is not None:
            watched.append(self._dealing)
        return Silences(watched, self._silence, self._starting)

    def _silent(self, number: int, reason: str) -> LostError:
        if self._dealing is not None and number == self.world_size:
            return self._dealing.error(reason)
        return PartyLostError(number, reason)

    def _hear(self, rank: int, frame: bytes) -> None:
        if frame:
            self._inbox.put((rank, frame))

    def _frames(self) -> Iterator[tuple[int, str, Any]]:
        """What the parties told, as (rank, kind, body), after a short wait if there is nothing."""
        with suppress(Empty):
            rank, frame = self._inbox.get(timeout=_TICK)
            yield rank, *pickle.loads(frame)
            for _ in range(self._inbox.qsize()):
                rank, frame = self._inbox.get_nowait()
                yield rank, *pickle.loads(frame)
