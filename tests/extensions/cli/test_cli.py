"""The `pea` command: what it reports, writes and refuses."""

import signal
import stat
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from extensions.cli import console
from extensions.privacy import planning
from extensions.ring.fixed_point import encode
from extensions.runs import clear_backend
from extensions.runs.config import TrainConfig
from tests.conftest import SHARED
from tests.helpers.commands import Command, call, once, pea, report_of
from tests.helpers.digits import correct
from tests.helpers.patience import wait_until
from tests.helpers.refused import refused

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]

F = 20
NOISE = ("--noise-multiplier", 1.0, "--delta", 1e-5)
ABY3 = (*NOISE, "--backend", "tfe")
TINY = ("--epsilon", 1, "--delta", 1e-14, "--sample-rate", 0.1)
LENGTHS = (*NOISE, "--steps", 3, "--epochs", 2)
BAD = {
    "epsilon below 0": (("--epsilon", -1, "--delta", 1e-5), "epsilon", "range", -1.0),
    "delta of 1": (("--epsilon", 1, "--delta", 1), "delta", "range", 1.0),
    "delta of a half": (("--epsilon", 1, "--delta", 0.5), "delta", "range", 0.5),
    "epsilon of none": (("--no-dp", "--epsilon", 1), "epsilon", "conflict", 1.0),
    "no delta": (("--epsilon", 1), "delta", "range", None),
    "both": ((*NOISE, "--epsilon", 1), "epsilon, noise_multiplier", "privacy", (1.0, 1.0)),
    "neither": (("--delta", 1e-5), "epsilon, noise_multiplier", "privacy", (None, None)),
    "sample rate of 0": ((*NOISE, "--sample-rate", 0), "sample_rate", "range", 0.0),
    "one party": ((*NOISE, "--parties", 1), "parties", "range", 1),
    "too many parties": ((*NOISE, "--parties", 1000), "parties", "range", 1000),
    "data": ((*NOISE, "--data", "iris"), "data", "choice", "iris"),
    "no folder": ((*NOISE, "--data", "mnist"), "data_dir", "file", None),
    "model": ((*NOISE, "--model", "forest"), "model", "choice", "forest"),
    "loss": ((*NOISE, "--loss", "hinge"), "loss", "choice", "hinge"),
    "backend": ((*NOISE, "--backend", "spdz"), "backend", "value", "spdz"),
    "ABY3 of two": ((*ABY3, "--parties", 2), "parties", "value", 2),
    "ABY3's provider": ((*ABY3, "--provider", "tfp"), "provider", "conflict", "tfp"),
    "steps and epochs": (LENGTHS, "steps, epochs", "either", (3, 2.0)),
    "no steps": ((*NOISE, "--steps", 0), "steps", "range", 0),
    "epochs": ((*NOISE, "--epochs", -1), "epochs", "range", -1.0),
    "evaluate": ((*NOISE, "--evaluate", "all"), "evaluate", "choice", "all"),
    "seed": ((*NOISE, "--insecure-fixed-randomness", -1), "insecure_seed", "range", -1),
    "delta too small": (TINY, "delta", "value", 1e-14),
    "neighbours": ((*NOISE, "--neighbours", "add"), "neighbours", "choice", "add"),
}


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.long)]
)
def test_a_run_that_is_ended_leaves_no_key_and_no_records(tmp_path, monkeypatch, number):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    typed = ["--data", "digits", "--backend", "crypten", "--parties", 2, "--steps", 3000]
    run = Command("train", *typed, "--epsilon", 2, "--delta", 1e-5)
    wait_until(lambda: [*tmp_path.glob("parties-*/*.pem")])
    assert not [*tmp_path.rglob("*.npz")], "features are handed over in memory"
    run.process.send_signal(number)
    done = run.finish()
    assert done.returncode == -number, done.stderr
    assert "pea: interrupted. Nothing is kept." in done.stderr
    assert not [*tmp_path.iterdir()]


IMPORTS_TENSORFLOW = pytest.mark.xdist_group(SHARED["tfe_process"])


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=IMPORTS_TENSORFLOW if "ABY3" in case else []) for case in BAD],
)
def test_a_bad_argument_is_named(case, no_public_data):
    arguments, *expected = BAD[case]
    with refused(*expected) as caught:
        call(*once("train", *arguments))
    assert repr(caught.value.value) == repr(expected[-1]), "of the option's type"


def test_more_parties_than_records_are_refused(tmp_path):
    done = pea("split", "--out", tmp_path, "--parties", 400)
    assert (done.returncode, list(tmp_path.iterdir())) == (1, [])
    assert "--parties" in done.stderr
    few = {"train_x": np.zeros((3, 2)), "train_y": np.arange(3)}
    np.savez(tmp_path / "few.npz", **few, test_x=few["train_x"], test_y=few["train_y"])
    data = f"npz:{tmp_path / 'few.npz'}"
    done = pea("split", "--out", tmp_path / "parts", "--parties", 4, "--data", data)
    assert "at most 3, " in done.stderr


def test_an_option_that_is_no_number_is_named():
    done = pea("train", "--epsilon", "much")
    assert done.returncode == 2
    assert done.stderr == "pea: --epsilon must be a number, not 'much'.\n"
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_settings_that_only_the_parties_can_refuse_end_in_one_line_too():
    done = pea("train", *NOISE, "--frac-bits", 24, "--steps", 2, "--parties", 2)
    assert done.returncode == 1
    *_, last = done.stderr.splitlines()
    assert last.startswith("pea: party ")
    assert "frac_bits must be at most " in last
    assert "Traceback" not in done.stderr


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    done = pea("split", "--out", tmp_path / "file" / "folder")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(tmp_path / "file") in done.stderr


