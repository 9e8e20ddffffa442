"""The CrypTen backend of `pea train` and `pea party`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from crypten_ext.processes.launch import Parties, template_of
from crypten_ext.processes.speed import default_speed
from crypten_ext.run.needs import PREPARED, check_lattice
from extensions.checks import check_left_out
from extensions.data.datasets import read_party_file
from extensions.errors import ArgumentError, PartyLostError
from extensions.machine import keep_memory
from extensions.privacy.accounting import Answers, fill_cache
from extensions.protocols.agreement import Statement
from extensions.protocols.host import Speed, StepForecast
from extensions.protocols.records import Records
from extensions.protocols.step import Step
from extensions.rules import Whole, one_of
from extensions.runs.budget.planned_cost import accountant_answers
from extensions.runs.checkpoints import CheckpointOptions, check_files
from extensions.runs.config import TrainConfig
from extensions.runs.entry_points import quiet_unless_it_fails
from extensions.runs.hosts import Progress
from extensions.runs.manifest import manifest_of, of_tuples, settings_of
from extensions.runs.model.backends import Computing
from extensions.runs.model.joint_use import PartyFiles, Request
from extensions.runs.options import Meeting, RunOptions, Transport
from extensions.runs.processes import call
from extensions.runs.providers import DEALER_NOISE_NOTICE, DEALINGS

if TYPE_CHECKING:
    from crypten_ext.processes.worker import Context

TRANSPORTS = get_args(Transport)

NOBODY_DEALS = (
    "Owners compute on their own records and open only sums, so this run needs no dealer."
)


_TRAINING, _MODEL = "crypten_ext.run.training", "crypten_ext.run.model"


def check(config: TrainConfig, options: RunOptions) -> None:
    """Raises ArgumentError for players, or material where it is of no use."""
    if options.players is not None:
        raise ArgumentError(
            "players", str(options.players), "without {backend=tfe}", code="conflict"
        )
    if options.material is not None:
        if not config.hidden:
            raise ArgumentError(
                "material", str(options.material), "", NOBODY_DEALS, code="conflict"
            )
        one_of(PREPARED).check("provider", config.provider, "Only their work is prepared.")
        if config.split == "columns":
            check_left_out("with {split=columns}", material=options.material)
    if config.hidden and config.provider == "parties":
        check_lattice()


def notices(config: TrainConfig) -> list[str]:
    """Returns who deals, and whom the parties trust with that."""
    if not config.hidden:
        return [NOBODY_DEALS]
    own = [DEALER_NOISE_NOTICE] if config.dealer_noise else []
    return [DEALINGS[config.provider].notice, *own]


def noise_failure(config: TrainConfig, features: int) -> float:
    """Returns 0: noise is exactly what is accounted."""
    return 0.0


@contextmanager
def warm_up(config: TrainConfig, options: RunOptions) -> Iterator[None]:
    """In the block CrypTen is imported for the parties of a run, in a process beside this one."""
    with template_of(config.parties, modules=_modules(config, options)):
        yield


def _modules(config: TrainConfig, options: RunOptions) -> tuple[str, ...]:
    """What the parties need; the accountant too, unless `accountant_answers` are all they ask."""
    asks = any(options.ledgers) or config.evaluate == "noisy"
    return (_TRAINING, *(["dp_accounting"] if asks else []))


def train(
    config: TrainConfig, files: Sequence[Path], progress: Progress, options: RunOptions
) -> dict[str, Any]:
    """Returns the report of a run with one process for each party, and for who deals, if any.

    Each process opens only its own file and writes only its own shares.

    Raises:
        ArgumentError: as `check`; a run that cannot be resumed; or material for another run.
        MaterialError: material that was used before.
        PartyLostError: a party died, stopped answering or ran out of time; it is named.
        DealerLostError: the dealer died.
    """
    check(config, options)
    started = time.perf_counter()

    def first_party(rank: int, event: dict[str, Any]) -> None:
        if rank == 0:
            progress(event)

    if options.checkpoints is not None:
        manifest = _manifest(config, options, files[0])
        check_files(options.checkpoints, manifest.kept, config.steps, files)
    ledgers = options.ledgers or [None] * config.parties
    prepared = _prepared(config, options.material)
    answers = accountant_answers(config)
    beside = config.provider if options.material is None and config.hidden else "tfp"
    pool = Parties(
        config.parties,
        timeout=options.timeout,
        provider=beside,
        modules=_modules(config, options),
        transport=options.transport,
    )
    with pool as parties:
        reports = parties.run(
            "crypten_ext.run.backend:train_task",
            per_party=[
                {"records": records, "material": own, "ledgers": [ledger] if ledger else []}
                for records, own, ledger in zip(files, prepared, ledgers, strict=True)
            ],
            on_event=first_party,
            config=config.to_dict(),
            answers=answers,
            save=options.save,
            checkpoints=options.checkpoints,
        )
    return {**reports[0], "seconds": round(time.perf_counter() - started, 3)}


def plan(config: TrainConfig, step: Step, records: Records) -> StepForecast:
    """Returns what a step takes (`crypten_ext.run.forecast_host.plan`), from a process of its own.

    CrypTen would stay changed in this one.
    """
    found = call(
        "crypten_ext.run.backend:plan_task",
        {"config": config, "step": step, "records": records},
        env=os.environ,
        timeout=RunOptions().timeout,
        on_event=lambda event: None,
        lost=partial(PartyLostError, 0),
    )
    return StepForecast(**found)


def speed(seconds: float) -> Speed:
    """Returns how fast parties are that share a machine like this one, seconds from their start."""
    found = default_speed()
    return found._replace(overhead=max(_STARTING * seconds, _LEAST_START * found.work))


_STARTING, _LEAST_START = 1.0, 3.0
"""What starting, meeting and ending take of the seconds in which a step is planned; the least."""


def plan_task(
    emit: Progress, *, config: TrainConfig, step: Step, records: Records
) -> dict[str, Any]:
    """Returns the same, from inside that process."""
    from crypten_ext.run.forecast_host import plan as plan_here

    return plan_here(config, step, records)._asdict()


def _prepared(config: TrainConfig, material: Path | None) -> list[Path | None]:
    """Each party's file of prepared tuples, checked; None without one."""
    if material is None:
        return [None] * config.parties
    from crypten_ext import dealer as dealing

    paths = dealing.paths_in(material, config.parties)
    for rank, path in enumerate(paths):
        _check_material(path, rank, config)
    return [*paths]


