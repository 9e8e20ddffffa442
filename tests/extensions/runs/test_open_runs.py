"""Whole runs whose model is public: alike on every host, nobody deals, and one opening each."""

import itertools
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from crypten_ext.processes.launch import Parties
from crypten_ext.run import backend
from extensions.data.schema import to_toml
from extensions.errors import LostError
from extensions.protocols.noisy_sums.additive.training import most_opened
from extensions.ring.fixed_point import encode
from extensions.runs.budget import Entry, read
from extensions.runs.budget.planned_cost import planned, title_of
from extensions.runs.callbacks import CheckpointCallback
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from extensions.runs.model import read_opened
from extensions.runs.options import RunOptions
from tests.conftest import SHARED
from tests.extensions.runs.test_crashes import CONFIG as HIDDEN
from tests.extensions.runs.test_crashes import PARTS, result
from tests.extensions.runs.test_third_host import toy
from tests.helpers.claims import claim
from tests.helpers.commands import PLAIN, pea, report_of
from tests.helpers.crashes import (
    Attempt,
    KilledError,
    RoomHost,
    attempt,
    boundaries_on_disk,
    epsilons_computed_once,
    here,
    kept_in,
)
from tests.helpers.digits import HELD_OUT, F, correct
from tests.helpers.refused import refused
from tests.helpers.tables import schema_of, splits_of, table_of
from tests.helpers.wire import on_wire
from tests.tfe_ext.test_compat import needs_tensorflow

__all__ = ["toy"]

