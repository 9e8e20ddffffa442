"""`pea train --backend tfe`: reports, files and refusals as with the other backends."""

import os
import signal
import stat
import sys

import numpy as np
import pytest

from extensions.ring.fixed_point import encode
from tests.conftest import SHARED
from tests.extensions.cli.test_cli import NOISE, F, correct
from tests.helpers.arrays import arrays_of
from tests.helpers.commands import KEYS, PLAIN, once, pea, report_of, started
from tests.helpers.patience import wait_until
from tests.helpers.players import SERVERS, digits, free_addresses, running_players, write
from tests.tfe_ext.test_compat import needs_tensorflow

pytestmark = [
    pytest.mark.xdist_group(SHARED["tfe_process"]),
    needs_tensorflow,
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]

PRIVATE = ("--epsilon", 2.0, "--delta", 1e-5)
FIXED = ("--insecure-fixed-randomness", 7)


DESCENT = ("--momentum", 0.5, "--average", 0.25, "--lr-schedule", "linear", "--bias-scale", 0.5)


def typed(process, *words):
    """What `pea` returns, prints, and says of errors, in a process that has TensorFlow already."""
    arguments = [*map(str, words)]
    return process.run("tests.helpers.tfe_tasks.command:typed", arguments=arguments)


@pytest.mark.parametrize(
    ("steps", "options"), [(12, DESCENT), pytest.param(120, (), marks=pytest.mark.long)]
)
def test_with_the_same_noise_it_trains_like_the_clear_backend(
    tmp_path, tfe_process, steps, options
):
    """A run on digits, its report, and the shares that it leaves; a mean takes two rounds more."""
    paths = {name: tmp_path / f"{name}.json" for name in ("tfe", "clear")}
    secure = ("--backend", "tfe", "--json", paths["tfe"], "--save", tmp_path / "model")
    run = once("train", *PRIVATE, *FIXED, *PLAIN, *options, "--steps", steps)
    status, out, err = typed(tfe_process, *run, *secure, "--verbose")
    assert status == 0, err
    assert " ".join(err.split()).count("could read every share and record") == 1
    for word in ("Traceback", "WARNING", "absl", "insecure randomness"):
        assert word not in err
    assert pea(*run, "--backend", "clear", "--json", paths["clear"]).returncode == 0
    report, clear = (report_of(path) for path in paths.values())
    for key in KEYS:
        assert key.replace("_", " ") in out
    assert (report["backend"], report["parties"], report["provider"]) == ("tfe", 3, None)
    assert report["dealt_bytes"] == [0, 0, 0]
    assert report["rounds"] == steps * 19 + (2 if options else 0)
    assert report["bytes_per_party"] > 0.8e6 * steps
    assert report["opened"] == ["the number of correct predictions on held-out records"]
    assert 0.999 * 2.0 < report["epsilon"] <= 2.0
    assert report["noise_multiplier"] == pytest.approx(clear["noise_multiplier"], rel=1e-3)
    assert abs(report["accuracy"] - clear["accuracy"]) <= 0.01
    assert report["accuracy"] > (0.83 if steps == 120 else 0.5)

    shares = sorted((tmp_path / "model").iterdir())
    assert [path.name for path in shares] == ["party-0.npz", "party-1.npz", "party-2.npz"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in shares} == {0o600}
    arrays = [arrays_of(path) for path in shares]
    assert {int(each["frac_bits"]) for each in arrays} == {F}
    weight, bias = (
        sum(each[name].view(np.uint64) for each in arrays).view(np.int64)
        for name in ("weight_0", "bias_0")
    )
    assert weight.shape == (10, 64)
    assert 0 < np.abs(weight).max() < 2**40 < min(np.abs(a["weight_0"]).max() for a in arrays)
    count, close = correct(weight, bias)
    assert abs(report["accuracy"] * 359 - count) <= close + 1e-9


