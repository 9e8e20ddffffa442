"""The command `pea fl`: what it reports, what it refuses, and how a run goes on."""

import json
import os
import re
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fl
from extensions.cli.console import resume_hint
from extensions.errors import ArgumentError, WorkerLostError
from extensions.privacy.accounting import Ledger
from fl.cli.drop_outs import RandomDropOuts
from tests.helpers.commands import PROGRAM, ROOT, here, once, pea, started, work_of
from tests.helpers.patience import wait_until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]

PLAIN = ("--aggregator", "plain")
SMALL = ("--model", "logistic", "--clients", 20, "--client-fraction", 0.5, "--local-epochs", 1)
RUN = ("fl", *SMALL, "--rounds", 2)
TARGET = ("--mechanism", "central-dp", "--epsilon", 8, "--delta", 1e-3)
MADE = {
    "chain": fl.ChainAggregator(),
    "masked": fl.MaskedAggregator(),
    "paillier": fl.PaillierAggregator(),
    "plain": fl.PlainAggregator(),
}
AGGREGATORS = (*MADE,)
EAGER = (
    "from fl.training.federated import FederatedAveraging as Run; make = Run._trainer; "
    "Run._trainer = lambda run, rounds: make(run, None)"
)
"""Has a command use workers, however short its run is."""
SIGINT_BIT = 1 << (signal.SIGINT - 1)


