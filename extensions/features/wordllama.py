"""Texts by the mean of their words' embeddings, from the model inside the package WordLlama."""

import logging
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from extensions.data.records import Raw
from extensions.errors import ArgumentError, MissingExtraError
from extensions.features.extractor import Extractor, Features


def make(argument: str | None) -> Extractor:
    """Returns the extractor ``wordllama``: 256 features; nothing is downloaded.

    Raises:
        ArgumentError: an argument.
        MissingExtraError: WordLlama is not installed.
    """
    if argument is not None:
        raise ArgumentError("features", f"wordllama:{argument}", "wordllama, without an argument")
    model = _load()

    def extract(x: Raw) -> Features:
        embedded = np.asarray(model.embed([text or " " for text in x]), dtype=np.float32)
        return np.nan_to_num(embedded)

    return Extractor(
        name="wordllama",
        kinds=("texts",),
        function=extract,
        identity={"wordllama": version("wordllama")},
    )


def _load() -> Any:
    """Returns the model; its package would look for its own tokenizer elsewhere, and set up logs.

    A handler that writes nothing keeps the package from installing one that writes to the screen.
    """
    silence = logging.NullHandler()
    logging.getLogger().addHandler(silence)
    try:
        import wordllama
    except ImportError:
        raise MissingExtraError("wordllama", "features") from None
    finally:
        logging.getLogger().removeHandler(silence)
    here = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(cache_dir=here, disable_download=True)
