"""A model as a file of Keras 2, tf-keras."""

import os
import tempfile
import zipfile
from itertools import zip_longest
from pathlib import Path

from extensions import durable
from extensions.protocols.noisy_sums.whitening import SHORTEST
from extensions.runs.model.files import OpenedModel

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tf_keras
from tf_keras import layers


def write(path: Path, model: OpenedModel) -> None:
    """Writes a sequential model of float64 features (records, features).

    ``tf_keras.models.load_model(path)(features)`` are the logits; ReLU layers have the cap as their
    `max_value`. Where features are whitened, two layers that do so come first.
    """
    caps = [function.bound for function in model.header.spec.network.activations]
    made = tf_keras.Sequential(name="pea")
    made.add(layers.Input((model.header.spec.widths[0],), dtype="float64", name="features"))
    first = 1.0
    if model.whitening is not None:
        matrix = model.whitening.matrix
        mapped = layers.Dense(len(matrix), use_bias=False, dtype="float64", name="whitening")
        made.add(mapped)
        mapped.set_weights([matrix / SHORTEST])  # the next layer takes squares below 1e-12 for zero
        made.add(layers.UnitNormalization(dtype="float64"))
        first = model.header.max_feature_norm
    for (weight, bias), cap in zip_longest(model.parameters, caps):
        dense = layers.Dense(len(bias), dtype="float64")
        made.add(dense)
        dense.set_weights([first * weight.T, bias])
        first = 1.0
        if cap is not None:
            made.add(layers.ReLU(max_value=cap, dtype="float64"))
    with tempfile.TemporaryDirectory(prefix="pea-") as folder:
        unfinished = Path(folder) / f"model{path.suffix}"
        made.save(unfinished)
        with zipfile.ZipFile(unfinished, "a") as archive:
            archive.writestr("header.json", model.header.to_json())
        content = unfinished.read_bytes()
    with durable.write(path) as file:
        file.write(content)
