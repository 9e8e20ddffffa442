"""Steps of models with hidden layers: each kind is the same step, and the table keeps all of it."""

import json
import os
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from benchmarks import tables
from benchmarks.instruments.spu import SpuParties
from benchmarks.steps.hosts import SPU_PARTY, measure
from benchmarks.steps.materialised import materialised_step
from benchmarks.steps.models.command import OPACUS, Recorded, table
from benchmarks.steps.models.opacus_step import model_of
from benchmarks.steps.models.spu_step import SHAPES, inputs
from benchmarks.steps.step import CLASSES, GHOST, KINDS, MATERIALISED, MODELS, PLAIN, spec_of
from extensions.layers.passes import forward
from extensions.privacy.randomness import InsecureSeededSource
from extensions.protocols.dpsgd import dpsgd_step
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode, encode
from tests.benchmarks.test_steps import linux
from tests.extensions.layers.test_stages import networks
from tests.helpers.trajectories import rows_of

F, ROWS = 16, 6
SPU_PYTHON = os.environ.get("SPU_PYTHON")


def test_both_ways_to_clip_windows_give_the_same_update():
    """The factors differ by the roundings of norms, which are raised by 2^-6 of themselves."""
    network = networks()["small"]
    draws = np.random.default_rng(1)
    parameters = [
        (encode(draws.normal(0, 1 / np.sqrt(n), (m, n)), F), encode(np.zeros(m), F))
        for m, n in network.parameter_shapes
    ]
    x = encode(draws.normal(0, 0.4, (ROWS, network.widths[0])), F)
    y = encode(np.eye(3)[np.arange(ROWS) % 3], F)
    shapes = network.shapes(max_feature_norm=8.0, max_weight_norm=8.0, max_grad_norm=0.5)
    plan = StepPlan(
        frac_bits=F,
        layers=shapes,
        rows=ROWS,
        learning_rate=1.0,
        expected_batch_size=float(ROWS),
        max_grad_norm=0.5,
        noise_multiplier=0.0,
        parties=3,
    )
    ring = ClearRing(F, rounding="floor")
    gradients = forward(ring, network, parameters, x).backward(y, None, plan.guard_shifts)
    source = InsecureSeededSource(1)
    for ghost, made in zip(
        dpsgd_step(ring, gradients, plan, source),
        materialised_step(ring, gradients, plan, source),
        strict=True,
    ):
        for one, other in zip(ghost, made, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(decode(one, F), decode(other, F), atol=2e-3, rtol=0.02)
    norms = sum(np.linalg.norm(decode(part, F)) for pair in [ghost] for part in pair)
    assert norms > 0.02


@pytest.mark.parametrize("model", MODELS)
def test_all_peers_have_the_same_model(model: str):
    """As many weights and biases in each layer, in PyTorch and in SPU."""
    own = [outputs * (columns + 1) for outputs, columns in spec_of(model).network.parameter_shapes]
    peer = [
        sum(part.numel() for part in layer.parameters())
        for layer in model_of(model)
        if list(layer.parameters())
    ]
    assert own == peer == [s[0] * (int(np.prod(s[1:])) + 1) for s in SHAPES[model]]
    assert list(model_of(model)(torch.zeros(2, 1, 28, 28)).shape) == [2, CLASSES]


def cost(size: float) -> dict[str, Any]:
    return {"rounds": 9, "bytes": size, "largest": size, "dealt": 1.0, "seconds": [size, 9.0, 1.0]}


def test_a_sitting_keeps_what_others_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    clear = {kind: {"seconds": [2.0 + i]} for i, kind in enumerate(KINDS)}
    for model, host, found, versions in (
        ("CNN", "CrypTen", {kind: cost(3.0 + i) for i, kind in enumerate(KINDS)}, None),
        ("LeNet-5", OPACUS, clear, {"opacus": "1"}),
    ):
        recorded = Recorded(8, 3)
        recorded.add(model, host, found, versions)
        recorded.table().write(record=True)
    content = json.loads((tmp_path / "dpsgd-models.json").read_text())
    rows = content["rows"]
    assert [(row["model"], row["step"]) for row in rows] == [
        (model, kind) for model in ("LeNet-5", "CNN") for kind in KINDS
    ]
    assert [row["time / plain"] for row in rows] == [1.0, 1.5, 2.0, 1.0, 4 / 3, 5 / 3]
    assert [row["bytes / plain"] for row in rows] == ["-"] * 3 + [1.0, 4 / 3, 5 / 3]
    assert content["settings"]["peers"] == {OPACUS: {"opacus": "1"}}
    assert set(content["settings"]["recorded"]) == {"CNN, CrypTen", f"LeNet-5, {OPACUS}"}
    assert table(Recorded(9, 3)._samples) == []


def test_rows_of_a_trajectory_tell_coins_apart():
    """A run that leaves by 3 ulps in its first step, and by one more in its third."""
    start, clear = [np.zeros((2, 2))], [[np.full((2, 2), 100.0 * t)] for t in (1, 2, 3, 4)]
    left = np.array([[3.0, 0.0], [0.0, 0.0]])
    secure = [[model + (left if t < 3 else left + 1)] for t, (model,) in enumerate(clear, start=1)]
    alike = [clear[0], secure[1], [secure[2][0] - 1], secure[3]]
    first, last = rows_of(start, secure, clear, alike, every=2)
    assert first == {
        "step": 2,
        "farthest by the same coins, ulps": 3,
        "within 2 ulps a step by others, %": 100.0,
        "median ulps apart": 0.0,
        "farthest, ulps": 3,
        "apart, % of their way": pytest.approx(100 * 3 / 400),
    }
    assert (last["step"], last["farthest by the same coins, ulps"], last["farthest, ulps"]) == (
        4,
        1,
        4,
    )
    (once,) = rows_of(start, secure[:1], clear[:1], alike[:1], every=1)
    assert once["within 2 ulps a step by others, %"] == 75.0


@linux
@pytest.mark.long
@pytest.mark.parametrize("host", ["CrypTen", "ABY3"])
@pytest.mark.parametrize("model", MODELS)
def test_privacy_takes_no_more_than_a_plain_step_again(host: str, model: str):
    sizes = {"batch": 16, "model": model}
    found = measure(host, 1, sizes, (PLAIN, GHOST))
    assert found[GHOST]["bytes"] <= 2 * found[PLAIN]["bytes"]


@pytest.mark.long
@pytest.mark.skipif(SPU_PYTHON is None, reason="SPU_PYTHON names no interpreter that has SPU")
@pytest.mark.parametrize("model", MODELS)
def test_the_step_in_spu_is_the_same_step(model: str):
    """Beside PyTorch's gradients of each example, clipped."""
    sizes = {"batch": 4, "model": model}
    given = {name: torch.tensor(value) for name, value in inputs(**sizes).items()}
    network = model_of(model)
    with torch.no_grad():
        for i, part in enumerate(network.parameters()):
            part.copy_(given[f"{('weight', 'bias')[i % 2]} {i // 2}"].reshape(part.shape))
    made = []
    for x, y in zip(given["x"], given["y"], strict=True):
        logits = network(x.reshape(1, 1, 28, 28))
        loss = functional.binary_cross_entropy_with_logits(logits[0], y, reduction="sum")
        made.append(torch.autograd.grad(loss, list(network.parameters())))
    norms = [float(torch.cat([g.flatten() for g in own]).norm()) for own in made]
    assert max(norms) > 1.0
    with SpuParties(str(SPU_PYTHON), SPU_PARTY) as parties:
        for kind in (PLAIN, GHOST, MATERIALISED):
            first, *_ = parties.run(task="measure", kind=kind, steps=1, sizes=sizes, sigma=0.0)
            for i, part in enumerate(network.parameters()):
                factors = [1.0 if kind == PLAIN else min(1.0, 1.0 / n) for n in norms]
                update = sum(f * own[i] for f, own in zip(factors, made, strict=True)) / 4
                want = (part - update).detach().numpy().reshape(len(part), -1)
                found = np.array(first["opened"][i]).reshape(len(part), -1)
                assert np.abs(found - want).max() < 0.02