def test_pieces_make_the_run(tmp_path, tfe_process):
    """Of a step's 19 rounds 17 are a piece's; rows are rounded apart, noise is the same."""
    shared, rounds = [], []
    for name, options in (("whole", ()), ("pieces", ("--physical-rows", 100))):
        path, model = tmp_path / f"{name}.json", tmp_path / name
        other = ("--sample-rate", 0.2, "--momentum", 0.5, "--steps", 4, *options)
        run = once("train", *PRIVATE, *FIXED, *PLAIN, *other)
        outputs = ("--backend", "tfe", "--json", path, "--save", model)
        status, _, err = typed(tfe_process, *run, *outputs)
        assert status == 0, err
        rounds.append(report_of(path)["rounds"])
        parts = [arrays_of(each)["weight_0"].view(np.uint64) for each in model.iterdir()]
        shared.append(sum(parts).view(np.int64) / 2.0**F)
    assert rounds == [4 * 19, 4 * (17 * 5 + 2)]
    whole, pieces = shared
    assert np.abs(whole).max() > 0.1
    np.testing.assert_allclose(pieces, whole, atol=2e-4)


@pytest.mark.long
def test_momentum_and_falling_rates_take_no_round_and_no_byte(tmp_path, tfe_process):
    """The velocity is the difference of two models that the servers store in their own form."""
    found = []
    for options in ((), ("--momentum", 0.5, "--lr-schedule", "cosine", "--bias-scale", 0.5)):
        path = tmp_path / f"{len(found)}.json"
        run = once("train", *NOISE, *PLAIN, *options, "--steps", 2, "--evaluate", "none")
        status, _, err = typed(tfe_process, *run, "--json", path, "--backend", "tfe")
        assert status == 0, err
        report = report_of(path)
        found.append([report[key] for key in ("rounds", "sent_bytes", "received_bytes")])
    assert found[0] == found[1]


@pytest.mark.long
def test_an_opened_model_is_saved_in_plaintext(tmp_path):
    done = pea(
        *("train", "--no-dp", "--backend", "tfe", "--steps", 2, "--evaluate", "opened"),
        *("--json", tmp_path / "report.json", "--save", tmp_path / "model"),
    )
    assert done.returncode == 0, done.stderr
    report = report_of(tmp_path / "report.json")
    assert report["epsilon"] is None
    assert report["opened"][0] == "the model"
    (path,) = (tmp_path / "model").iterdir()
    assert (path.name, stat.S_IMODE(path.stat().st_mode)) == ("model.npz", 0o600)
    with np.load(path) as arrays:
        count, close = correct(*(encode(arrays[name], F) for name in ("weight_0", "bias_0")))
    assert abs(report["accuracy"] * 359 - count) <= close + 1e-9


LOCAL = ("--epsilon-init", 2, "--init-steps", 8, "--init-lr", 3, "--steps", 2, "--lr", 0.5)


def opened_models(tmp_path, backends, init, weighting, *options):
    """The report and the opened weights of a run from local models with each backend."""
    options += ("--init", init, "--init-weighting", weighting)
    runs = {}
    for backend in backends:
        folder = tmp_path / backend
        done = pea(
            *once("train", *NOISE, *PLAIN, *LOCAL, *FIXED, "--backend", backend, *options),
            *("--evaluate", "opened", "--save", folder, "--json", tmp_path / "report.json"),
        )
        assert done.returncode == 0, done.stderr
        with np.load(folder / "model.npz") as arrays:
            weights = np.concatenate([arrays[name].ravel() for name in ("weight_0", "bias_0")])
        runs[backend] = report_of(tmp_path / "report.json"), weights
    return runs