def train_task(
    context: Context,
    *,
    config: dict[str, Any],
    answers: Answers,
    records: Path,
    material: Path | None,
    save: Path | None,
    checkpoints: CheckpointOptions | None,
    ledgers: Sequence[Path],
) -> dict[str, Any]:
    """Returns one party's report, from inside its process."""
    fill_cache(answers)
    from crypten_ext.run.training import train as train_here

    options = RunOptions(save=save, material=material, checkpoints=checkpoints, ledgers=ledgers)
    return train_here(TrainConfig(**config), records, context.emit, options)


def _manifest(config: TrainConfig, options: RunOptions, records: Path) -> Statement:
    from crypten_ext.world import SOFTWARE

    return manifest_of(config, options, read_party_file(records).public, SOFTWARE)


def _check_material(path: Path, rank: int, config: TrainConfig) -> None:
    """What can be checked before the parties meet: whose file it is, for which run, and unused."""
    from crypten_ext import dealer as dealing
    from crypten_ext.dealer.material import MADE_BY
    from crypten_ext.world import SOFTWARE

    material = dealing.Material(path)
    try:
        settings = of_tuples(settings_of(config, SOFTWARE)) if config.settled else {}
        material.header.check(rank, settings | {MADE_BY: config.provider})
    finally:
        material.finish()


def train_party(
    config: TrainConfig, records: Path, meeting: Meeting, progress: Progress, options: RunOptions
) -> dict[str, Any]:
    """Returns this party's report of a run whose parties were started one by one.

    Raises:
        ArgumentError: as `check_party`; a file without records, material for another run, or a run
            that cannot be resumed; and at every party, before anything is shared, whatever the
            manifests of the parties differ in.
        MaterialError: material that was used before.
        DealerLostError: the dealer died, is late, or sent what cannot be used.
        PartyLostError: another party did not come within `join_timeout`, or died or fell silent
            later, which is found within 60 s.
        RejectedError: with tls://, another host and this one refused each other; it says why.
    """
    check(config, options)
    check_party(config, meeting, options)
    keep_memory()
    manifest = _manifest(config, options, records)
    with quiet_unless_it_fails():
        from crypten_ext import dealer as dealing
        from crypten_ext import pairwise
        from crypten_ext.processes.joining import together
        from crypten_ext.run.training import train as train_here

        import crypten
    if options.material is not None:
        _check_material(options.material, meeting.rank, config)
    with together(meeting, manifest):
        report = train_here(config, records, progress, options)
        dealing.disconnect()
        pairwise.disconnect()
    crypten.uninit()
    return report


def check_party(config: TrainConfig, meeting: Meeting, options: RunOptions) -> None:
    """Raises ArgumentError unless the party has a rank, and one who deals."""
    Whole(0, config.parties - 1).check("rank", meeting.rank)
    meeting.local(config.parties)
    material = options.material
    if not config.hidden:
        if meeting.dealer is not None:
            raise ArgumentError("dealer", meeting.dealer, "", NOBODY_DEALS, code="conflict")
        return
    given = 2 - [meeting.dealer, material].count(None)
    deals = config.provider == "dealer"
    by_parties = config.provider == "parties" and meeting.dealer is None
    if not by_parties and given != deals and not (deals and given == 0 and meeting.has_dealer):
        raise ArgumentError(
            "dealer, material",
            (meeting.dealer, None if material is None else str(material)),
            "{dealer} or {material} with {provider=dealer}, or only {material}, if any, with "
            "{provider=parties}, and neither with another",
            "Start `pea dealer` on a host that holds no data and name it (with tls:// in the "
            "federation, by `pea federation`), or let it `pea prepare` the run. Without a dealer, "
            "give {provider=parties}, so that the parties make all tuples. Or accept that party 0 "
            "sees everything: {provider=tfp}.",
            code="either",
        )


def use(
    request: Request, files: Sequence[PartyFiles], computing: Computing
) -> list[dict[str, Any]]:
    """Returns what each party gets, by rank, with one process for each, and for who deals.

    Raises:
        ArgumentError: as `extensions.runs.model.joint_use.perform`.
        PartyLostError: a party died, stopped answering or ran out of time; it is named.
        DealerLostError: the dealer died.
    """
    for own in files:
        own.read()
    pool = Parties(
        len(files), timeout=computing.timeout, provider=computing.provider, modules=[_MODEL]
    )
    with pool as parties:
        found: list[dict[str, Any]] = parties.run(
            f"{_MODEL}:use_task",
            per_party=[{"files": own} for own in files],
            request=request,
            provider=computing.provider,
        )
    return found


def use_party(*arguments: Any, **settings: Any) -> Any:
    """Returns what one party learns of the model's use (`crypten_ext.run.model.use_party`)."""
    from crypten_ext.run.model import use_party as use_here

    return use_here(*arguments, **settings)
