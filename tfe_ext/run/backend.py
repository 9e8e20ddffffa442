"""The TF Encrypted backend of `pea train`: ABY3 with three servers that own the records."""

import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from extensions import printing
from extensions.checks import check_left_out
from extensions.data.datasets import read_party_file
from extensions.errors import ArgumentError, ServersLostError
from extensions.protocols.host import StepForecast
from extensions.protocols.records import Records
from extensions.protocols.step import Step
from extensions.runs.checkpoints import check_files
from extensions.runs.config import TrainConfig
from extensions.runs.entry_points import quiet_unless_it_fails
from extensions.runs.hosts import Progress
from extensions.runs.manifest import manifest_of
from extensions.runs.options import RunOptions
from extensions.runs.processes import Program, call
from extensions.transport import Local
from tfe_ext.players.addresses import SERVERS, read_players
from tfe_ext.players.tls import Links, members_of
from tfe_ext.run.speed import planned_speed

NOTICE = (
    "The process that builds the graph of ABY3's three servers could read every share and record; "
    "without players on other hosts it is the servers, too. Trust whoever runs it with all records."
)
_TASKS = "tfe_ext.run.training"
"""What a process with TensorFlow performs."""


def check(config: TrainConfig, options: RunOptions) -> None:
    """Checks that the run has three servers and no dealer, and its players places."""
    if config.parties != len(SERVERS):
        allowed = f"{len(SERVERS)}, the servers of ABY3"
        raise ArgumentError("parties", config.parties, allowed)
    dealt = {
        "provider": None if config.provider == TrainConfig.provider else config.provider,
        "dealer_noise": config.dealer_noise or None,
        "material": None if options.material is None else str(options.material),
    }
    for name, given in dealt.items():
        if given is not None:
            rule, advice = "with {backend=tfe}", "ABY3 needs no dealer."
            raise ArgumentError(name, given, rule, advice, code="conflict")
    if config.split == "columns":
        rule = "with {backend=tfe} and {split=columns}"
        check_left_out(rule, physical_rows=config.physical_rows)
    if options.players is not None:
        players = read_players(options.players)
        if options.federation is not None and options.key is not None:
            members_of(Local.read(options.federation, options.key), players)
        _check_on_players(config)


def _check_on_players(config: TrainConfig) -> None:
    """Checks that nobody but an owner computes on its records in the clear, as the client would."""
    computed = {"whiten": False, "open": "never", "method": "pea", "split": "rows"}
    for name, hidden in computed.items():
        if (value := getattr(config, name)) != hidden:
            advice = (
                "The client would compute on all records. To let owners compute on their own, use "
                f"CrypTen's parties, each on its own host: `pea party` with {{{name}={value}}}."
            )
            raise ArgumentError(name, value, f"{hidden!r} with {{players}}", advice)


def facts() -> list[tuple[str, str]]:
    """Returns which ChaCha20 computes here, and what to do if it is the slower one."""
    from tfe_ext.streams import choice, native

    if os.environ.get(choice.VARIABLE) == "portable":
        text = f"the portable ChaCha20 is used, since {choice.VARIABLE} says so"
        return [(text, f"Type, for the faster one: unset {choice.VARIABLE}")]
    try:
        native.load()
    except native.NativeError as error:
        text = f"the portable ChaCha20 is used, 3 to 5 times slower: {error}"
        return [(text, "Install a C++ compiler. On Debian, type: apt-get install g++")]
    return [("the compiled ChaCha20 is used", "")]


@contextmanager
def remote_owners(options: RunOptions) -> Iterator["_RemoteOwners | None"]:
    """Yields the owners of records that their own players have; None where files are given."""
    if options.players is None:
        yield None
        return
    with _linked(options) as own_address, Program(_environment(), ServersLostError) as program:
        yield _RemoteOwners(program, options, own_address)


