"""Whatever a public start holds, no record moves a clipped sum beyond the bound."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from extensions.data.datasets import write_private
from extensions.errors import ArgumentError
from extensions.layers.losses import LOSSES
from extensions.layers.models.custom import Layers
from extensions.layers.models.start_file import with_digest
from extensions.layers.spec import ModelSpec
from extensions.privacy.sampling import check_records
from extensions.protocols.dpsgd import parts_of
from extensions.protocols.host import Batch, pairs
from extensions.protocols.pea import public_start
from extensions.protocols.records import Records
from extensions.protocols.step import Step
from extensions.ring.clear import ClearRing
from extensions.runs.config import TrainConfig

FEATURES, CLASSES, RECORDS = 16, 3, 4
MODELS = {
    "one layer": "logistic",
    "one layer behind a function": Layers().activation("tanh").text(),
    "one layer behind windows": Layers().average(2).text(),
    "two layers": Layers().linear(4).text(),
    "hidden": "mlp:4",
    "three layers": Layers().linear(4).activation("tanh").linear(4).text(),
    "windows": Layers().convolution(2, 3).activation("sigmoid").text(),
    "groups": Layers().convolution(2, 3).activation("tanh").convolution(2, 2, groups=2).text(),
    "pooling": Layers().convolution(2, 3, padding=1).activation("tanh").largest(2).text(),
    "residual": Layers().activation("tanh").residual(lambda layers: layers.linear(16)).text(),
}
UNCUT = ("two layers", "hidden", "three layers", "groups", "residual")
"""Models whose bounds fit no ring with "least-squares", whose residuals nothing cuts."""
NORMS = (0.0, 10.0, 99.0, 300.0, 5e3, 2e4, 7.9e4, 1e6, 2.0**22, 2.0**33, 3e12)
"""Of a weight or a bias: within a start's part, beyond it, and so large that squares wrap."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def longest_part(config: TrainConfig, seed: int) -> float:
    """Returns the longest part of a record in a step's sum, over its bound."""
    step = Step.of(config, Records((), (100, 100, 100), FEATURES))
    plan = step.plan
    model = pairs(public_start(config, FEATURES))
    ring = ClearRing(plan.frac_bits, parties=3, rounding="floor")
    draws = np.random.default_rng(seed)
    x = draws.normal(size=(RECORDS, FEATURES))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * 1.0001
    own = check_records(
        x,
        draws.integers(0, CLASSES, RECORDS),
        frac_bits=config.frac_bits,
        classes=CLASSES,
        max_feature_norm=1.0,
    )
    lengths = []
    for row in range(RECORDS):
        one = slice(row, row + 1)
        norms = np.einsum("ij,ij->i", own.features[one], own.features[one])
        batch = Batch(own.features[one], own.labels[one], norms, None)
        parts = parts_of(step.clipped(ring, model, batch))
        length = math.sqrt(sum(float((part.astype(float) ** 2).sum()) for part in parts))
        lengths.append(math.ldexp(length, -plan.frac_bits - plan.factor_bits))
    return max(lengths) / (plan.max_grad_norm * (1 + plan.eta))


def starts(model: str, weight: float, bias: float, folder: Path, seed: int) -> list[str]:
    """Returns starts in which each layer in turn has such norms, and one in which all have."""
    shapes = ModelSpec.parse(model, FEATURES, CLASSES).network.parameter_shapes
    draws, found = np.random.default_rng(seed), []
    for which in [*range(len(shapes)), None][: len(shapes) + (len(shapes) > 1)]:
        arrays = {}
        for i, shape in enumerate(shapes):
            usual = which not in (None, i)
            for name, norm, part in (
                ("weight", 1.0 if usual else weight, draws.normal(size=shape)),
                ("bias", 0.1 if usual else bias, draws.normal(size=shape[0])),
            ):
                arrays[f"{name}_{i}"] = part * (norm / np.linalg.norm(part))
        path = folder / f"{len(list(folder.iterdir()))}.npz"
        write_private(path, **arrays)
        found.append(with_digest(str(path)))
    return found


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", MODELS)
def test_no_start_breaks_the_bound(kind: str, loss: str, tmp_path: Path):
    """It is refused, or every record stays within the bound; in each case some starts are taken.

    Each model meets each norm, with every other loss.
    """
    model, taken, refused = MODELS[kind], 0, 0
    norms = [(1.0, norm) for norm in NORMS] + [(norm, 0.1) for norm in NORMS] + [(80.0, 80.0)]
    for seed, (weight, bias) in [*enumerate(norms)][[*LOSSES].index(loss) % 2 :: 2]:
        for init, scale in itertools.product(
            starts(model, weight, bias, tmp_path, seed), (1.0, 0.0) if seed % 3 else (1.0,)
        ):
            try:
                config = TrainConfig(
                    classes=CLASSES,
                    model=model,
                    loss=loss,
                    steps=2,
                    lr=0.1,
                    sample_rate=0.5,
                    frac_bits=16,
                    noise_multiplier=1.0,
                    delta=1e-5,
                    bias_scale=scale,
                    init=init,
                )
                length = longest_part(config, seed)
            except ArgumentError:
                refused += 1
                continue
            taken += 1
            assert length <= 1.0, (weight, bias, scale)
    assert taken or (loss == "least-squares" and kind in UNCUT)
    assert refused or (loss != "least-squares" and kind.startswith("one layer"))
