"""What a run may cost its owners' records, known before it starts."""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from extensions.privacy.accounting import Answers, Ledger, cached_answers
from extensions.protocols.host import Host
from extensions.protocols.settings import TRAINING, account
from extensions.public import Public
from extensions.runs.budget.account import RECORD, Entry
from extensions.runs.budget.file import check_apart
from extensions.runs.config import CHOSEN_BY_COUNTS, TrainConfig
from extensions.runs.local_training import account_for_start
from extensions.runs.outputs import account_for_count, titles_of
from extensions.runs.report import epsilons_of, epsilons_without_noise


def entries_of(
    host: Host,
    config: TrainConfig,
    parts: Sequence[Public],
    ledgers: Sequence[Path | None],
    name: str,
) -> list[tuple[Path, Entry]]:
    """Returns the ledgers that a program keeps, and the run's entry in each.

    Ranks of the host have parts and ledgers; empty ledgers: none is kept.
    """
    if not any(ledgers):
        return []
    check_apart(ledgers)
    cost = planned(host, config, parts[0].features)
    entries = []
    for rank, part, path in zip(host.ranks, parts, ledgers, strict=True):
        counted = config.evaluate in ("mpc", "opened") or config.strategy in CHOSEN_BY_COUNTS
        if path is not None:
            exact = counted and part.held_out > 0
            entry = entry_of(config, cost, titles_of(config), exact=exact)
            entries.append((path, replace(entry, name=f"{name}-{rank}")))
    return entries


def entry_of(
    config: TrainConfig, cost: Ledger, opens: Sequence[str], title: str = "", *, exact: bool = False
) -> Entry:
    """Returns an entry of a new name, of a run or of what is done with its model.

    Without a title it is `title_of`; `cost` is all that it may cost a record.
    """
    return Entry(
        name=secrets.token_hex(5),
        title=title or title_of(config),
        ledger=cost,
        exact=exact,
        opens=tuple(opens),
        unit=unit_of(config),
        delta=config.delta,
    )


def title_of(config: TrainConfig) -> str:
    """Returns what ledgers call a run."""
    opened = "" if config.open == "never" else "opened "
    learnt = "statistics" if config.method == "statistics" else f"{config.steps} {opened}steps"
    return f"{config.model}, {learnt}, {config.backend}"


def unit_of(config: TrainConfig) -> str:
    """Returns whose epsilon a run's is."""
    unit = config.facts.get("schema unit")
    return RECORD if unit is None else f"person of column {unit['column']}"


def accountant_answers(config: TrainConfig) -> Answers:
    """Returns what the accountant will say of a run's model, for the processes of its parties.

    They find it all anew where noise may fail, since that is then in their ledgers.
    """
    ledger = Ledger()
    account_for_start(ledger, config)
    for _ in range(config.steps):  # one by one, as in the run: sums of probabilities are rounded
        account(ledger, TRAINING, config, 1)
    epsilons_of(config, ledger)
    epsilons_without_noise(config, ledger)
    return cached_answers()


def planned(host: Host, config: TrainConfig, features: int) -> Ledger:
    """Returns all that a run may cost a record, from its start to what it opens.

    That is infinite without privacy, and with noise that everybody can replay.
    """
    ledger = Ledger()
    if config.private and config.insecure_seed is None:
        account_for_start(ledger, config)
        parameters = config.spec(features).parameters
        failure = config.steps * host.noise_failure(parameters) if config.hidden else 0.0
        account(ledger, TRAINING, config, config.steps, failure)
    else:
        ledger.record(
            "training that is not private",
            noise_multiplier=0.0,
            sample_rate=config.sample_rate,
            steps=config.steps,
        )
    account_for_count(ledger, host, config)
    return ledger