class _RemoteOwners:
    """The owners, and the process that is their client: it asks them, and then trains."""

    def __init__(self, program: Program, options: RunOptions, own_address: str | None) -> None:
        self._program, self._options = program, options
        self._place = {"players": options.players, "own_address": own_address}
        self.settings, self.public = self._call("owner_statements", self._place, lambda event: None)

    def train(self, config: TrainConfig, progress: Progress) -> dict[str, Any]:
        """Returns the report of a run over their records."""
        check(config, self._options)
        started = time.perf_counter()
        asked = {"config": config, "options": self._options, **self._place}
        report = self._call("train_remote", asked, progress)
        return {**report, "seconds": round(time.perf_counter() - started, 3)}

    def _call(self, task: str, arguments: dict[str, Any], on_event: Progress) -> Any:
        return self._program.call(
            f"{_TASKS}:{task}", arguments, timeout=self._options.timeout, on_event=on_event
        )


def _environment() -> dict[str, str]:
    return {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ}


@contextmanager
def _linked(options: RunOptions) -> Iterator[str | None]:
    """Yields the address by which the players reach a client that starts in the block.

    Links are this process's: TensorFlow keeps others from running while it waits for players.
    """
    if options.players is None or options.federation is None or options.key is None:
        yield None
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    told: set[str] = set()

    def tell(line: str) -> None:
        if line not in told:
            told.add(line)
            print(f"pea: {line}", file=printing.ERR, flush=True)

    local = Local.read(options.federation, options.key)
    with Links(local, read_players(options.players), port, tell):
        yield f"127.0.0.1:{port}"


def notices(config: TrainConfig) -> list[str]:
    """Returns who must be trusted."""
    return [NOTICE]


def noise_failure(config: TrainConfig, features: int) -> float:
    """Returns the probability that a draw of the servers' noise lies beyond its table."""
    if not config.hidden:
        return 0.0
    with quiet_unless_it_fails():
        from tfe_ext.ring import aby3_ring

    parameters = config.spec(features).parameters
    return aby3_ring.noise_failure(parameters, config.steps)


def train(
    config: TrainConfig, files: Sequence[Path], progress: Progress, options: RunOptions
) -> dict[str, Any]:
    """Returns the report of a run of three servers, devices of one process, that own the records.

    TensorFlow stays out of the calling process, whose devices it would fix and which it might keep
    from ending in time.
    """
    check(config, options)
    if options.checkpoints is not None:
        with quiet_unless_it_fails():
            from tfe_ext.run.host import ABY3Host

        own = read_party_file(files[0]).public
        manifest = manifest_of(config, options, own, ABY3Host.software)
        check_files(options.checkpoints, manifest.kept, config.steps, files)
    started = time.perf_counter()
    asked = {"config": config, "files": list(files), "options": options}
    report = _called("train", asked, options.timeout, progress)
    return {**report, "seconds": round(time.perf_counter() - started, 3)}


def check_party(config: TrainConfig, *_: Any) -> NoReturn:
    """Raises ArgumentError: TF Encrypted's servers do not run one by one under `pea party`."""
    allowed = "a backend with one process for each party"
    raise ArgumentError("backend", "tfe", allowed, code="choice")


train_party = check_party


def plan(config: TrainConfig, step: Step, records: Records) -> StepForecast:
    """Returns what a step takes (`tfe_ext.run.training.plan`), from a process with TensorFlow."""
    asked = {"config": config, "step": step, "records": records}
    found: StepForecast = _called("plan", asked, RunOptions().timeout, lambda event: None)
    return found


speed = planned_speed
"""How fast servers are that share a process, by the seconds that a plan took."""


def _called(task: str, arguments: dict[str, Any], timeout: float, on_event: Progress) -> Any:
    env, lost = _environment(), ServersLostError
    return call(
        f"{_TASKS}:{task}", arguments, env=env, timeout=timeout, on_event=on_event, lost=lost
    )