def reported(folder: Path, *arguments: object) -> dict[str, Any]:
    """Returns what a run in a process of its own wrote; it says the same on standard output."""
    path = folder / "run.json"
    done = pea(*RUN, *arguments, "--json", path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    report: dict[str, Any] = json.loads(path.read_text())
    for key in ("accuracy", "rounds", "bytes total", "seconds", "server learns", "written"):
        assert f" {key} " in done.stdout
    report["stdout"], report["stderr"] = done.stdout, done.stderr
    return report


@pytest.fixture
def run_here(monkeypatch, capsys, tmp_path):
    """Returns what a run in this process wrote, as `reported`."""

    def run(*arguments: object) -> dict[str, Any]:
        path = tmp_path / "here.json"
        assert here(monkeypatch, *RUN, *arguments, "--json", path) == 0, capsys.readouterr()
        shown = " ".join(capsys.readouterr().out.split())
        return {**json.loads(path.read_text()), "stdout": shown}

    return run


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What a run with each aggregator wrote, its model included."""
    found = {}
    for name in AGGREGATORS:
        folder = tmp_path_factory.mktemp(name)
        found[name] = reported(folder, "--aggregator", name, "--save", folder / "model.npz")
        with np.load(folder / "model.npz") as model:
            found[name]["values"] = {key: model[key] for key in model.files}
    return found


@pytest.mark.parametrize("name", AGGREGATORS)
def test_a_run_with_each_aggregator_reports_costs_settings_and_rounds(reports, name):
    report = reports[name]
    assert report["rounds"] == len(report["history"]) == 2
    assert report["accuracy"] == report["history"][-1]["accuracy"] > 0.2
    for key in ("bytes_up", "bytes_down", "bytes_total", "seconds"):
        assert report[key] == pytest.approx(sum(each[key] for each in report["history"]))
    assert report["bytes_total"] > 2 * 10 * 650 * 4
    assert all(len(each["included"]) == 10 for each in report["history"])
    settings = report["settings"]
    assert (settings["aggregator"], settings["clients"], settings["lr"]) == (name, 20, 0.1)
    assert (report["model"], report["parameters"], report["epsilon"]) == ("logistic", 650, None)
    assert report["versions"]["torch"] == torch.__version__
    assert report["versions"]["pea-mpl"] == fl.__version__ == version("pea-mpl")
    assert report["stderr"].count("Notice:") == (name == "plain")


@pytest.mark.parametrize(
    ("name", "alone", "with_one"),
    [
        ("plain", "10 single updates", "9 single updates"),
        ("chain", "the sum of 10 updates", "1 single update, the sum of 8 updates"),
        ("masked", "the sum of 10 updates", "the sum of 9 updates"),
        ("paillier", "the sum of 10 updates", "9 single updates"),
    ],
)
def test_who_learns_what_is_said(reports, name, alone, with_one):
    assert reports[name]["server_learns"] == alone
    assert reports[name]["server_and_one_client_learn"] == with_one
    assert alone in reports[name]["stdout"]


@pytest.mark.parametrize(("name", "frac_bits"), [("chain", 24), ("masked", 24), ("paillier", 16)])
def test_models_are_equal_up_to_the_fixed_point(reports, name, frac_bits):
    """Half a unit a round; the second round's training starts from what the first one left."""
    for key, plain in reports["plain"]["values"].items():
        difference = np.abs(reports[name]["values"][key] - plain).max()
        assert 0 < difference < 4 * 2.0**-frac_bits
    assert reports[name]["accuracy"] == pytest.approx(reports["plain"]["accuracy"], abs=2 / 359)


def test_a_run_imports_neither_scikit_learn_nor_a_compiler():
    """They take five seconds together, which is more than such a run."""
    words = list(map(str, (*RUN, *PLAIN)))
    code = f"import sys; sys.argv = ['pea', *{words!r}]\n"
    code += "try:\n    from extensions.cli.main import main; main()\n"
    code += "except SystemExit as end:\n    assert not end.code\n"
    code += "print({'sklearn', 'torch._dynamo'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "set()"


def spent(report: dict[str, Any], **noise: float) -> float:
    """Returns the epsilon of the client that was selected most often, from the history."""
    selected = [client for each in report["history"] for client in each["selected"]]
    ledger = Ledger()
    for _ in range(max(map(selected.count, selected))):
        if "epsilon" in noise:
            ledger.charge("update", epsilon=noise["epsilon"], delta=0.0)
        else:
            ledger.record("update", **noise, sample_rate=1.0, steps=1)
    return ledger.get_epsilon(report["delta"] or 1e-9)


@pytest.mark.parametrize(
    ("options", "epsilon"),
    [(("--local-dp.noise", "laplace"), 3.0), (("--local-dp.delta", 1e-5), None)],
)
def test_local_privacy_is_accounted_for_the_client_that_spent_most(run_here, options, epsilon):
    given = ("--aggregator", "masked", "--masked.fixed-point.clip", 4096)
    given += ("--mechanism", "local-dp", "--local-dp.epsilon", 3)
    report = run_here(*given, *options)
    noise = fl.LocalDP(epsilon=3.0, delta=1e-5, clip=1.0).scale / 2
    charged = {"epsilon": epsilon} if epsilon else {"noise_multiplier": noise}
    assert report["epsilon"] == pytest.approx(spent(report, **charged))
    assert report["epsilon"] > 3.0
    assert report["delta"] == (0.0 if epsilon else 1e-5)
    assert "from everybody, the server included" in report["stdout"]


def test_central_privacy_reaches_the_epsilon_that_is_asked_for(tmp_path):
    report = reported(tmp_path, "--aggregator", "masked", *TARGET, "--central-dp.clip", 0.5)
    assert 7.99 < report["epsilon"] <= 8.0
    assert report["settings"]["central-dp.noise_multiplier"] > 0.3
    assert report["settings"]["central-dp.clip"] == 0.5
    assert report["settings"]["weighting"] == "equal"
    shown = " ".join(report["stdout"].split())  # a table as wide as the terminal breaks lines
    assert "not from the server, nor from those who learn who took part" in shown


def test_distributed_privacy_reaches_the_epsilon_that_is_asked_for(run_here):
    given = ("--mechanism", "distributed-dp", "--epsilon", 8, "--delta", 1e-3)
    report = run_here("--aggregator", "masked", "--masked.colluders", 1, *given)
    assert 7.99 < report["epsilon"] <= 8.0
    assert report["settings"]["masked.colluders"] == 1
    assert report["settings"]["weighting"] == "equal"
    assert "also from the server and clients on its side" in report["stdout"]
    few, many = (report[f"epsilon_with_colluders{lost}"] for lost in ("", "_30_percent_lost"))
    assert report["colluders"] == 1
    assert few < many == report["epsilon"]  # of 10, 7 have to stay


def test_sparse_graphs_lanes_and_what_is_kept_are_asked_for_by_options(run_here):
    asked = {
        "masked.graph.corrupt": 0.05,
        "masked.graph.dropping": 0.25,
        "masked.lanes": 3,
        "masked.fixed_point.frac_bits": 12,
        "masked.fixed_point.clip": 2.0,
    }
    given = [
        word for name, value in asked.items() for word in (f"--{name}".replace("_", "-"), value)
    ]
    fixed = ("--weighting", "equal", "--transcript", "sizes")
    report = run_here("--aggregator", "masked", *given, *fixed)
    assert {name: report["settings"][name] for name in asked} == asked
    assert "server_learns" not in report
    assert report["bytes_up"] > 0


@pytest.mark.parametrize("aggregator", ["chain", "masked", "paillier"])
def test_few_clients_are_enough_without_further_options(monkeypatch, tmp_path, aggregator):
    """A tenth of 5 clients would be none; the aggregator needs two."""
    small = (
        ("--paillier.insecure-small-key", "--paillier.key-bits", 256)
        if aggregator == "paillier"
        else ()
    )
    file = tmp_path / "report.json"
    given = ("--clients", 5, "--rounds", 1, "--model", "logistic", "--json", file, *small)
    assert here(monkeypatch, "fl", "--aggregator", aggregator, *given) == 0
    report = json.loads(file.read_text())
    assert report["settings"]["client_fraction"] == 0.4
    assert len(report["history"][0]["included"]) == 2


def test_signs_are_sent_and_accounted_for(run_here):
    own = {"sign-k": 0.1, "sign-eps": 5, "sign-global-lr": 0.01}
    given = ["--mechanism", "sign-ds"]
    given += [word for name, value in own.items() for word in (f"--sign-ds.{name}", value)]
    report = run_here("--aggregator", "plain", *given)
    assert report["epsilon"] == spent(report, epsilon=5.0)
    assert report["delta"] == 0.0


@pytest.mark.parametrize("aggregator", ["paillier", "plain"])
def test_adaptive_clipping_and_fixed_rounds_go_with_any_aggregator(run_here, aggregator):
    own = {"noise-multiplier": 0.4, "sampling": "fixed", "adaptive.quantile": 0.5}
    given = [word for name, value in own.items() for word in (f"--central-dp.{name}", value)]
    central = ("--mechanism", "central-dp", "--delta", 1e-3, *given)
    report = run_here("--aggregator", aggregator, *central)
    assert report["epsilon"] == pytest.approx(spent(report, noise_multiplier=0.4))


def test_clients_vanish_by_a_public_seed(run_here):
    lossy = ("--drop-out", 0.3, "--on-failure", "skip", "--delay-ms", 20, "--mbit", 10)
    report, again = (run_here("--aggregator", "masked", *lossy) for _ in range(2))
    gone = [each["vanished"] for each in report["history"]]
    assert gone == [each["vanished"] for each in again["history"]]
    first = next(client for clients in gone for client in clients)
    assert f"client {first} in round" in report["stdout"]
    assert any(each["refused"] for each in report["history"])
    assert report["virtual_seconds"] > 2 * 0.02


def test_a_round_that_too_many_leave_ends_the_run_or_is_skipped(monkeypatch, capsys, run_here):
    lossy = ("--aggregator", "masked", "--drop-out", 0.95)
    assert here(monkeypatch, *RUN, *lossy) == 1
    shown = capsys.readouterr()
    assert "\npea: round 1: " in shown.err
    assert "Traceback" not in shown.err
    report = run_here(*lossy, "--on-failure", "skip")
    assert report["rounds_failed"] == report["rounds"] == 2
    assert "server_learns" not in report


@pytest.mark.parametrize("name", AGGREGATORS)
def test_vanishing_clients_do_so_at_every_stage(name):
    """All but 1e-9 of the draws of 40,000 clients lie within six standard deviations."""
    clients, rate = 40_000, 0.25
    drops = RandomDropOuts(name, rate, clients, 7)(3)
    gone = {drop.party: drop for drop in drops}
    assert abs(len(gone) - rate * clients) < 6 * (clients * rate * (1 - rate)) ** 0.5
    stages = {(drop.kind, drop.when) for drop in drops}
    assert {when for _, when in stages} == {"before", "after"}
    assert ("ready", "before") in stages
    assert drops == RandomDropOuts(name, rate, clients, 7)(3)
    assert drops != RandomDropOuts(name, rate, clients, 7)(4)


@pytest.mark.parametrize(
    ("protocol", "aggregator"),
    [
        *MADE.items(),
        ("chain, led by a client", fl.ChainAggregator(led_by="client")),
        ("paillier, model hidden", fl.PaillierAggregator(hide_model=True)),
    ],
)
def test_every_stage_at_which_clients_vanish_occurs(protocol, aggregator):
    """A client that leads and is the last of a chain, one round of four, sends itself no sum."""
    run = fl.FederatedAveraging(
        model=torch.nn.Linear(2, 2),
        clients=[(np.ones((2, 2)), np.zeros(2, dtype=np.int64))] * 4,
        aggregator=aggregator,
        client_fraction=1.0,
        transcript="sizes",
    )
    missing, rounds = {drop.kind for drop in RandomDropOuts(protocol, 0.9, 100, 0)(1)}, 0
    while missing and rounds < 40:
        run.fit(1, progress=False)
        assert run.outcome is not None
        sent = (entry.message for entry in run.outcome.transcript)
        missing -= {message.kind for message in sent if message.sender >= 0}
        rounds += 1
    assert not missing


def test_a_table_and_options_from_a_file(tmp_path, monkeypatch, capsys):
    """What the command line says wins; classes have the names of the table."""
    draws = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    rows = [f"{a:.4f},{b:.4f},{'left' if a > b else 'right'}" for a, b in draws]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,side", *rows]) + "\n")
    (tmp_path / "run.toml").write_text(
        'aggregator = "masked"\nlr = 1.0\nrounds = 50\npartition = "dirichlet"\n'
    )
    data = ("--data", f"csv:{tmp_path / 't.csv'}", "--label", "side", "--clients", 5, "--alpha", 5)
    config = ("--config", tmp_path / "run.toml", "--rounds", 6, "--json", tmp_path / "run.json")
    shared = ("--client-fraction", 1, "--evaluate-every", 6)
    assert here(monkeypatch, "fl", "--model", "mlp", *data, *shared, *config) == 0
    assert "classes: 0 = left, 1 = right" in capsys.readouterr().err
    report = json.loads((tmp_path / "run.json").read_text())
    assert (report["settings"]["lr"], report["rounds"]) == (1.0, 6)
    assert [each["accuracy"] is None for each in report["history"]] == [True] * 5 + [False]
    assert report["accuracy"] > 0.9


def test_colour_images_have_a_convolutional_model(tmp_path, monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (12, 32, 32, 3))
    labels = np.arange(12) % 3
    path, model = tmp_path / "images.npz", tmp_path / "model.pt"
    np.savez(path, train_x=images, train_y=labels, test_x=images, test_y=labels)
    data = ("--data", f"npz:{path}", "--clients", 2, "--client-fraction", 1)
    options = ("--model", "lenet", "--rounds", 1, "--save", model)
    assert here(monkeypatch, "fl", *PLAIN, *data, *options) == 0
    assert torch.load(model)["0.weight"].shape == (12, 3, 5, 5)


def all_ignore_interruptions(workers: list[int]) -> bool:
    """Whether workers have got as far as that; before, they would print where they were."""
    states = [Path(f"/proc/{pid}/status").read_text() for pid in workers]
    masks = [int(re.findall(r"SigIgn:\s*(\w+)", state)[0], 16) for state in states]
    return len(masks) > 2 and all(mask & SIGINT_BIT for mask in masks)


def test_a_run_that_was_interrupted_goes_on_as_it_would_have(tmp_path, monkeypatch, capsys):
    """With workers, none of which stays; other settings are refused, and so is a second start."""
    kept, many = tmp_path / "run.npz", ("--rounds", 10_000, "--workers", 2)
    lossy = (*PLAIN, "--drop-out", 0.2, "--seed", 3)
    monkeypatch.setattr("tests.helpers.commands.PROGRAM", f"{EAGER}; {PROGRAM}")
    with started(*once("fl", *SMALL, *lossy, *many, "--checkpoint", kept)) as command:

        def working() -> bool:
            assert command.process.poll() is None, command.process.communicate()
            return kept.exists() and all_ignore_interruptions(command.running())

        wait_until(working, "the first checkpoint")
        for pid in (command.process.pid, *command.running()):
            os.kill(pid, signal.SIGINT)
        done = command.finish()
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == (
        f"pea: interrupted. What {kept} keeps is not lost: give the same command with --resume."
    )
    with np.load(kept) as state:
        ran = len(json.loads(str(state["history"])))

    run = once("fl", *SMALL, *lossy, "--rounds", ran + 2)
    assert here(monkeypatch, *run, "--checkpoint", kept) == 1
    assert "Give --resume to go on from it" in capsys.readouterr().err
    for option, value, named in (("--lr", 0.2, "lr"), ("--drop-out", 0.1, "drop_out")):
        other = once(*run, option, value)
        assert here(monkeypatch, *other, "--checkpoint", kept, "--resume") == 1
        assert capsys.readouterr().err.startswith(f"pea: --{named.replace('_', '-')} ")
    fewer = once(*run, "--rounds", ran - 1)
    assert here(monkeypatch, *fewer, "--checkpoint", kept, "--resume") == 1
    assert f"at least {ran}" in capsys.readouterr().err

    resumed, whole = tmp_path / "resumed.json", tmp_path / "whole.json"
    assert here(monkeypatch, *run, "--checkpoint", kept, "--resume", "--json", resumed) == 0
    assert here(monkeypatch, *run, "--json", whole) == 0
    assert without_times(resumed) == without_times(whole)


def without_times(path: Path) -> list[dict[str, Any]]:
    history = json.loads(path.read_text())["history"]
    assert len(history) > 2
    return [{key: value for key, value in each.items() if key != "seconds"} for each in history]


@pytest.mark.parametrize(
    "mechanism",
    [
        ("central-dp", "--central-dp.noise-multiplier", 1),
        ("central-dp", "--central-dp.noise-multiplier", 1, "--central-dp.sampling", "fixed"),
        ("record-dp", "--record-dp.noise-multiplier", 1),
    ],
)
def test_a_delta_that_the_accountant_cannot_certify_is_refused_before_the_first_round(
    mechanism, tmp_path, monkeypatch, capsys
):
    """It is of all rounds: 3e-15 is enough for the first alone, or a few."""
    kept = tmp_path / "run.npz"
    small = ("fl", "--model", "logistic", "--clients", 20, "--client-fraction", 0.5)
    given = (*small, *PLAIN, "--mechanism", *mechanism, "--checkpoint", kept)
    for delta, rounds in ((1e-20, 2), (3e-15, 100)):
        if (delta, "fixed") == (3e-15, mechanism[-1]):
            continue  # without sampling rounds are one wide step
        assert here(monkeypatch, *once(*given, "--delta", delta, "--rounds", rounds)) == 1
        said = capsys.readouterr().err
        assert "--delta must be above " in said
        assert f", not {delta}." in said
        assert not kept.exists()
    assert here(monkeypatch, *given, "--delta", 1e-5, "--rounds", 1) == 0


def test_a_run_that_is_done_is_reported_once_more(tmp_path, monkeypatch):
    found = {}
    for name, more in (("first", ()), ("again", ("--resume",))):
        path, table = tmp_path / f"{name}.json", tmp_path / f"{name}.csv"
        given = (*PLAIN, *TARGET, "--checkpoint", tmp_path / "run.npz", *more)
        assert here(monkeypatch, *RUN, *given, "--json", path, "--csv", table) == 0
        report = json.loads(path.read_text())
        found[name] = [report[key] for key in ("epsilon", "rounds", "history", "accuracy")]
        found[name].append(table.read_text())
    assert found["first"] == found["again"]


def test_a_target_epsilon_is_of_so_many_rounds(tmp_path, monkeypatch, capsys):
    given = (*PLAIN, *TARGET, "--checkpoint", tmp_path / "run.npz")
    assert here(monkeypatch, *RUN, *given) == 0
    capsys.readouterr()
    assert here(monkeypatch, *once(*RUN, *given, "--resume", "--rounds", 4)) == 1
    assert capsys.readouterr().err.startswith("pea: --rounds ")


@pytest.mark.long
def test_an_interruption_without_a_checkpoint_says_that_nothing_is_kept():
    with started(*once(*RUN, *PLAIN, "--rounds", 10_000)) as command:
        assert command.process.stderr is not None
        assert "Notice" in command.process.stderr.readline()
        before = work_of(command.process.pid)
        wait_until(lambda: work_of(command.process.pid) > before + 0.5, "work on the rounds")
        command.process.send_signal(signal.SIGINT)
        done = command.finish()
    assert done.returncode == 130
    assert done.stderr.endswith("pea: interrupted. Nothing is kept.\n")


def test_whoever_loses_a_worker_is_told_how_to_go_on(tmp_path):
    for kept in (True, False):
        path = tmp_path / f"{kept}.npz"
        if kept:
            path.touch()
        with pytest.raises(WorkerLostError) as lost, resume_hint(path):
            raise WorkerLostError("died")
        told = getattr(lost.value, "__notes__", [])
        assert [note.endswith("give the same command with --resume.") for note in told] == [
            True
        ] * kept


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_torch_it_says_what_to_install_and_the_rest_works():
    hidden = f"import sys; sys.modules['torch'] = None; sys.argv = ['pea', 'fl']; {PROGRAM}"
    done = python(hidden)
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr
        == "pea: torch is not installed. Type in your clone of PEA: pip install '.[fl]'\n"
    )
    assert " fl " in python(hidden.replace("'fl'", "'--help'")).stdout


def test_the_list_of_commands_imports_no_torch():
    code = (
        "import atexit, sys; from extensions.cli.main import main; sys.argv = ['pea', '--help']; "
        "atexit.register(lambda: print('torch:', 'torch' in sys.modules)); main()"
    )
    assert python(code).stdout.endswith("torch: False\n")


def test_an_unknown_option_of_the_command_is_named_in_its_usage(monkeypatch, capsys):
    assert here(monkeypatch, "fl", "--chain", 2) == 2
    shown = capsys.readouterr().err
    assert "pea fl" in shown
    assert "--chain" in shown


def test_an_error_keeps_its_text_under_another_name():
    error = ArgumentError("n", 3, "at most 2", "Lower it.").of("clients")
    assert str(error) == "clients must be at most 2, not 3. Lower it."
    assert error.argument == "clients"
