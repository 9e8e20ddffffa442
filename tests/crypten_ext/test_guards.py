"""What a private step must not do is refused, with an error that says what to do instead."""

import inspect
import json
import re

import numpy as np
import pytest
import torch

from crypten_ext.nn.optim import DPSGD
from tests.conftest import Pools

TASKS = "tests.helpers.party_tasks.guards"

REFUSED = {
    "step without backward": ("GradientError", "needs a gradient"),
    "step twice": ("GradientError", "called twice.*zero_grad"),
    "backward twice": ("GradientError", "two gradients.*ran twice.*zero_grad"),
    "backward after step": ("GradientError", r"after step\(\) without zero_grad"),
    "host's BCEWithLogitsLoss": ("GradientError", "mean.*crypten_ext.nn.BCEWithLogitsLoss"),
    "host's CrossEntropyLoss": ("GradientError", "mean.*crypten_ext.nn.CrossEntropyLoss"),
    "host's MSELoss": ("GradientError", "mean.*crypten_ext.nn.BCEWithLogitsLoss"),
    "mean": ("GradientError", "reduction must be 'sum', not 'mean'"),
    **dict.fromkeys(
        (
            "weights written into",
            "biases written into",
            "words whose squares wrap around",
            "start of large biases",
            "start of large layers",
            "start of weights whose squares wrap around",
        ),
        ("ArgumentError", "with 0 of a larger norm"),
    ),
    "start of large layers by other names": (
        "ArgumentError",
        "with 0.weights.0 of a larger norm",
    ),
    "ledger of another": (
        "ArgumentError",
        r"DPSGD.ledger = 'Ledger': fixed.*optimizer.ledger.add\(other.ledger\)",
    ),
    **dict.fromkeys(
        ("copied", "copied with its model", "pickled"),
        ("GradientError", r"cannot be copied or pickled.*load_state_dict\(optimizer.state_dict"),
    ),
    "unreached parameter": ("GradientError", "Parameter '0.weight' received no"),
    "shared layer": ("GradientError", "is used twice"),
    "other sample rate": ("GradientError", r"sample_rate = 0.5, the optimizer accounts for 0.4"),
    "unpadded targets": (
        "GradientError",
        "targets is .* unknown origin, not those of the batch.*vouch_for",
    ),
    "loss opened": ("InsecureError", "without an epsilon.*held-out"),
    "data of other precision": ("ArgumentError", "weight = 'with 20 fractional.*precision_bits"),
    "targets of other precision": ("ArgumentError", "targets = 'with .*precision_bits"),
    "no graph": ("GradientError", r"model.train\(\).*no_grad"),
    "far steps": ("GradientError", "After 1 steps.*more than 300.*max_weight_norm = 400"),
    "step after the mean": (
        "GradientError",
        "All steps = 1 are made, and the model is the mean of its last iterates. To train it "
        "further, make another optimizer and add this one's ledger to its: other.ledger.add",
    ),
    "sum of another training": (
        "GradientError",
        "The sum of the iterates before step 3 is missing",
    ),
    "average": ("ArgumentError", "average = 1.5:"),
    "average without steps": ("ArgumentError", "steps = None:"),
    "no bias": ("ArgumentError", "bias_scale = 0.0: .*make layers with bias=False"),
    "bias_scale": ("ArgumentError", "bias_scale = 0.3:"),
    "momentum": ("ArgumentError", r"momentum = 1.0:"),
    "same batch": ("GradientError", "batch was used for an earlier step"),
    "own forward": ("UnsupportedLayerError", r"'\(the model\)' \(Twisted\)"),
    "too far": ("ArgumentError", "learning_rate = 10.0:"),
    "disabled": ("InsecureError", r"must be enabled: call crypten_ext.enable\(\)"),
    "closure": ("ArgumentError", r"closure = .*backward\(\) before step\(\)"),
    "plaintext model": ("ArgumentError", r"model = 'a plaintext model'.*model.encrypt\(\)"),
    "public part": ("ArgumentError", r"public parameter '0\.weight'.*give poisson_batches its out"),
    "stride of nothing": (
        "ArgumentError",
        r"stride = \(0, 0\):",
    ),
    "stride of halves": ("ArgumentError", "stride = .*1.5.*:"),
    "plaintext input": ("ArgumentError", r"tensor = 'Tensor'.*crypten.cryptensor"),
    "wrong width": ("ArgumentError", r"x = \(2, 5\):"),
    "lr": ("ArgumentError", "lr = 0.0:"),
    "max_grad_norm": ("ArgumentError", "max_grad_norm = nan:"),
    "noise_multiplier": ("ArgumentError", "noise_multiplier = -1.0:"),
    "sample_rate": ("ArgumentError", r"sample_rate = 1.5:"),
    "expected_batch_size": ("ArgumentError", "expected_batch_size = 0.0:"),
    "max_weight_norm": ("ArgumentError", "max_weight_norm = nan:"),
    "no steps": ("ArgumentError", "steps = 0:"),
    "half a step": ("ArgumentError", "steps = 2.5:"),
    "ceil_mode": ("UnsupportedLayerError", r"'0' \(AvgPool2d\).*Pad them"),
    "BatchNorm1d": ("UnsupportedLayerError", r"'1' \(BatchNorm1d\).*mixes.*Leave it out"),
    "BatchNorm2d": ("UnsupportedLayerError", r"\(BatchNormalization\).*mixes.*Leave it out"),
    "layer in both branches": ("GradientError", "Both branches of a sum .*the same layer"),
    "branches of two batches": ("GradientError", "of another batch, so its rows depend on"),
    "branch of a constant": ("GradientError", "A branch of a sum is a tensor of unknown origin"),
    "branches of two shapes": ("ArgumentError", r"input = '\(\d+, 4\) .*\(\d+, 3\) .*: shape"),
    "Softmax": ("UnsupportedLayerError", r"'1' \(Softmax\)"),
    "Dropout": ("UnsupportedLayerError", r"'1' \(Dropout\).*Leave it out"),
    "Flatten over rows": ("UnsupportedLayerError", r"'0' \(Flatten\)"),
    "images as vectors": ("ArgumentError", r"x = \(\d+, 4, 4\):"),
    "channels last": ("ArgumentError", r"x = \(\d+, 4, 4, 1\): .*channels first. Transpose"),
    "image below its window": ("ArgumentError", r"kernel = \(3, 3\): range"),
    "images into a linear layer": ("ArgumentError", r"x = \(\d+, 1, 2, 4\):"),
    "no linear layer at the end": ("ArgumentError", "stages = "),
    "PyTorch's Softmax": ("UnsupportedLayerError", r"\(Softmax\)"),
}


