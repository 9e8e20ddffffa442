"""The commands `pea pencil owner`, `data` and `train`."""

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from extensions.checks import check_seconds
from extensions.cli.commands import Commands
from extensions.data.datasets import read_party_file, write_parts
from extensions.data.origin import FeatureExtraction, Origin
from extensions.errors import ArgumentError
from extensions.layers.losses import Loss
from extensions.layers.models.custom import named
from extensions.options import Option, Options, Writes
from extensions.printing import say
from extensions.privacy.units import check_units
from extensions.rules import POSITIVE, Between, Whole, check_fields
from extensions.runs.budget.run_ledgers import NO_BUDGET, ledgers_of
from extensions.runs.entry_points import quiet_unless_it_fails
from extensions.two_party import products

_MODULE = "crypten_ext.pencil"


class PencilCommands(Commands):
    """Train one party's model on others' records: it keeps the model, and they the records."""

    own: ClassVar[Mapping[str, str]] = {
        role: f"{_MODULE}.commands:{role}" for role in ("owner", "data", "train")
    }


@dataclass(frozen=True, kw_only=True)
class Learning:
    """How the model learns; the data owners are told of it what bounds their gradients.

    Attributes:
        model: as in `pea train`.
        loss: as in `pea train`.
        lr: learning rate, which stays secret.
        momentum: momentum coefficient, which stays secret.
        max_grad_norm: bound of each example's gradient.
        steps: number of steps in a turn.
        rounds: number of turns with each data owner.
        frac_bits: fractional bits of shared values.

    Raises:
        ArgumentError: a value out of range.
    """

    model: Annotated[str, Option(parse=named)] = "mlp:32"
    loss: Loss = "sigmoid"
    lr: Annotated[float, POSITIVE] = 8.0
    momentum: Annotated[float, Between(0.0, 1.0, below=True)] = 0.0
    max_grad_norm: float = 0.25
    steps: Annotated[int, Whole(1)] = 5
    rounds: Annotated[int, Whole(1)] = 4
    frac_bits: int = 16

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a model may cost a data owner's records.

    Attributes:
        epsilon: budget for all that the model's owner learns of one record.
        delta: delta of that budget; 1 / (10 records) is usual.
        most_steps: number of steps that the noise is made for; then this owner takes no further
            part.
        sample_rate: probability with which a record enters a step.
    """

    epsilon: float
    delta: float
    most_steps: int = 20
    sample_rate: float = 0.05

    @property
    def budget(self) -> Any:
        """What a `crypten_ext.pencil.account.Account` is made for.

        Raises ArgumentError for a value out of range.
        """
        from crypten_ext.pencil.account import Budget

        return Budget(
            epsilon=self.epsilon,
            delta=self.delta,
            steps=self.most_steps,
            sample_rate=self.sample_rate,
        )


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What every data owner's records look like.

    Attributes:
        features: number of features of a record.
        classes: number of classes.
        max_feature_norm: bound of the norm of a record's features.
    """

    features: int
    classes: int
    max_feature_norm: float = 1.0


def owner(
    key: Annotated[Path, Option(help="This host's file of `pea keys`.")],
    federation: Annotated[
        list[Path],
        Option(
            help="File of `pea federation` with this host, first, and one data owner. Give one for "
            "each data owner, or a folder of them; you may add files between rounds. Each file "
            "names another port of this host."
        ),
    ],
    learning: Annotated[Learning, Options("Model")],
    rows: Annotated[Rows, Options("Records")],
    out: Annotated[Path, Option(help="File of the model, written after each turn."), Writes()],
    start: Annotated[Path | None, Option(help="Model to continue from.")] = None,
    test: Annotated[
        Path | None, Option(help="Your .npz file of features, to try the model on.")
    ] = None,
    join_timeout: Annotated[float, Option(help="Seconds to wait for a data owner.")] = 300.0,
) -> None:
    """Own the model, and learn from the data owners in turn. They do not see the weights."""
    check_seconds("join_timeout", join_timeout)
    tried = None if test is None else read_party_file(test)
    _files(federation)
    with quiet_unless_it_fails():
        from crypten_ext.pencil import meeting, turn
        from crypten_ext.pencil.model import accuracy, write_model
    model = model_of(learning, rows, start)
    for path in _files(federation):
        meeting.local_of(path, key, products.MODEL)
    spent: set[Path] = set()
    for number in range(1, learning.rounds + 1):
        for path in [one for one in _files(federation) if one not in spent]:
            local = meeting.local_of(path, key, products.MODEL)
            begun = time.monotonic()
            with meeting.met(local, join_timeout):
                told, offer = turn.lead(model, learning.steps, last=number == learning.rounds)
                size = meeting.carried()
            write_model(out, model.terms, model.layers)
            name = local.federation.parties[products.DATA].name
            line = f"round {number} {name}: {told.steps} steps of {offer.expected:g} records"
            line += f", {size / 1e6:.1f} MB, {time.monotonic() - begun:.1f} s"
            if tried is not None:
                right = accuracy(model.terms, model.layers, tried.test_x, tried.test_y)
                line += f", accuracy {right:.4f}"
            if told.spent:
                spent.add(path)
                line += ", its budget is spent"
            say(line)