@pytest.mark.long
def test_an_opened_model_is_saved_in_plaintext(tmp_path):
    done = pea(
        *("train", "--no-dp", "--parties", 2, "--steps", 3, "--evaluate", "opened"),
        *("--json", tmp_path / "report.json", "--save", tmp_path / "model"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("--no-dp: the model is not private") == 1
    report = report_of(tmp_path / "report.json")
    assert report["epsilon"] is None
    assert report["opened"][0] == "the model"
    (path,) = (tmp_path / "model").iterdir()
    assert (path.name, stat.S_IMODE(path.stat().st_mode)) == ("model.npz", 0o600)
    with np.load(path) as arrays:
        count, close = correct(*(encode(arrays[name], F) for name in ("weight_0", "bias_0")))
    assert abs(report["accuracy"] * 359 - count) <= close + 1e-9


def test_the_clear_backend_reports_the_same_keys(tmp_path):
    path = tmp_path / "report.json"
    done = pea(
        "train", "--backend", "clear", *NOISE, "--epochs", 0.5, "--sample-rate", 0.1, "--json", path
    )
    assert done.returncode == 0, done.stderr
    report = report_of(path)
    assert (report["backend"], report["steps"], report["rounds"]) == ("clear", 5, 0)
    assert report["opened"] == ["everything: this backend is plaintext"]
    assert done.stderr.count("Notice:") == 1


@pytest.mark.filterwarnings("default::extensions.errors.PrivacyWarning")
@pytest.mark.parametrize(
    ("options", "notices"),
    [
        (("--epsilon", 50), ["epsilon = 50", "epsilon = 50"]),  # before it is spent, and after
        (("--epsilon", 20), []),
        (("--noise-multiplier", 0.1), ["epsilon = "]),
        (("--noise-multiplier", 2), []),
    ],
)
def test_an_epsilon_that_protects_little_is_told(options, notices):
    run = ("--backend", "clear", "--parties", 2, "--steps", 2, "--budget", "none")
    done = pea("train", "--data", "digits", *run, *options, "--delta", 1e-5)
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("Notice: epsilon = ")]
    assert len(told) == len(notices)
    assert all(map(str.__contains__, told, notices))


def test_a_run_without_noise_reports_no_epsilon_in_plain_json(tmp_path):
    path = tmp_path / "report.json"
    options = ("--noise-multiplier", 0, "--delta", 1e-5, "--steps", 2, "--json", path)
    assert pea("train", "--backend", "clear", *options).returncode == 0
    assert report_of(path)["epsilon"] is None
    assert "Infinity" not in path.read_text()


def test_hidden_layers_have_a_learning_rate_of_their_own(tmp_path):
    options = ("--backend", "clear", *NOISE, "--model", "mlp:4", "--steps", 2)
    assert pea("train", *options).returncode == 0
    done = pea("train", *options, "--lr", 1000)
    assert done.returncode == 1
    assert "such that 2 steps move weights by" in done.stderr


@pytest.fixture(scope="module")
def completion() -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHELL", "/bin/bash")
        return pea("--show-completion").stdout


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("pea pre", ["predict", "prepare"]),
        ("pea train --epsilon-", ["--epsilon-init"]),
        ("pea fl --agg", ["--aggregator"]),
    ],
)
def test_what_is_being_typed_is_completed(completion, words, completed):
    typed = (
        f"COMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}; _pea; echo ${{COMPREPLY[@]}}"
    )
    done = subprocess.run(
        ["bash", "-c", f"{completion}\n{typed}"], capture_output=True, text=True, check=True
    )
    assert sorted(done.stdout.split()) == completed


@pytest.mark.parametrize("given", [(), ("--steps", 3), ("--epochs", 2)])
def test_settings_are_checked_as_given_and_with_those_that_nobody_gave(given, monkeypatch):
    """Also what records say is checked, which is no reason to check them a third time."""
    checked, check = [], TrainConfig.__post_init__

    def counted(config):
        checked.append((config.classes, bool(config.facts), bool(config.chosen)))
        check(config)

    monkeypatch.setattr(TrainConfig, "__post_init__", counted)
    wanted = ("--noise-multiplier", 2, "--delta", 1e-5, "--budget", "none")
    done = pea("train", "--backend", "clear", *wanted, *given)
    assert done.returncode == 0, done.stderr
    assert [chosen for *_, chosen in checked] == [True, False], "as given, and with the usual ones"


def test_a_host_begins_before_noise_is_calibrated_which_happens_once(monkeypatch):
    happened = []

    @contextmanager
    def at_hand(config, options):
        assert (config.noise_multiplier, options.ledgers) == (None, [None] * 3)
        happened.append("begun")
        yield
        happened.append("ended")

    def told(module, name):
        function = getattr(module, name)

        def tell(*args, **named):
            happened.append(name)
            return function(*args, **named)

        monkeypatch.setattr(module, name, tell)

    monkeypatch.setattr(clear_backend, "warm_up", at_hand, raising=False)
    told(planning, "calibrate_noise")
    told(clear_backend, "train")
    wanted = ("--epsilon", 2.25, "--delta", 1e-5, "--no-whiten", "--budget", "none")
    assert pea("train", "--backend", "clear", *wanted).returncode == 0
    rough_and_settled = ["calibrate_noise"] * 2
    assert happened == ["begun", *rough_and_settled, "train", "ended"]


def test_words_of_others_are_shown_as_they_are(capsys):
    """A client that leaves a federated round says why: that is no markup, and ends no report."""
    said = "client 1: [/no] [red]x[/red] :x: [link=http://a]b[/link]"
    console.notice(said)
    console.show({"refused": [said]})
    shown = capsys.readouterr()
    assert said in " ".join(shown.out.split())
    assert said in " ".join(shown.err.split())
