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
NOISE = ("--central-dp.noise-multiplier", 1)
NOISY = (*CENTRAL, *NOISE, "--delta", 1e-3)
HALVED = ("--central-dp.adaptive.quantile", 0.5)


def own(**given: object) -> list[object]:
    """Returns arguments of local privacy as they are typed."""
    return [word for name, value in given.items() for word in (f"--local-dp.{name}", value)]


BAD = {
    "no aggregator": ((), "aggregator", "choice", None),
    "aggregator": (("--aggregator", "sum"), "aggregator", "choice", "sum"),
    "aggregator that is nearly one": (("--aggregator", "chian"), "aggregator", "choice", "chian"),
    "chains with masked": ((*MASKED, "--chain.chains", 2), "chain.chains", "conflict", 2),
    "key with chain": (
        (*CHAIN, "--paillier.key-bits", 2048),
        "paillier.key_bits",
        "conflict",
        2048,
    ),
    "no packing with masked": (
        (*MASKED, "--paillier.no-packing"),
        "paillier.packing",
        "conflict",
        False,
    ),
    "threshold with paillier": (
        (*PAILLIER, "--masked.threshold", 0.7),
        "masked.threshold",
        "conflict",
        0.7,
    ),
    "range with plain": (
        (*PLAIN, "--masked.fixed-point.clip", 4),
        "masked.fixed_point.clip",
        "conflict",
        4.0,
    ),
    "range": ((*MASKED, "--masked.fixed-point.clip", -1), "masked.fixed_point.clip", "range", -1.0),
    "ring": ((*MASKED, "--masked.fixed-point.bits", 16), "masked.fixed_point.bits", "choice", 16),
    "long seed": ((*PLAIN, "--seed", 2**63), "seed", "value", 2**63),
    "rate": ((*PLAIN, "--lr", 1e39), "lr", "range", 1e39),
    "model range": (
        (*PAILLIER, "--paillier.hide-model", "--paillier.model-range", 1e300),
        *("paillier.model_range", "range", 1e300),
    ),
    "noise that ends": (
        (*LOCAL, *own(epsilon=0.01, clip=1e308, noise="laplace")),
        *("local-dp.noise", "range", math.inf),
    ),
    "small key": ((*PAILLIER, "--paillier.key-bits", 512), "paillier.key_bits", "range", 512),
    "stage": ((*PLAIN, "--plain.timeout", 0), "plain.timeout", "range", 0.0),
    "mechanism": ((*PLAIN, "--mechanism", "dp"), "mechanism", "choice", "dp"),
    "epsilon without mechanism": ((*PLAIN, "--epsilon", 8), "epsilon", "conflict", 8.0),
    "sign with local": ((*LOCAL, "--sign-ds.sign-k", 0.1), "sign-ds.sign_k", "conflict", 0.1),
    "epsilon of all rounds with local": ((*LOCAL, "--epsilon", 8), "epsilon", "conflict", 8.0),
    "model range without": (
        (*PAILLIER, "--paillier.model-range", 8),
        *("paillier.model_range", "needs", 8.0),
    ),
    "no epsilon": ((*LOCAL, *own(delta=1e-5)), "local-dp.epsilon", "missing", None),
    "no delta": ((*LOCAL, *own(epsilon=8)), "local-dp.delta", "range", 0.0),
    "delta of Laplace": (
        (*LOCAL, *own(epsilon=8, delta=1e-5, noise="laplace")),
        *("local-dp.delta", "range", 1e-05),
    ),
    "noise": (
        (*LOCAL, *own(epsilon=8, noise="uniform", delta=0.1)),
        *("local-dp.noise", "choice", "uniform"),
    ),
    "both": (
        (*CENTRAL, "--epsilon", 8, *NOISE, "--delta", 1e-3),
        *("epsilon, noise_multiplier", "privacy", (8.0, 1.0)),
    ),
    "no delta of rounds": ((*CENTRAL, "--epsilon", 8), "delta", "missing", None),
    "count without noise": (
        (*NOISY, "--central-dp.adaptive.count-noise", 0),
        *("central-dp.adaptive.count_noise", "range", 0.0),
    ),
    "noise of the count": (
        (*CENTRAL, "--central-dp.noise-multiplier", 5, "--delta", 1e-3, *HALVED),
        *("count_noise", "range", 0.5),
    ),
    "noise of the count of fixed rounds": (
        (
            *(*CENTRAL, "--central-dp.noise-multiplier", 1.5, "--delta", 1e-3),
            *(*HALVED, "--central-dp.sampling", "fixed"),
        ),
        *("count_noise", "range", 0.5),
    ),
    "weighting": ((*NOISY, "--weighting", "records"), "weighting", "choice", "records"),
    "dimensions": (
        (*PLAIN, "--mechanism", "sign-ds", "--sign-ds.sign-k", 0.001),
        "sign_k",
        "range",
        0.001,
    ),
    "drop-out": ((*PLAIN, "--drop-out", 1), "drop_out", "value", 1.0),
    "delay": ((*PLAIN, "--delay-ms", -1), "delay_ms", "range", -1.0),
    "bandwidth": ((*PLAIN, "--mbit", 0), "mbit", "range", 0.0),
    "rounds": ((*PLAIN, "--rounds", 0), "rounds", "range", 0),
    "seed": ((*PLAIN, "--seed", -1), "seed", "range", -1),
    "clients": ((*PLAIN, "--clients", 2000), "clients", "range", 2000),
    "fraction": ((*PLAIN, "--client-fraction", 0), "client_fraction", "range", 0.0),
    "too few": ((*CHAIN, "--chain.chains", 6), "clients of a round", "range", 10),
    "range of the noise": (
        (*MASKED, "--mechanism", "local-dp", *own(epsilon=1, delta=1e-5)),
        *("fixed_point.clip", "range", 16.0),
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