OTHERS = {
    **{"lr": 2.0, "sample_rate": 0.4, "max_grad_norm": 2.0, "noise_multiplier": 2.0},
    **{"max_weight_norm": 500.0, "expected_batch_size": 7.0, "colluders": 0, "degree": 3},
    **{"steps": 9, "momentum": 0.5, "noise_shares": "paper", "dealer_noise": True},
    **{"average": 0.2, "bias_scale": 0.5},
}


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"lr": 5e3}, "GradientError"),
        ({"lr": 10.0, "steps": 200, "momentum": 0.5}, "ArgumentError"),
        ({"lr": 1e12, "steps": 30, "max_grad_norm": 4.0}, "ArgumentError"),
    ],
    ids=str,
)
def test_a_rate_that_is_too_high_is_answered_with_the_largest_that_is_taken(
    pools: Pools, options, kind
):
    (found,) = pools.run(2, f"{TASKS}:rates", attempts=[options])[0]
    assert [outcome[0] for outcome in found] == [kind, "", found[2][0]]
    assert found[2][0]


def test_settings_of_an_optimizer_that_one_party_has_otherwise_are_named_at_all(pools: Pools):
    """At the first step, and all of them: there is another value for every argument."""
    assert {*OTHERS} == {*inspect.signature(DPSGD).parameters} - {"model", "source"}
    usual = {"steps": 10}
    attempts = [{**usual, name: value} for name, value in OTHERS.items()]
    plans = [{"attempts": [usual for _ in OTHERS]}, {"attempts": attempts}]
    everybody = pools.run(2, f"{TASKS}:first_steps", per_party=plans)
    for found in everybody:
        for (name, value), (kind, message) in zip(OTHERS.items(), found, strict=True):
            assert kind == "ArgumentError"
            shown = f"{value:g}" if isinstance(value, float) else repr(value)
            assert re.match(rf"{name} = .* at party 0, {shown} at party 1:", message)


