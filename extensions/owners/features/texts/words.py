"""Texts by their words, in public columns of public weight; after a negation against a column."""

import re
from collections import Counter

import numpy as np

from extensions.owners.data.records import Raw
from extensions.owners.features.extractor import Extractor, Features
from extensions.owners.features.sines import width_in
from extensions.owners.features.texts.vocabulary import read_vocabulary, versions

WIDTH = 4096
SCOPE = 3
"""Words after a negation that it turns round."""
TOKENS = re.compile(r"<[^<>]*>|[^\W_]+(?:'[^\W_]+)*|[.,;:!?()\[\]\"“”…–—]|--+")
"""Words, with apostrophes inside; punctuation marks and tags, which end a negation."""
NEGATIONS = re.compile(
    r"not|no|never|cannot|nor|neither|without|nobody|nothing|none|nowhere|\w+n't"
)


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
