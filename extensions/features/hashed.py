"""Texts without any model: hashed words and pairs, projected at random by a public seed."""

from importlib.metadata import version

import numpy as np

from extensions.data.records import Raw
from extensions.errors import ArgumentError
from extensions.features.extractor import Extractor, Features

WIDTH = 512
BUCKETS = 2**18
PROJECTION_SEED = 20230521


def make(argument: str | None) -> Extractor:
    """Returns the extractor ``hashed`` or ``hashed:WIDTH``; by default 512 features.

    Words and pairs of words are counted in 2^18 buckets (by a public hash, so without a
    vocabulary that would have to be learned from the texts), counts are damped to 1 + log, and
    multiplied by a fixed sparse projection. Words are not weighted by how rare they are: that
    would have to be learned as well.

    **Source**: Weinberger et al., ICML 2009 (hashing); Achlioptas, 2003 (projection).

    Raises:
        ArgumentError: a width out of range.
    """
    if argument is not None and not (argument.isdecimal() and 1 <= int(argument) <= 2**14):
        raise ArgumentError("features", f"hashed:{argument}", "hashed:WIDTH with 1..16384 features")
    width = WIDTH if argument is None else int(argument)
    projection: list[Features] = []

    def extract(x: Raw) -> Features:
        from sklearn.feature_extraction.text import HashingVectorizer

        if not projection:
            projection.append(_projection(width))
        counts = HashingVectorizer(
            n_features=BUCKETS, ngram_range=(1, 2), alternate_sign=False, norm=None
        ).transform(x)
        counts.data = 1.0 + np.log(counts.data)
        return np.asarray(counts @ projection[0], dtype=np.float32)

    return Extractor(
        name="hashed" if argument is None else f"hashed:{argument}",
        kinds=("texts",),
        function=extract,
        identity={
            "scikit-learn": version("scikit-learn"),
            "buckets": str(BUCKETS),
            "seed": str(PROJECTION_SEED),
        },
        batch=256,
    )


def _projection(width: int) -> Features:
    """Returns signs -1 and 1, each with a sixth of the probability, and zeros."""
    draws = np.random.default_rng(PROJECTION_SEED).integers(0, 6, (BUCKETS, width), dtype=np.int8)
    signs: Features = np.subtract(draws == 0, draws == 1, dtype=np.float32)
    return signs
