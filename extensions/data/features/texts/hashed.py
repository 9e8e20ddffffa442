"""Texts without any model: hashed words, folded at random by a public seed."""

from importlib.metadata import version

import numpy as np

from extensions.data.datasets.records import Raw
from extensions.data.features.extractor import Extractor, Features
from extensions.data.features.sines import width_in

WIDTH = 512
BUCKETS = 2**20
FOLDING_SEED = 20230521


def make(argument: str | None) -> Extractor:
    """Returns the extractor ``hashed`` or ``hashed:WIDTH``; by default 512 features.

    Words, but for a public list of common English ones, are counted in 2^20 buckets (by a public
    hash, so without a vocabulary that would have to be learned from the texts), counts are damped
    to 1 + log, and every bucket is added with a fixed random sign to a fixed random feature. Words
    are not weighted by how rare they are: that would have to be learned as well.

    Source:
        Weinberger et al., ICML 2009 (signed feature hashing).
    """
    width = WIDTH if argument is None else width_in("hashed", argument)
    draws = np.random.default_rng(FOLDING_SEED)
    signs = draws.choice(np.array([-1.0, 1.0], dtype=np.float32), BUCKETS)
    places = draws.integers(0, width, BUCKETS)

    def extract(x: Raw) -> Features:
        from scipy.sparse import csr_array
        from sklearn.feature_extraction.text import HashingVectorizer

        counts = HashingVectorizer(
            n_features=BUCKETS, stop_words="english", alternate_sign=False, norm=None
        ).transform(x)
        damped = (1.0 + np.log(counts.data)) * signs[counts.indices]
        folded = csr_array((damped, places[counts.indices], counts.indptr), shape=(len(x), width))
        return np.asarray(folded.toarray(), dtype=np.float32)

    return Extractor(
        name="hashed" if argument is None else f"hashed:{argument}",
        kinds=("texts",),
        function=extract,
        identity={
            "scikit-learn": version("scikit-learn"),
            "buckets": str(BUCKETS),
            "seed": str(FOLDING_SEED),
        },
        batch=1024,
    )
