"""Texts by their words, in public columns of public weight; after a negation against a column.

What words weigh, and which of them are worth a column, is known before any text is seen.
"""

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from extensions.data.datasets.records import Raw
from extensions.data.features.extractor import Extractor, Features
from extensions.data.features.sines import width_in
from extensions.errors import optional

WIDTH = 4096
SCOPE = 3
"""Words after a negation that it turns round."""
TOKENS = re.compile(r"<[^<>]*>|[^\W_]+(?:'[^\W_]+)*|[.,;:!?()\[\]\"“”…–—]|--+")
"""Words, with apostrophes inside; punctuation marks and tags, which end a negation."""
NEGATIONS = re.compile(
    r"not|no|never|cannot|nor|neither|without|nobody|nothing|none|nowhere|\w+n't"
)

LENGTH = 230
"""Words of a text in which a word is expected; a review has about as many."""
FLOOR = 3e-4
"""Added to a word's share of texts, so that what is hardly ever written weighs no more than 8.1."""


def make(argument: str | None) -> Extractor:
    """Returns the extractor ``words`` or ``words:WIDTH``; by default 4,096 features.

    A column counts a word: once more where it stands, once less where it stands within three words
    after a negation (not, no, never, cannot, nor, neither, without, nobody, nothing, none, nowhere,
    or one that ends in n't), unless a punctuation mark stands between. A count c becomes
    sign(c) (1 + log |c|) times the word's weight. Which words have columns, and what they weigh, is
    public and fixed beforehand (`read_vocabulary`), so that no row tells of other texts.

    Source:
        Das and Chen, Management Science 2007 (negation until the next punctuation mark).

    Deviation:
        three words at most, and counted in the word's own column with a minus sign.
    """
    width = WIDTH if argument is None else width_in("words", argument)
    vocabulary = read_vocabulary(width)
    columns, weights = vocabulary.columns, vocabulary.weights

    def extract(x: Raw) -> Features:
        rows = np.zeros((len(x), width), dtype=np.float32)
        for row, text in zip(rows, x, strict=True):
            for word, count in signed_counts(text).items():
                if count and word in columns:
                    row[columns[word]] = np.sign(count) * (1.0 + np.log(abs(count)))
        return rows * weights

    return Extractor(
        name="words" if argument is None else f"words:{argument}",
        kinds=("texts",),
        function=extract,
        identity={**versions(), "columns": vocabulary.digest, "scope": str(SCOPE)},
        batch=1024,
    )


def signed_counts(text: str) -> Counter[str]:
    """Returns how often each word occurs in a text, less how often a negation turns it round."""
    counts: Counter[str] = Counter()
    turned = 0
    for token in TOKENS.findall(text.lower().replace("’", "'")):
        if not token[0].isalnum():
            turned = 0
            continue
        counts[token] += -1 if turned else 1
        turned = SCOPE if NEGATIONS.fullmatch(token) else max(0, turned - 1)
    return counts


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
