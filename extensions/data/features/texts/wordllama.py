"""Texts by the mean of their words' embeddings, from the model inside the package WordLlama."""

import logging
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from extensions.data.datasets.records import Raw
from extensions.data.features.extractor import Extractor, Features
from extensions.data.features.sines import SEED, RandomSines, width_in
from extensions.errors import optional

SINE_SCALE = 1.7
"""Of the sines' arguments, for a word embedding of the median norm."""


def make(argument: str | None) -> Extractor:
    """Returns the extractor ``wordllama``: 256 features; nothing is downloaded.

    ``wordllama:WIDTH`` takes that many `RandomSines` of every word's embedding before it averages
    over the text, words that occur c times weighted by 1 + log c. A linear model of these tells
    words apart that one of the mean embedding cannot, and still treats similar words alike.
    """
    width = None if argument is None else width_in("wordllama", argument)
    model = _load()

    def embedded(x: Raw) -> Features:
        rows = np.asarray(model.embed([text or " " for text in x]), dtype=np.float32)
        return np.nan_to_num(rows)

    return Extractor(
        name="wordllama" if argument is None else f"wordllama:{argument}",
        kinds=("texts",),
        function=embedded if width is None else _sines_of_words(model, width),
        identity={
            "wordllama": version("wordllama"),
            "sines": "" if width is None else f"{SEED}, {SINE_SCALE}",
        },
    )


def _sines_of_words(model: Any, width: int) -> Callable[[Raw], Features]:
    words = np.asarray(model.embedding, dtype=np.float32)
    scale = SINE_SCALE / float(np.median(np.linalg.norm(words, axis=1)))
    table = RandomSines(words.shape[1], width, scale)(words)
    model.tokenizer.no_truncation()
    model.tokenizer.no_padding()

    def extract(x: Raw) -> Features:
        rows = np.zeros((len(x), width), dtype=np.float32)
        texts = model.tokenizer.encode_batch(list(x), add_special_tokens=False)
        for row, text in zip(rows, texts, strict=True):
            found, counts = np.unique(np.asarray(text.ids, dtype=np.int64), return_counts=True)
            weights = (1.0 + np.log(counts)).astype(np.float32)
            row += weights @ table[found] / np.float32(max(1.0, weights.sum()))
        return rows

    return extract


def _load() -> Any:
    """Returns the model; its package would look for its own tokenizer elsewhere, and set up logs.

    A handler that writes nothing keeps the package from installing one that writes to the screen.
    """
    silence = logging.NullHandler()
    logging.getLogger().addHandler(silence)
    try:
        wordllama = optional("wordllama", "wordllama", "features")
    finally:
        logging.getLogger().removeHandler(silence)
    here = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(cache_dir=here, disable_download=True)
