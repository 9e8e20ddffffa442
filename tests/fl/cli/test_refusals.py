"""What the command `pea fl` refuses before anything starts, in one line that names the option."""

import json

import numpy as np
import pytest

from tests.helpers.commands import call, here, once
from tests.helpers.refused import refused

RUN = ("fl", "--model", "logistic", "--clients", 20, "--client-fraction", 0.5)
PLAIN = ("--aggregator", "plain")
LOCAL = (*PLAIN, "--mechanism", "local-dp")
CENTRAL = (*PLAIN, "--mechanism", "central-dp")
HALVED = ("--adaptive-clipping", 0.5)
BAD = {
    "no aggregator": ((), "aggregator = None"),
    "aggregator": (("--aggregator", "sum"), "aggregator = 'sum'"),
    "aggregator that is nearly one": (("--aggregator", "chian"), "aggregator = 'chian'"),
    "chains with masked": (("--aggregator", "masked", "--chains", 2), "chains = 2"),
    "key with chain": (("--aggregator", "chain", "--key-bits", 2048), "key_bits = 2048"),
    "no packing with masked": (("--aggregator", "masked", "--no-packing"), "no_packing = True"),
    "threshold with paillier": (
        ("--aggregator", "paillier", "--threshold", 0.7),
        "threshold = 0.7",
    ),
    "range with plain": (("--aggregator", "plain", "--range", 4), "range = 4.0"),
    "range": (("--aggregator", "masked", "--range", -1), "range = -1.0"),
    "ring": (("--aggregator", "masked", "--ring-bits", 16), "ring_bits = 16"),
    "long seed": ((*PLAIN, "--seed", 2**63), f"seed = {2**63}"),
    "rate": ((*PLAIN, "--lr", 1e39), "lr = 1e+39"),
    "model range": (
        ("--aggregator", "paillier", "--hide-model", "--model-range", 1e300),
        "model_range = 1e+300",
    ),
    "noise that ends": (
        (*LOCAL, "--epsilon", 0.01, "--clip", 1e308, "--noise", "laplace"),
        "noise = inf",
    ),
    "small key": (("--aggregator", "paillier", "--key-bits", 512), "key_bits = 512"),
    "stage": (("--aggregator", "plain", "--stage-timeout", 0), "stage_timeout = 0.0"),
    "mechanism": ((*PLAIN, "--mechanism", "dp"), "mechanism = 'dp'"),
    "epsilon without mechanism": ((*PLAIN, "--epsilon", 8), "epsilon = 8.0"),
    "sign with local": ((*LOCAL, "--sign-k", 0.1), "sign_k = 0.1"),
    "no epsilon": ((*LOCAL, "--delta", 1e-5), "epsilon = None"),
    "no delta": ((*LOCAL, "--epsilon", 8), "delta = None"),
    "delta of Laplace": (
        (*LOCAL, "--epsilon", 8, "--delta", 1e-5, "--noise", "laplace"),
        "delta = 1e-05",
    ),
    "noise": ((*LOCAL, "--epsilon", 8, "--noise", "uniform", "--delta", 0.1), "noise = "),
    "both": (
        (*CENTRAL, "--epsilon", 8, "--noise-multiplier", 1, "--delta", 1e-3),
        "epsilon, noise_multiplier = (8.0, 1.0)",
    ),
    "no delta of rounds": ((*CENTRAL, "--epsilon", 8), "delta = None"),
    "count without clipping": (
        (*CENTRAL, "--noise-multiplier", 1, "--delta", 1e-3, "--count-noise", 1),
        "count_noise = 1.0",
    ),
    "noise of the count": (
        (*CENTRAL, "--noise-multiplier", 5, "--delta", 1e-3, *HALVED),
        "count_noise = 0.5",
    ),
    "noise of the count of fixed rounds": (
        (*CENTRAL, "--noise-multiplier", 1.5, "--delta", 1e-3, *HALVED, "--sampling", "fixed"),
        "count_noise = 0.5",
    ),
    "weighting": (
        (*CENTRAL, "--noise-multiplier", 1, "--delta", 1e-3, "--weighting", "records"),
        "weighting = 'records'",
    ),
    "dimensions": ((*PLAIN, "--mechanism", "sign-ds", "--sign-k", 0.001), "sign_k = 0.001"),
    "drop-out": ((*PLAIN, "--drop-out", 1), "drop_out = 1.0"),
    "delay": ((*PLAIN, "--delay-ms", -1), "delay_ms = -1.0"),
    "bandwidth": ((*PLAIN, "--mbit", 0), "mbit = 0.0"),
    "rounds": ((*PLAIN, "--rounds", 0), "rounds = 0"),
    "seed": ((*PLAIN, "--seed", -1), "seed = -1"),
    "clients": ((*PLAIN, "--clients", 2000), "clients = 2000"),
    "fraction": ((*PLAIN, "--client-fraction", 0), "client_fraction = 0.0"),
    "too few": (("--aggregator", "chain", "--chains", 6), "clients of a round = 10"),
    "range of the noise": (
        ("--aggregator", "masked", "--mechanism", "local-dp", "--epsilon", 1, "--delta", 1e-5),
        "range = 16.0",
    ),
    "learning rate": ((*PLAIN, "--lr", 0), "lr = 0.0"),
    "workers": ((*PLAIN, "--workers", 0), "workers = 0"),
    "partition": ((*PLAIN, "--partition", "odd"), "partition = 'odd'"),
    "alpha of none": ((*PLAIN, "--alpha", 1), "alpha = 1.0"),
    "shape": ((*PLAIN, "--model", "cnn"), "model = 'cnn'"),
    "data": ((*PLAIN, "--data", "iris"), "data = 'iris'"),
    "label of images": ((*PLAIN, "--label", "side"), "label = 'side'"),
    "resume": ((*PLAIN, "--resume"), "checkpoint = None"),
    "save": ((*PLAIN, "--save", "model.h5"), "save = 'model.h5'"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_argument_is_named(case, tmp_path):
    arguments, named = BAD[case]
    argument, _, value = named.partition(" = ")
    path = tmp_path / "run.json"
    with refused(argument) as caught:
        call(*once(*RUN, *arguments), "--json", path)
    assert repr(caught.value.value).startswith(value)
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
    with refused("model", value="logistic"):
        call(*RUN, *PLAIN, "--data", f"npz:{path}")


def test_texts_are_learned_from(tmp_path, monkeypatch, capsys):
    texts, labels = np.array(["a good film", "a bad one"] * 20), np.array([0, 1] * 20)
    path, report = tmp_path / "texts.npz", tmp_path / "run.json"
    np.savez(path, train_x=texts, train_y=labels, test_x=texts, test_y=labels)
    given = ["--data", f"npz:{path}", "--model", "embedding", "--lr", "1", "--clients", "4"]
    assert here(monkeypatch, *once(*RUN, *PLAIN, *given), "--json", report) == 0
    assert json.loads(report.read_text())["accuracy"] == 1.0