WRONG = {
    **{"lr": "1", "sample_rate": None, "max_grad_norm": "1", "noise_multiplier": 1j},
    **{"max_weight_norm": None, "expected_batch_size": "7", "momentum": "0.5"},
    **{"average": np.zeros(2), "bias_scale": None},
}


def test_what_is_no_number_is_refused_by_name(pools: Pools):
    attempts = [{name: value} for name, value in WRONG.items()]
    for name, (kind, message) in zip(
        WRONG, pools.run(2, f"{TASKS}:built", attempts=attempts)[0], strict=True
    ):
        assert kind == "ArgumentError", name
        assert re.match(rf"{name} = .*:", message), message


def test_numbers_of_other_libraries_are_settings_as_pythons_are(pools: Pools):
    settings = {
        **{"lr": np.float16(0.5), "max_grad_norm": np.int8(100), "noise_multiplier": np.int8(3)},
        **{"sample_rate": torch.tensor(0.5), "expected_batch_size": np.float32(7)},
    }
    (found,) = pools.run(2, f"{TASKS}:first_steps", attempts=[settings])[0]
    assert found == ("", "")


def test_noise_of_no_shape_or_against_everybody_is_refused(pools: Pools):
    sizes, refused = pools.run(2, f"{TASKS}:noise")[0]
    assert sizes == [(5,), (5,), (2, 3), (0, 2)]
    for (kind, message), words in zip(
        refused,
        ("shape = -1", "shape = 2.0", "shape = None", "colluders = 5", "sigma = '1'"),
        strict=True,
    ):
        assert kind == "ArgumentError"
        assert message.startswith(f"{words}:")


def test_the_first_party_is_warned_of_once_unless_it_is_chosen(pools: Pools):
    """By an optimizer or by the first of our protocols, whichever comes first."""
    for found in pools.run(2, f"{TASKS}:first_party"):
        assert found == {"TFP": [0, 1, 1, 1, 1, 2], "INSECURE_TFP": [0] * 6}


def test_a_single_party_is_not_warned_of_itself(pools: Pools):
    for found in pools.run(1, f"{TASKS}:first_party"):
        assert found == {"TFP": [0] * 6, "INSECURE_TFP": [0] * 6}


@pytest.fixture(scope="module")
def outcomes(pools: Pools) -> dict[str, tuple[str, str]]:
    first, second = pools.run(2, f"{TASKS}:guards")
    assert first == second
    return first


def test_every_scenario_is_judged(outcomes):
    assert outcomes.keys() == REFUSED.keys()


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(outcomes, name):
    kind, message = REFUSED[name]
    assert outcomes[name][0] == kind
    assert re.search(message, outcomes[name][1]), outcomes[name][1]


def test_a_refused_step_leaves_the_model_alone(pools):
    for kind, before, after in pools.run(2, f"{TASKS}:refused_steps")[0]:
        assert kind == "GradientError"
        assert len(before) == 2
        for old, new in zip(before, after, strict=True):
            np.testing.assert_array_equal(old, new)


def test_layers_of_crypten_become_ours(pools):
    names = ["linear.Linear", "without_weights.Sigmoid"]
    names += ["linear.Linear", "without_weights.ReLU"]
    names += [f"images.{name}" for name in ("Conv2d", "AvgPool2d", "MaxPool2d")]
    assert pools.run(2, f"{TASKS}:adopted")[0] == [f"crypten_ext.nn.layers.{n}" for n in names]


def test_a_flatten_in_front_changes_neither_step_nor_account(pools):
    plain, *others = pools.run(2, f"{TASKS}:flattened")[0]
    phase = json.loads(plain["ledger"])["phases"][0]
    assert (phase["sample_rate"], phase["overflow_probability"]) == (0.5, 1e-9)
    for other in others:
        assert plain["ledger"] == other["ledger"]
        for a, b in zip(plain["model"], other["model"], strict=True):
            assert np.abs(a).max() > 0.01
            np.testing.assert_allclose(a, b, rtol=0.01, atol=2.0**-18)
