"""Tasks on models that were exported for Keras."""

from pathlib import Path

import numpy as np
import tf_keras

from extensions.runs.model import read_opened
from extensions.runs.model.export import export
from tests.helpers.tfe_tasks import session  # noqa: F401 - its devices are made before anything runs


def logits_of_an_export(model: str, out: str, records: str) -> list[list[float]]:
    """What Keras says of records, of a model that it loads from its own file."""
    export(read_opened(Path(model)), "keras", Path(out))
    loaded = tf_keras.models.load_model(out)
    relus = [layer for layer in loaded.layers if isinstance(layer, tf_keras.layers.ReLU)]
    assert [float(layer.max_value) for layer in relus] == [8.0, 8.0]
    return loaded(np.load(records)).numpy().tolist()
