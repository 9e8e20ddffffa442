"""One output for two classes: half the words of a step, and the same model with an output each."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from extensions.data.datasets import Split, load, split_among
from extensions.privacy.randomness import InsecureSeededSource
from extensions.protocols import pea
from extensions.protocols.noisy_sums.algorithms import agree_on_algorithm
from extensions.protocols.records import Records
from extensions.protocols.step import Step
from extensions.runs.checkpoints import CheckpointOptions
from extensions.runs.clear_host import ClearHost
from extensions.runs.clear_training import train
from extensions.runs.config import TrainConfig
from extensions.runs.local_data import encoded
from extensions.runs.model import Header, OpenedModel, logits_of, scores_of
from tests.helpers.refused import refused
from tests.helpers.toy_ext.host import ToyHost

CONFIG = TrainConfig(
    backend="clear",
    classes=2,
    one_output=True,
    steps=12,
    lr=4.0,
    sample_rate=0.5,
    noise_multiplier=1.0,
    delta=1e-5,
    insecure_seed=3,
    evaluate="opened",
)


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def parts() -> list[Split]:
    """The digits, of which class 1 are the even ones."""
    whole = load("digits", None, 0)
    even = replace(
        whole,
        train_y=(np.asarray(whole.train_y) + 1) % 2,
        test_y=(np.asarray(whole.test_y) + 1) % 2,
    )
    return split_among(even, 3)


def trained(parts: list[Split], **changes: Any) -> dict[str, Any]:
    return train(replace(CONFIG, **changes).resolved(), parts, lambda event: None)


LOSSES = ("sigmoid", "hard-sigmoid", "squared", "least-squares")


@pytest.mark.parametrize("loss", LOSSES)
def test_without_clipping_it_is_the_model_of_two_outputs(parts, loss):
    """Whose second output learns the same, and whose first its negative, but for rounding."""
    clear: dict[str, Any] = {"private": False, "noise_multiplier": None, "delta": None}
    clear |= {"frac_bits": 18}
    one = trained(parts, loss=loss, lr=1.0, **clear)["parameters"]
    both = trained(parts, loss=loss, lr=1.0, one_output=False, **clear)["parameters"]
    for own, other in zip(one[0], both[0], strict=True):
        assert own.shape == other.shape
        np.testing.assert_array_equal(own[0], -own[1])
        assert np.abs(own).max() > 1e-3
        np.testing.assert_allclose(own, other, atol=12 * 4 * 2.0**-18)


@pytest.mark.parametrize(
    "changes", [{}, {"model": "mlp:4", "lr": 1.0}, {"open": "each-step", "evaluate": "mpc"}]
)
def test_noise_and_bound_are_those_of_one_output(parts, changes):
    config = replace(CONFIG, **changes).resolved()
    records = [encoded(part, config)[0] for part in parts]
    assert {each.labels.shape[1] for each in records} == {1}
    plan = Step.of(config, Records.agreed(lambda own: own, records)).plan
    width, features = plan.layers[-1].in_features, records[0].features.shape[1]
    assert plan.layers[-1].out_features == 1
    assert plan.layers[-1].delta_norm == pytest.approx(1.0, rel=2e-3), "sqrt(2) with two outputs"
    hidden = 4 * (features + 1) if width != features else 0
    assert plan.parameters == hidden + width + 1


@pytest.mark.parametrize(
    "changes",
    [{}, {"momentum": 0.5, "average": 0.5}, {"open": "each-step", "evaluate": "mpc"}],
)
def test_a_resumed_run_is_that_of_no_interruption(parts, tmp_path, changes):
    class CutError(Exception):
        pass

    def progress(event: dict[str, Any]) -> None:
        if event["step"] == 7:
            raise CutError

    config = replace(CONFIG, **changes).resolved()
    whole = train(config, parts, lambda event: None)
    options = CheckpointOptions(folder=tmp_path / "run", every=5)
    with pytest.raises(CutError):
        train(config, parts, progress, options)
    found = train(config, parts, lambda event: None, replace(options, resume=True))
    for one, other in zip(found["parameters"][0], whole["parameters"][0], strict=True):
        np.testing.assert_array_equal(one, other)
    assert found["accuracy"] == whole["accuracy"] > 0.6


@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_told_of_held_out_records_is_what_the_model_says(parts, loss):
    """Counts by bin of the score, made in the ring, against the probabilities of predictions."""
    rate = 1.0 if loss == "least-squares" else 4.0
    report = trained(parts, loss=loss, lr=rate, metrics="all")
    model = OpenedModel(header=Header.of_json(report["header"]), parameters=report["parameters"])
    x = np.concatenate([part.test_x for part in parts])
    y = np.concatenate([part.test_y for part in parts])
    logits = logits_of(model, x)
    scores = scores_of(loss, logits)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0, atol=1e-9)
    assert report["accuracy"] == pytest.approx(float((logits.argmax(axis=1) == y).mean()), abs=0.01)
    assert 0.6 < report["auc"] <= 1.0


@pytest.mark.parametrize("host", [ClearHost, ToyHost])
def test_hosts_make_the_other_output_in_shares(parts, host):
    config = replace(CONFIG, steps=3)
    records = [encoded(part, config)[0] for part in parts]
    source = InsecureSeededSource(3)
    if host is ClearHost:
        made: Any = ClearHost(20, parties=3, owners=3, source=source)
    else:
        made = ToyHost(20, parties=3, source=source)
    own = pea.LocalData(records, records, None, lambda *_: [], lambda _: None)
    known, algorithm = agree_on_algorithm(made, config, own)
    model, _ = pea.train(made, config, own, known, algorithm, None, pea.RunCallbacks(made))
    weight, bias = made.open(made.summands(model))
    for part in (weight, bias):
        assert part.shape[0] == 2
        np.testing.assert_array_equal(part[0], -part[1])
    assert np.abs(weight).max() > 1 << 12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": 3}, "left out except with two classes"),
        ({"classes": 1, "loss": "squared"}, "left out except with two classes"),
        ({"loss": "softmax"}, "For two classes it is a sigmoid"),
        ({"class_weights": (1.0, 0.5)}, "left out with class_weights"),
        (
            {"init": "local", "noise_multiplier_init": 1.0},
            "left out with init = 'local'",
        ),
    ],
)
def test_where_it_makes_no_sense_it_is_refused(changes, message):
    with refused("one_output", "conflict", value=True):
        replace(CONFIG, **changes).resolved()
