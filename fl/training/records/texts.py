"""Texts as rows of integers, which an embedding takes."""

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError
from extensions.rules import Whole
from fl.training.models import BUCKETS

_WORD = re.compile(r"\w+(?:'\w+)?")
PADDING = 0


def tokens(
    texts: Sequence[str], *, buckets: int = BUCKETS, length: int = 256
) -> npt.NDArray[np.int64]:
    """Returns the words of each text by number, (texts, length): 0 where there is none.

    A word's number is a public hash of it, so that no vocabulary has to be learned from records;
    words that share a number are taken for one. Letters are small ones. Longer texts are cut.

    Args:
        texts: any strings.
        buckets: numbers there are, 0 included: as many rows as the embedding has.
        length: words of a text.

    Raises:
        ArgumentError: a size out of range, or something that is no list of strings.
    """
    from sklearn.utils import murmurhash3_32

    Whole(2).check("buckets", buckets)
    Whole(1).check("length", length)
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise ArgumentError("texts", type(texts).__name__, "a list of strings", code="type")
    found = np.full((len(texts), length), PADDING, dtype=np.int64)
    numbers: dict[str, int] = {}
    for row, text in zip(found, texts, strict=True):
        words = [match.group() for match in _WORD.finditer(text.lower())][:length]
        for word in words:
            if word not in numbers:
                numbers[word] = 1 + murmurhash3_32(word, positive=True) % (buckets - 1)
        row[: len(words)] = [numbers[word] for word in words]
    return found