@pytest.mark.long
def test_a_run_from_local_models_is_that_of_the_clear_backend(tmp_path):
    """Noise and samples are equal, so that rounding alone tells the models apart: 4 ulps or so.

    An average by records instead moves weights by 450 ulps, another candidate or seed by 500,000.
    """
    runs = opened_models(tmp_path, ("tfe", "clear"), "local", "uniform")
    (report, weights), (clear, expected) = runs.values()
    np.testing.assert_allclose(weights, expected, rtol=0, atol=2.0**-16)
    assert np.abs(expected).max() > 0.1
    assert report["rounds"] == 22 + 2 * 19
    assert report["opened"] == [
        "the model",
        "the number of correct predictions on held-out records",
    ]
    for key in ("init", "init_steps", "init_weighting", "noise_multiplier_init"):
        assert report[key] == clear[key]
    assert report["init_weighting"] == "uniform"
    assert clear["epsilon"] < report["epsilon"] < clear["epsilon"] + 1e-5
    assert abs(report["accuracy"] - clear["accuracy"]) <= 0.01


@pytest.mark.long
@pytest.mark.parametrize("init", ["local-average", "local-accuracy"])
def test_all_backends_start_alike(tmp_path, init):
    weighting = "uniform" if init == "local-average" else "records"
    backends = ("tfe", "clear", "crypten")
    runs = opened_models(tmp_path, backends, init, weighting, "--model", "mlp:6")
    (_, expected) = runs["clear"]
    for _, weights in runs.values():
        np.testing.assert_allclose(weights, expected, rtol=0, atol=2.0**-16)


def test_a_run_that_takes_too_long_ends_with_all_its_processes():
    done = pea("train", *NOISE, *PLAIN, "--backend", "tfe", "--timeout", 1)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "pea: the servers took longer than 1 s"


@pytest.mark.long
def test_servers_that_die_are_reported():
    with started("train", *NOISE, *PLAIN, "--backend", "tfe") as command:
        wait_until(command.running, "the start of the servers")
        os.kill(command.running()[0], signal.SIGKILL)
        done = command.finish()
    assert done.returncode == 1
    assert "pea: the servers died with status -9" in done.stderr


@pytest.mark.parametrize("option", ["--material", "--players"])
def test_options_of_other_backends_are_refused(tmp_path, option):
    backend = "tfe" if option == "--material" else "clear"
    done = pea("train", *NOISE, "--backend", backend, option, tmp_path)
    assert done.returncode == 1
    assert f"pea: {option} {tmp_path} cannot be given with --backend {backend}." in done.stderr


@pytest.mark.parametrize(
    "option", [("--open", "each-step"), ("--method", "statistics"), ("--whiten",)]
)
def test_who_has_players_is_told_how_owners_compute_alone(tmp_path, option):
    file = write(tmp_path / "players.json", free_addresses(SERVERS))
    own = ("--loss", "least-squares") if "--method" in option else ()
    own += ("--noise-multiplier-whiten", 4) if "--whiten" in option else ()
    done = pea("train", *NOISE, "--backend", "tfe", "--players", file, *option, *own)
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    assert line.startswith(f"pea: {option[0]} ")
    *_, typed = line.partition("each on its own host: `pea party` with ")
    assert all(word.lstrip("-") in typed for word in option), line
    assert typed


@pytest.mark.long
def test_what_the_servers_refuse_is_one_line():
    settings = once(*PLAIN, "--frac-bits", 24, "--steps", 2)
    done = pea("train", *NOISE, *settings, "--backend", "tfe")
    assert done.returncode == 1
    *_, last = done.stderr.splitlines()
    assert last.startswith("pea: frac_bits must be at most ")
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_players_in_processes_of_their_own_train(tmp_path):
    file = write(tmp_path / "players.json", free_addresses(SERVERS))
    options = (*PLAIN, "--steps", 20, "--json", tmp_path / "report.json", *NOISE, *FIXED)
    options += ("--init", "local", "--epsilon-init", 2)
    with running_players(file, "--records", digits(tmp_path / "records")):
        done = pea("train", "--backend", "tfe", "--players", file, *options)
        assert done.returncode == 0, done.stderr
    remote = report_of(tmp_path / "report.json", 0.02)  # the client sends fixed randomness
    assert pea("train", "--backend", "clear", *options).returncode == 0
    clear = report_of(tmp_path / "report.json")
    assert abs(remote["accuracy"] - clear["accuracy"]) <= 0.01
    assert remote["rounds"] >= 21 + 20 * 19