PARAMETERS = 650
"""Weights and biases of the digits' model."""
ITERATES = "the model after each step"
COUNT = "the number of correct predictions on held-out records"
RUN = ("train", "--epsilon", "4", "--delta", "1e-5", "--insecure-fixed-randomness", "7")
EACH_STEP = (*RUN, *PLAIN, "--open", "each-step", "--steps", 4)
STATISTICS = (*RUN, "--method", "statistics", "--loss", "least-squares")
TWO = ("toy", "clear")


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def trained(folder: Path, *options: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the report of a run, and the model that it has saved in the clear."""
    folder.mkdir()
    done = pea(*options, "--json", folder / "report.json", "--save", folder)
    assert done.returncode == 0, done.stderr
    assert not [*folder.glob("party-*.npz")]
    report = report_of(folder / "report.json")
    model = read_opened(folder / "model.npz")
    assert model.header.privacy["epsilon"] == report["epsilon"]
    return report, {str(i): part for i, part in enumerate(itertools.chain(*model.parameters))}


def assert_equal_models(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("options", [EACH_STEP, STATISTICS], ids=["each-step", "statistics"])
@pytest.mark.parametrize("evaluate", ["mpc", "noisy", "none"])
def test_a_third_host_finds_the_model_of_the_clear_one(toy, tmp_path, options, evaluate):
    found = [
        trained(tmp_path / name, *options, "--backend", name, "--evaluate", evaluate)
        for name in TWO
    ]
    assert_equal_models(found[0][1], found[1][1])
    report, model = found[0]
    assert report["accuracy"] == found[1][0]["accuracy"]
    if evaluate == "mpc":
        count, close = correct(*(encode(model[name], F) for name in "01"))
        assert abs(report["accuracy"] * HELD_OUT - count) <= close + 1e-9
    assert (report["accuracy"] is None) == (evaluate == "none")
    counted = {"mpc": [COUNT], "noisy": [f"{COUNT}, with noise"], "none": []}[evaluate]
    assert report["opened"][1:] == counted
    assert report["provider"] is None
    assert report["epsilon"] <= 4.0
    assert report["epsilon_without_noise_of"]["1"] <= report["epsilon"] + 1e-9


class Watched(Parties):
    """Notes who was started."""

    dealers: ClassVar[list[int | None]] = []

    def __enter__(self) -> "Watched":
        super().__enter__()
        self.dealers.append(self.dealer_pid)
        return self


@pytest.mark.xdist_group(SHARED["pools"])
def test_crypten_opens_16_bytes_a_parameter_in_one_round_a_step(tmp_path, monkeypatch):
    """Differences of two runs, by the kernel's count; the model is that of the clear host."""
    Watched.dealers.clear()
    monkeypatch.setattr(backend, "Parties", Watched)
    short, model = trained(tmp_path / "short", *EACH_STEP, "--backend", "crypten")
    longer, _ = trained(tmp_path / "longer", *EACH_STEP[:-1], 7, "--backend", "crypten")
    _, clear = trained(tmp_path / "clear", *EACH_STEP, "--backend", "clear")
    assert_equal_models(model, clear)
    assert longer["rounds"] - short["rounds"] == 3
    assert short["rounds"] == 4 + 3, "one to agree, one for keys of masks, one for the start"
    for one, other in zip(short["sent_bytes"], longer["sent_bytes"], strict=True):
        assert (other - one) / 3 == 2 * on_wire(8 * PARAMETERS)
    assert short["dealt_bytes"] == longer["dealt_bytes"] == [0, 0, 0]
    assert short["padding_bytes_per_party"] == 0
    assert Watched.dealers == [None, None], "nobody deals"
    assert short["provider"] is None
    assert short["opened"] == [ITERATES, COUNT]


@pytest.mark.xdist_group(SHARED["pools"])
def test_crypten_opens_statistics_once(tmp_path):
    """Half a matrix of 64 columns and ten columns of labels, in two rounds more than none."""
    secure, model = trained(tmp_path / "secure", *STATISTICS, "--backend", "crypten")
    clear, same = trained(tmp_path / "clear", *STATISTICS, "--backend", "clear")
    assert_equal_models(model, same)
    assert secure["accuracy"] == clear["accuracy"] > 0.7
    assert (secure["rounds"], secure["steps"], secure["sample_rate"]) == (3, 1, 1.0)
    words = 64 * 65 // 2 + 64 * 10
    assert 0 <= secure["sent_bytes"][0] - 2 * 8 * words < 2500, "and what parties agree on"
    assert secure["dealt_bytes"] == [0, 0, 0]


@pytest.fixture
def table(tmp_path: Path) -> tuple[object, ...]:
    """Options of a run on a table."""
    columns, _ = table_of(SCHEMA, 900)
    (tmp_path / "schema.toml").write_text(to_toml(SCHEMA))
    rows = [",".join(columns)]
    for row in zip(*columns.values(), strict=True):
        rows.append(",".join("" if cell is None else str(cell) for cell in row))
    (tmp_path / "table.csv").write_text("\n".join(rows))
    return "--data", f"csv:{tmp_path / 'table.csv'}", "--schema", tmp_path / "schema.toml"


@pytest.mark.xdist_group(SHARED["pools"])
def test_an_additive_model_is_alike_on_hosts_in_a_round_a_step(toy, tmp_path, table):
    """One round more for the counts; the third host and CrypTen find the model of the clear one."""
    run = (*RUN, *table, "--open", "each-step", "--steps", 6)
    reports, models = zip(
        *(trained(tmp_path / name, *run, "--backend", name) for name in ("crypten", *TWO)),
        strict=True,
    )
    for model in models[1:]:
        assert_equal_models(models[0], model)
    assert {report["model"] for report in reports} == {"additive"}
    longer, _ = trained(tmp_path / "longer", *run[:-1], 8, "--backend", "crypten")
    assert longer["rounds"] - reports[0]["rounds"] == 2
    assert reports[0]["rounds"] == 6 + 3, "one to agree, one for keys of masks, one for the counts"
    found = read_opened(tmp_path / "crypten" / "model.npz")
    grid = found.header.grid
    words = grid.size + 6 * most_opened(grid, 2)
    assert 0 < reports[0]["sent_bytes"][0] < 2 * 8 * words + 6000, "and what parties agree on"
    assert reports[0]["dealt_bytes"] == [0, 0, 0]


@pytest.mark.long
@needs_tensorflow
def test_aby3s_program_trains_the_same_additive_model(tmp_path, table):
    run = (*RUN, *table, "--open", "each-step", "--steps", 4)
    models = [trained(tmp_path / name, *run, "--backend", name)[1] for name in ("tfe", "clear")]
    assert_equal_models(*models)


@pytest.mark.long
@needs_tensorflow
@pytest.mark.parametrize("options", [EACH_STEP, STATISTICS], ids=["each-step", "statistics"])
def test_aby3s_program_computes_for_all_owners(tmp_path, options):
    servers, model = trained(tmp_path / "servers", *options, "--backend", "tfe")
    _, clear = trained(tmp_path / "clear", *options, "--backend", "clear")
    assert_equal_models(model, clear)
    assert servers["sent_bytes"] == [0, 0, 0], "it opens what it has itself"


OPEN = replace(HIDDEN, open="each-step")
BOUNDARIES = 13
"""One of so many is tried by default."""


class Given:
    """What parties gave for each release of their runs, whatever became of these.

    Attributes:
        words: by run, release and rank.
        run: the present one.
        dies: release and rank of the party that dies when it has its words of it.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.words: dict[tuple[str, str, int], set[bytes]] = defaultdict(set)
        self.run = ""
        self.dies: tuple[str, int] | None = None
        place, opening, sending = threading.local(), CheckpointCallback.open, RoomHost.open
        given = self

        def open_named(callbacks: Any, name: str, compute: Any) -> Any:
            place.name = name
            try:
                return opening(callbacks, name, compute)
            finally:
                place.name = ""

        def send(host: Any, summands: Any) -> Any:
            if name := getattr(place, "name", ""):
                key = given.run, name, host.ranks[0]
                given.words[key].add(b"".join(part.tobytes() for part in summands[0]))
                if (name, host.ranks[0]) == given.dies:
                    here.life.ends = here.life.passed
            return sending(host, summands)

        patch.setattr(CheckpointCallback, "open", open_named)
        patch.setattr(RoomHost, "open", send)


@pytest.fixture
def given(monkeypatch) -> Iterator[Given]:
    with epsilons_computed_once(), boundaries_on_disk():
        yield Given(monkeypatch)


SEEDS = itertools.count(1)


def start(folder: Path, config: TrainConfig, *, resume: bool, ends: Any = None) -> Attempt:
    """Parties of one start; in the next all that is drawn is drawn anew."""
    parts = PARTS if config.model == "logistic" else TABLES
    return attempt(config, parts, kept_in(folder, resume=resume), next(SEEDS), ends)


def crashes(folder: Path, config: TrainConfig, given: Given, ends: dict[int, int]) -> bool:
    """Returns whether a party died, after the run has gone on to its end."""
    given.run = folder.name
    first = start(folder, config, resume=False, ends=ends)
    if not first.errors:
        return False
    assert all(isinstance(error, KilledError | LostError) for error in first.errors.values())
    tries = [start(folder, config, resume=True) for _ in range(2)]
    texts = {str(error) for each in tries for error in each.errors.values()}
    if any("with a checkpoint of party" in text for text in texts):
        assert not any(run == folder.name for run, *_ in given.words), "nothing was stored"
        return True
    results = [result(folder, rank) for rank in range(2)]
    assert results[0] == results[1] != None, texts  # noqa: E711 - both are there, and equal
    return True


ONCE = replace(
    OPEN,
    open="never",
    method="statistics",
    loss="least-squares",
    one_output=False,
    steps=1,
    sample_rate=1.0,
    momentum=0.0,
    average=0.0,
)


SCHEMA = schema_of()
TABLES = splits_of(SCHEMA, 200, parties=2)
ADDITIVE = replace(
    OPEN,
    model="additive",
    facts=SCHEMA.facts(),
    cells="coarse",
    lr=0.4,
    one_output=False,
    sample_rate=1.0,
    momentum=0.0,
    average=0.0,
    noise_multiplier_counts=1.0,
)


@claim("A run that goes on opens the same words.")
@pytest.mark.parametrize("every", [BOUNDARIES, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "config",
    [OPEN, ONCE, ADDITIVE],
    ids=["each-step", "statistics", "additive"],
)
def test_a_run_that_goes_on_opens_the_same_words(tmp_path, given, config, every):
    """One party dies at any boundary; for each sum a party gives one set of words."""
    for rank in range(2):
        for at in itertools.count(rank * (every // 2), every):
            if not crashes(tmp_path / f"{rank}-{at}", config, given, {rank: at}):
                break
        assert at > 30
    assert {len(words) for words in given.words.values()} == {1}
    names = {name for _, name, _ in given.words}
    steps = {"step-1", "step-2"} | ({"counts"} if config is ADDITIVE else set())
    assert names == (steps if config.method == "pea" else {"statistics"})


@claim("Every ledger has charged the whole run before its first sum.")
def test_a_sum_waits_for_the_party_that_is_lost_and_the_run_stays_paid_for(tmp_path, given):
    """Party 1 dies before it sends its words of the second sum, which then nobody has.

    The other one ends and says who it was. Both ledgers have the whole run, from before the first
    sum was opened, once; nobody can free it, and the run that goes on opens what was stored.
    """

    def ledger(rank: int) -> Path:
        return tmp_path / given.run / f"{rank}.budget.json"

    def options(rank: int, *, resume: bool) -> RunOptions:
        kept = kept_in(tmp_path / given.run, resume=resume)(rank)
        return replace(kept, ledgers=[ledger(rank)])

    def entries() -> list[Entry]:
        (one,), (other,) = (read(ledger(rank)).entries for rank in range(2))
        return [one, other]

    given.run, given.dies = "lost", ("step-2", 1)
    first = attempt(OPEN, PARTS, partial(options, resume=False), next(SEEDS))
    assert isinstance(first.errors[0], LostError)
    assert "party 1" in str(first.errors[0])
    assert [len(sent) for sent in first.sent] == [3, 2], "the start, a sum, and half of another"
    paid = entries()
    for rank, entry in enumerate(paid):
        assert entry.spent
        assert [phase.steps for phase in entry.ledger.phases] == [OPEN.steps]
        with refused("free", "choice"):
            read(ledger(rank)).without(entry.name)
    given.dies = None
    again = attempt(OPEN, PARTS, partial(options, resume=True), next(SEEDS))
    assert not again.errors
    assert {len(words) for words in given.words.values()} == {1}
    assert [entry.name for entry in entries()] == [entry.name for entry in paid]


@pytest.mark.parametrize(
    ("changes", "argument", "code", "value"),
    [
        ({}, "open", "choice", "always"),
        ({}, "method", "choice", "newton"),
        ({"open": "each-step"}, "evaluate", "choice", "opened"),
        ({"open": "each-step", "epsilon_init": 1.0}, "init", "conflict", "local"),
        ({"open": "each-step"}, "private", "conflict", False),
        ({"open": "each-step"}, "provider", "conflict", "tfp"),
        ({"method": "statistics"}, "loss", "choice", "sigmoid"),
        ({"method": "statistics", "loss": "least-squares"}, "model", "choice", "mlp:4"),
        ({"method": "statistics", "loss": "least-squares"}, "open", "choice", "each-step"),
        ({"method": "statistics", "loss": "least-squares"}, "init", "conflict", "random"),
        (
            {"method": "statistics", "loss": "least-squares"},
            *("class_weights", "conflict", (1.0,) * 10),
        ),
    ],
)
def test_what_does_not_go_together_is_refused(changes, argument, code, value):
    with refused(argument, code, value):
        TrainConfig(**({"epsilon": 2.0, "delta": 1e-5, argument: value} | changes))


@pytest.mark.parametrize("options", [EACH_STEP, STATISTICS], ids=["each-step", "statistics"])
def test_scores_are_counted_by_class_and_with_noise(toy, tmp_path, options):
    more = ("--metrics", "all", "--evaluate", "noisy", "--count-noise", 2)
    found = [trained(tmp_path / name, *options, *more, "--backend", name) for name in TWO]
    measures = [
        {name: report[name] for name in ("accuracy", "majority", "recall")} for report, _ in found
    ]
    assert measures[0] == measures[1]
    assert len(measures[0]["recall"]) == 10


def test_ledgers_foresee_what_hidden_steps_cost():
    host = ClearHost(20, parties=3, owners=3, source=None)  # type: ignore[arg-type]
    host.noise_failure = lambda parameters: 1e-8  # type: ignore[method-assign]
    config = TrainConfig(backend="clear", epsilon=2.0, delta=1e-5, open="each-step").resolved()
    hidden = replace(config, open="never")
    assert title_of(config) == "logistic, 120 opened steps, clear"
    assert config.noise_multiplier == hidden.noise_multiplier
    phases = [planned(host, each, 64).to_json() for each in (config, hidden)]
    assert phases[0] != phases[1], "what may fail in a graph does not in the clear"
    host.noise_failure = lambda parameters: 0.0  # type: ignore[method-assign]
    assert planned(host, hidden, 64).to_json() == phases[0]


def test_statistics_have_one_step():
    config = TrainConfig(method="statistics", loss="least-squares", epsilon=2.0, delta=1e-5)
    with refused("steps, sample_rate", "choice", (120, 0.1)):
        config.resolved()
