"""What the command `pea fl` refuses before anything starts, in one line that names the option."""

import json
import math

import numpy as np
import pytest

from tests.helpers.commands import call, here, once
from tests.helpers.refused import refused

RUN = ("fl", "--model", "logistic", "--clients", 20, "--client-fraction", 0.5)
MASKED, PAILLIER, CHAIN, PLAIN = (
    ("--aggregator", name) for name in ("masked", "paillier", "chain", "plain")
)
LOCAL = (*PLAIN, "--mechanism", "local-dp")
CENTRAL = (*PLAIN, "--mechanism", "central-dp")
NOISY = (*CENTRAL, "--noise-multiplier", 1, "--delta", 1e-3)
HALVED = ("--adaptive-clipping", 0.5)
BAD = {
    "no aggregator": ((), "aggregator", "choice", None),
    "aggregator": (("--aggregator", "sum"), "aggregator", "choice", "sum"),
    "aggregator that is nearly one": (("--aggregator", "chian"), "aggregator", "choice", "chian"),
    "chains with masked": ((*MASKED, "--chains", 2), "chains", "conflict", 2),
    "key with chain": ((*CHAIN, "--key-bits", 2048), "key_bits", "conflict", 2048),
    "no packing with masked": ((*MASKED, "--no-packing"), "no_packing", "conflict", True),
    "threshold with paillier": ((*PAILLIER, "--threshold", 0.7), "threshold", "conflict", 0.7),
    "range with plain": ((*PLAIN, "--range", 4), "range", "conflict", 4.0),
    "range": ((*MASKED, "--range", -1), "range", "range", -1.0),
    "ring": ((*MASKED, "--ring-bits", 16), "ring_bits", "choice", 16),
    "long seed": ((*PLAIN, "--seed", 2**63), "seed", "value", 2**63),
    "rate": ((*PLAIN, "--lr", 1e39), "lr", "range", 1e39),
    "model range": (
        (*PAILLIER, "--hide-model", "--model-range", 1e300),
        *("model_range", "range", 1e300),
    ),
    "noise that ends": (
        (*LOCAL, "--epsilon", 0.01, "--clip", 1e308, "--noise", "laplace"),
        *("noise", "range", math.inf),
    ),
    "small key": ((*PAILLIER, "--key-bits", 512), "key_bits", "range", 512),
    "stage": ((*PLAIN, "--stage-timeout", 0), "stage_timeout", "range", 0.0),
    "mechanism": ((*PLAIN, "--mechanism", "dp"), "mechanism", "choice", "dp"),
    "epsilon without mechanism": ((*PLAIN, "--epsilon", 8), "epsilon", "conflict", 8.0),
    "sign with local": ((*LOCAL, "--sign-k", 0.1), "sign_k", "conflict", 0.1),
    "no epsilon": ((*LOCAL, "--delta", 1e-5), "epsilon", "missing", None),
    "no delta": ((*LOCAL, "--epsilon", 8), "delta", "missing", None),
    "delta of Laplace": (
        (*LOCAL, "--epsilon", 8, "--delta", 1e-5, "--noise", "laplace"),
        *("delta", "range", 1e-05),
    ),
    "noise": (
        (*LOCAL, "--epsilon", 8, "--noise", "uniform", "--delta", 0.1),
        *("noise", "choice", "uniform"),
    ),
    "both": (
        (*CENTRAL, "--epsilon", 8, "--noise-multiplier", 1, "--delta", 1e-3),
        *("epsilon, noise_multiplier", "privacy", (8.0, 1.0)),
    ),
    "no delta of rounds": ((*CENTRAL, "--epsilon", 8), "delta", "missing", None),
    "count without clipping": ((*NOISY, "--count-noise", 1), "count_noise", "needs", 1.0),
    "noise of the count": (
        (*CENTRAL, "--noise-multiplier", 5, "--delta", 1e-3, *HALVED),
        *("count_noise", "range", 0.5),
    ),
    "noise of the count of fixed rounds": (
        (*CENTRAL, "--noise-multiplier", 1.5, "--delta", 1e-3, *HALVED, "--sampling", "fixed"),
        *("count_noise", "range", 0.5),
    ),
    "weighting": ((*NOISY, "--weighting", "records"), "weighting", "choice", "records"),
    "dimensions": ((*PLAIN, "--mechanism", "sign-ds", "--sign-k", 0.001), "sign_k", "range", 0.001),
    "drop-out": ((*PLAIN, "--drop-out", 1), "drop_out", "value", 1.0),
    "delay": ((*PLAIN, "--delay-ms", -1), "delay_ms", "range", -1.0),
    "bandwidth": ((*PLAIN, "--mbit", 0), "mbit", "range", 0.0),
    "rounds": ((*PLAIN, "--rounds", 0), "rounds", "range", 0),
    "seed": ((*PLAIN, "--seed", -1), "seed", "range", -1),
    "clients": ((*PLAIN, "--clients", 2000), "clients", "range", 2000),
    "fraction": ((*PLAIN, "--client-fraction", 0), "client_fraction", "range", 0.0),
    "too few": ((*CHAIN, "--chains", 6), "clients of a round", "range", 10),
    "range of the noise": (
        (*MASKED, "--mechanism", "local-dp", "--epsilon", 1, "--delta", 1e-5),
        *("range", "range", 16.0),
    ),
    "learning rate": ((*PLAIN, "--lr", 0), "lr", "range", 0.0),
    "workers": ((*PLAIN, "--workers", 0), "workers", "range", 0),
    "partition": ((*PLAIN, "--partition", "odd"), "partition", "choice", "odd"),
    "alpha of none": ((*PLAIN, "--alpha", 1), "alpha", "needs", 1.0),
    "shape": ((*PLAIN, "--model", "cnn"), "model", "value", "cnn"),
    "data": ((*PLAIN, "--data", "iris"), "data", "choice", "iris"),
    "label of images": ((*PLAIN, "--label", "side"), "label", "conflict", "side"),
    "resume": ((*PLAIN, "--resume"), "checkpoint", "value", None),
    "save": ((*PLAIN, "--save", "model.h5"), "save", "value", "model.h5"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_argument_is_named(case, tmp_path):
    arguments, *expected = BAD[case]
    path = tmp_path / "run.json"
    with refused(*expected) as caught:
        call(*once(*RUN, *arguments), "--json", path)
    assert repr(caught.value.value) == repr(expected[-1]), "of the option's type"
    assert not path.exists()


def test_it_is_one_line_that_says_what_to_type(monkeypatch, capsys):
    assert here(monkeypatch, *RUN, "--aggregator", "chian") == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert shown.err.endswith("Did you mean --aggregator chain?\n")


def test_texts_have_one_model(tmp_path):
    texts = np.array(["one", "two", "three", "four"])
    labels = np.array([0, 1, 0, 1])
    path = tmp_path / "texts.npz"
    np.savez(path, train_x=texts, train_y=labels, test_x=texts, test_y=labels)
    with refused("model", "value", "logistic"):
        call(*RUN, *PLAIN, "--data", f"npz:{path}")


def test_texts_are_learned_from(tmp_path, monkeypatch, capsys):
    texts, labels = np.array(["a good film", "a bad one"] * 20), np.array([0, 1] * 20)
    path, report = tmp_path / "texts.npz", tmp_path / "run.json"
    np.savez(path, train_x=texts, train_y=labels, test_x=texts, test_y=labels)
    given = ["--data", f"npz:{path}", "--model", "embedding", "--lr", "1", "--clients", "4"]
    assert here(monkeypatch, *once(*RUN, *PLAIN, *given), "--json", report) == 0
    assert json.loads(report.read_text())["accuracy"] == 1.0