def model_of(learning: Learning, rows: Rows, start: Path | None = None) -> Any:
    """Returns the model that learning begins with."""
    from crypten_ext.pencil.model import Model, read_model
    from crypten_ext.pencil.terms import Terms

    terms = Terms(
        model=learning.model,
        loss=learning.loss,
        frac_bits=learning.frac_bits,
        max_grad_norm=learning.max_grad_norm,
        **vars(rows),
    )
    model = Model.begin(terms, learning.lr, learning.momentum)
    if start is not None:
        held, model.layers = read_model(start)
        if held != terms:
            raise ArgumentError("start", str(start), f"a model of {terms}, not of {held}")
    return model


def data(
    key: Annotated[Path, Option(help="This host's file of `pea keys`.")],
    federation: Annotated[
        Path, Option(help="File of `pea federation` for the model's owner and this host.")
    ],
    records: Annotated[
        Path, Option(help="Your .npz file of features, as `pea features` writes it.")
    ],
    cost: Annotated[Cost, Options("Privacy")],
    budget: Annotated[
        Path | None,
        Option(
            help="Ledger of the records (`pea budget`), a file or a folder; by default beside them."
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        Option(
            help="File that an earlier version kept for a model. Its cost enters the ledger of the "
            "records once."
        ),
    ] = None,
    join_timeout: Annotated[
        float, Option(help="Seconds to wait for the model's owner, each turn.")
    ] = 3600.0,
) -> None:
    """Own records, and let a model learn from them, unseen, until the budget is spent."""
    check_seconds("join_timeout", join_timeout)
    own = read_party_file(records)
    if own.train_units is not None:
        check_units(own.train_units, len(own.train_x), rows_per_unit=1)
    (path,) = ledgers_of([records], 1, budget)
    if path is None:
        allowed = "a file or a folder, because each step is charged there first"
        raise ArgumentError("budget", NO_BUDGET, allowed, "Leave {budget} out.")
    with quiet_unless_it_fails():
        from crypten_ext.pencil import meeting, turn
        from crypten_ext.pencil.account import Account, enter_earlier

    local = meeting.local_of(federation, key, products.DATA)
    account = Account(path, cost.budget, len(own.train_x), local.federation.parties[products.MODEL])
    if ledger is not None:
        enter_earlier(path, ledger)
    account.reserve()
    if account.left < 1:
        account.charge()  # says what is spent

    is_over = False
    try:
        while not is_over:
            with meeting.met(local, join_timeout):
                told = turn.follow(lambda terms: terms.encoded(own.train_x, own.train_y), account)
            is_over = told.over or told.spent
            say(
                f"{account.made} of {cost.most_steps} steps are done, and all of them are charged: "
                f"epsilon {account.epsilon():.4g} at delta = {cost.delta:g}"
            )
    finally:
        account.free()


def train(
    learning: Annotated[Learning, Options("Model")],
    cost: Annotated[Cost, Options("Privacy")],
    origin: Annotated[Origin, Options("Records", without=("own",))],
    extraction: Annotated[FeatureExtraction, Options("Features")],
    owners: Annotated[int, Option(help="Number of data owners."), Whole(1, 16)] = 2,
    out: Annotated[
        Path | None,
        Option(help="Folder for the model and the ledgers, which are kept."),
        Writes(inside=("model.npz",)),
    ] = None,
    timeout: Annotated[float, Option(help="Seconds after which everything ends.")] = 3600.0,
) -> None:
    """Start a model's owner and some data owners here, a process each, to try Pencil with."""
    check_seconds("timeout", timeout)
    with tempfile.TemporaryDirectory(prefix="pencil-") as name:
        folder, kept = Path(name), Path(name) if out is None else out
        with quiet_unless_it_fails():
            from crypten_ext.pencil import local
        parts = extraction.extract(origin.read(owners), lambda *_: None)
        files = write_parts(parts, folder)
        commands = local.commands_of(learning, cost, extraction, files, kept)
        commands[0] += ["--features", str(parts[0].train_x.shape[1])]
        commands[0] += ["--classes", str(parts[0].classes)]
        for command in commands:  # others wait as long as one's turn takes
            command += ["--join-timeout", str(timeout)]
        local.run_together(commands, folder, timeout)


def _files(given: Sequence[Path]) -> list[Path]:
    """Returns the federations' files, those in folders too."""
    found: list[Path] = []
    for path in given:
        found += sorted(path.glob("*.toml")) if path.is_dir() else [path]
    if not found:
        raise ArgumentError(
            "federation", [str(path) for path in given], "a file, or a folder of some"
        )
    return found
