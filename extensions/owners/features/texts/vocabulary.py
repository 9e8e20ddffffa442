"""Public words: what they weigh, and which of them are worth a column, before any text is seen."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from extensions.errors import optional

LENGTH = 230
"""Words of a text in which a word is expected; a review has about as many."""
FLOOR = 3e-4
"""Added to a word's share of texts, so that what is hardly ever written weighs no more than 8.1."""


@dataclass(frozen=True)
class Vocabulary:
    """Words by their columns, the most telling first, and their inverse document frequencies."""

    columns: dict[str, int]
    weights: npt.NDArray[np.float32]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the words in the order of their columns, with their weights to 4 decimals."""
        pairs = zip(self.columns, self.weights, strict=True)
        listed = "".join(f"{word} {weight:.4f}\n" for word, weight in pairs)
        return hashlib.sha256(listed.encode()).hexdigest()


def read_vocabulary(width: int) -> Vocabulary:
    """Returns the words of most weight in a text, those of sentiment preferred.

    A word of frequency f is in a share p = 1 - (1 - f)^230 of texts, if words are independent. It
    weighs idf = log(1 / (p + 3e-4)), and its column is worth p idf^2, its expected part of a row's
    squared norm, times 1 + |v|, v its valence in -4..4 (0 if VADER's list does not have it). Words
    worth the same are in alphabetical order.

    Source:
        wordfreq's large English list (Speer, 2022; its data under CC BY-SA 4.0); VADER's lexicon
        (Hutto and Gilbert, ICWSM 2014; MIT). Neither knows anything of the records.
    """
    frequencies = _frequencies()
    words = sorted(frequencies)
    shares = 1.0 - (1.0 - np.array([frequencies[word] for word in words])) ** LENGTH
    weights = np.log(1.0 / (shares + FLOOR))
    valences = _valences()
    sizes = np.array([abs(valences.get(word, 0.0)) for word in words])
    worth = shares * weights**2 * (1.0 + sizes)
    chosen = np.argsort(-worth, kind="stable")[:width]
    return Vocabulary(
        columns={words[place]: column for column, place in enumerate(chosen)},
        weights=weights[chosen].astype(np.float32),
    )


def versions() -> dict[str, str]:
    """Returns the versions of the packages that the words are from."""
    return {name: version(name) for name in ("wordfreq", "vaderSentiment")}


def _frequencies() -> dict[str, float]:
    words = optional("wordfreq", "wordfreq", "features")
    found: dict[str, float] = words.get_frequency_dict("en", wordlist="large")
    return found


def _valences() -> dict[str, float]:
    """Returns VADER's mean valences by word, in -4..4."""
    package = optional("vaderSentiment", "vaderSentiment", "features")
    lexicon = files(package) / "vader_lexicon.txt"
    lines = lexicon.read_text(encoding="utf-8").splitlines()
    fields = [line.split("\t") for line in lines if line.strip()]
    return {word: float(valence) for word, valence, *_ in fields}
