"""What the command `pea fl` refuses before anything starts, in one line that names the option."""

import json

import numpy as np
import pytest

from tests.helpers.commands import here, once

RUN = ("fl", "--model", "logistic", "--clients", 20, "--client-fraction", 0.5)
PLAIN = ("--aggregator", "plain")
LOCAL = (*PLAIN, "--mechanism", "local-dp")
CENTRAL = (*PLAIN, "--mechanism", "central-dp")
HALVED = ("--adaptive-clipping", 0.5)
NAMED = "masked, paillier, chain, plain"
BAD = {
    "no aggregator": ((), "aggregator = None", f"one of {NAMED}. Type: --aggregator masked."),
    "aggregator": (
        ("--aggregator", "sum"),
        "aggregator = 'sum'",
        f"one of {NAMED}. Type: --aggregator masked.",
    ),
    "aggregator that is nearly one": (
        ("--aggregator", "chian"),
        "aggregator = 'chian'",
        f"one of {NAMED}. Type: --aggregator chain.",
    ),
    "chains with masked": (
        ("--aggregator", "masked", "--chains", 2),
        "chains = 2",
        "left out with --aggregator masked. It belongs to --aggregator chain.",
    ),
    "key with chain": (
        ("--aggregator", "chain", "--key-bits", 2048),
        "key_bits = 2048",
        "left out with --aggregator chain. It belongs to --aggregator paillier.",
    ),
    "no packing with masked": (
        ("--aggregator", "masked", "--no-packing"),
        "no_packing = True",
        "left out with",
    ),
    "threshold with paillier": (
        ("--aggregator", "paillier", "--threshold", 0.7),
        "threshold = 0.7",
        "left out with",
    ),
    "range with plain": (("--aggregator", "plain", "--range", 4), "range = 4.0", "left out with"),
    "range": (("--aggregator", "masked", "--range", -1), "range = -1.0", "positive"),
    "ring": (("--aggregator", "masked", "--ring-bits", 16), "ring_bits = 16", "32 or 64"),
    "long seed": ((*PLAIN, "--seed", 2**63), f"seed = {2**63}", "in 0..2^63 - 1"),
    "rate": ((*PLAIN, "--lr", 1e39), "lr = 1e+39", "at most 3.4e+38"),
    "model range": (
        ("--aggregator", "paillier", "--hide-model", "--model-range", 1e300),
        "model_range = 1e+300",
        "below 2^63",
    ),
    "noise that ends": (
        (*LOCAL, "--epsilon", 0.01, "--clip", 1e308, "--noise", "laplace"),
        "noise = inf",
        "of a deviation that double precision has",
    ),
    "small key": (("--aggregator", "paillier", "--key-bits", 512), "key_bits = 512", ""),
    "stage": (
        ("--aggregator", "plain", "--stage-timeout", 0),
        "stage_timeout = 0.0",
        "positive",
    ),
    "mechanism": (
        (*PLAIN, "--mechanism", "dp"),
        "mechanism = 'dp'",
        "one of distributed-dp, central-dp, local-dp, record-dp, sign-ds, none. "
        "Type: --mechanism distributed-dp.",
    ),
    "epsilon without mechanism": (
        (*PLAIN, "--epsilon", 8),
        "epsilon = 8.0",
        "left out with --mechanism none. It belongs to --mechanism distributed-dp or central-dp",
    ),
    "sign with local": (
        (*LOCAL, "--sign-k", 0.1),
        "sign_k = 0.1",
        "left out with --mechanism local-dp",
    ),
    "no epsilon": ((*LOCAL, "--delta", 1e-5), "epsilon = None", "given, of one update"),
    "no delta": ((*LOCAL, "--epsilon", 8), "delta = None", "given, of one update"),
    "delta of Laplace": (
        (*LOCAL, "--epsilon", 8, "--delta", 1e-5, "--noise", "laplace"),
        "delta = 1e-05",
        "0 with Laplace",
    ),
    "noise": ((*LOCAL, "--epsilon", 8, "--noise", "uniform", "--delta", 0.1), "noise = ", ""),
    "both": (
        (*CENTRAL, "--epsilon", 8, "--noise-multiplier", 1, "--delta", 1e-3),
        "epsilon, noise_multiplier = (8.0, 1.0)",
        "exactly one",
    ),
    "no delta of rounds": ((*CENTRAL, "--epsilon", 8), "delta = None", "given, of all rounds"),
    "count without clipping": (
        (*CENTRAL, "--noise-multiplier", 1, "--delta", 1e-3, "--count-noise", 1),
        "count_noise = 1.0",
        "left out without --adaptive-clipping",
    ),
    "noise of the count": (
        (*CENTRAL, "--noise-multiplier", 5, "--delta", 1e-3, *HALVED),
        "count_noise = 0.5",
        "above noise_multiplier / 2",
    ),
    "noise of the count of fixed rounds": (
        (*CENTRAL, "--noise-multiplier", 1.5, "--delta", 1e-3, *HALVED, "--sampling", "fixed"),
        "count_noise = 0.5",
        "above noise_multiplier / 2",
    ),
    "weighting": (
        (*CENTRAL, "--noise-multiplier", 1, "--delta", 1e-3, "--weighting", "records"),
        "weighting = 'records'",
        "'equal' with CentralDP",
    ),
    "dimensions": (
        (*PLAIN, "--mechanism", "sign-ds", "--sign-k", 0.001),
        "sign_k = 0.001",
        "at least 0.00155, for one of 650 dimensions. Type: --sign-k X.",
    ),
    "drop-out": ((*PLAIN, "--drop-out", 1), "drop_out = 1.0", "at least 0, below 1"),
    "delay": ((*PLAIN, "--delay-ms", -1), "delay_ms = -1.0", "finite, at least 0"),
    "bandwidth": ((*PLAIN, "--mbit", 0), "mbit = 0.0", "positive"),
    "rounds": ((*PLAIN, "--rounds", 0), "rounds = 0", "at least 1"),
    "seed": ((*PLAIN, "--seed", -1), "seed = -1", "at least 0"),
    "clients": ((*PLAIN, "--clients", 2000), "clients = 2000", "in 1..1438"),
    "fraction": ((*PLAIN, "--client-fraction", 0), "client_fraction = 0.0", "above 0"),
    "too few": (
        ("--aggregator", "chain", "--chains", 6),
        "clients of a round = 10",
        "at least 12",
    ),
    "range of the noise": (
        *(("--aggregator", "masked", "--mechanism", "local-dp", "--epsilon", 1, "--delta", 1e-5),),
        "range = 16.0",
        "at least 64 with noise",
    ),
    "learning rate": ((*PLAIN, "--lr", 0), "lr = 0.0", "positive"),
    "workers": ((*PLAIN, "--workers", 0), "workers = 0", "at least 1"),
    "partition": ((*PLAIN, "--partition", "odd"), "partition = 'odd'", "one of 'iid'"),
    "alpha of none": ((*PLAIN, "--alpha", 1), "alpha = 1.0", "left out, except for"),
    "shape": (
        (*PLAIN, "--model", "cnn"),
        "model = 'cnn'",
        "one of logistic, mlp for records of shape (1, 8, 8), 10 classes",
    ),
    "data": ((*PLAIN, "--data", "iris"), "data = 'iris'", "'digits', 'mnist'"),
    "label of images": ((*PLAIN, "--label", "side"), "label = 'side'", "left out, except"),
    "resume": ((*PLAIN, "--resume"), "checkpoint = None", "a file to go on from"),
    "save": ((*PLAIN, "--save", "model.h5"), "save = 'model.h5'", "a name that ends in .pt"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_argument_is_one_line_that_names_it(case, monkeypatch, capsys, tmp_path):
    arguments, named, allowed = BAD[case]
    path = tmp_path / "run.json"
    assert here(monkeypatch, *once(*RUN, *arguments), "--json", path) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"pea: {named}")
    assert f": must be {allowed}" in shown.err
    assert shown.err.count("\n") == 1
    assert not path.exists()


def test_texts_have_one_model(tmp_path, monkeypatch, capsys):
    texts = np.array(["one", "two", "three", "four"])
    labels = np.array([0, 1, 0, 1])
    path = tmp_path / "texts.npz"
    np.savez(path, train_x=texts, train_y=labels, test_x=texts, test_y=labels)
    assert here(monkeypatch, *RUN, *PLAIN, "--data", f"npz:{path}") == 1
    assert (
        "model = 'logistic': must be one of embedding for texts, 2 classes"
        in capsys.readouterr().err
    )


def test_texts_are_learned_from(tmp_path, monkeypatch, capsys):
    texts, labels = np.array(["a good film", "a bad one"] * 20), np.array([0, 1] * 20)
    path, report = tmp_path / "texts.npz", tmp_path / "run.json"
    np.savez(path, train_x=texts, train_y=labels, test_x=texts, test_y=labels)
    given = ["--data", f"npz:{path}", "--model", "embedding", "--lr", "1", "--clients", "4"]
    assert here(monkeypatch, *once(*RUN, *PLAIN, *given), "--json", report) == 0
    assert json.loads(report.read_text())["accuracy"] == 1.0
