"""How documents, help and errors read: words a sentence, long sentences, negations.

    python -m tests.house.words docs/index.md

Counted is prose: paragraphs and items of lists. Code, tables, headings and admonitions' heads are
left out. The limits are those of documents that people like to read.
"""

import re
import runpy
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.wordings import SNAPSHOT

ROOT = Path(__file__).parents[2]
MEDIAN, LONG, SHARE, NEGATIONS = 17, 30, 8, 10
"""Words a sentence, the words of a long one, percent of long ones, negations of 1,000 words."""
OF_ERRORS = 20
"""Negations of 1,000 words of errors: what is wrong is mostly something that is not there."""
FEWEST = 60
"""Words below which a document is too short to be measured."""

_CODE = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
_FRONT = re.compile(r"\A---\n.*?^---\n", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_SKIPPED = re.compile(r"^\s*(\||#|!!!|\?\?\?|===|:::|<|!\[|\[[^\]]+\]:).*$", re.MULTILINE)
_ITEM = re.compile(r"^\s*([-*+]|\d+[.)])\s+", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_INLINE = re.compile(r"``?[^`]+``?")
_END = re.compile(r"(?<![ .][A-Za-z])(?<!\be\.g)(?<!\bal)[.!?](?=[\s)*]|$)|\n\s*\n")
_WORD = re.compile(r"[^\W_](?:[\w'’-]*\w)?")
_NEGATION = re.compile(
    r"\b(?:no|not|never|none|nobody|nothing|neither|nor|cannot|\w+n['’]t)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Measures:
    """What is counted of a document."""

    words: int
    median: float
    long: float
    """Percent of the sentences that are long."""
    negations: float
    """Of 1,000 words."""
    longest: tuple[str, ...]
    most_negations: float = NEGATIONS

    @property
    def reads_well(self) -> bool:
        """Whether the document is within the limits, or too short to tell."""
        measured = self.words >= FEWEST
        return not measured or (
            self.median <= MEDIAN and self.long <= SHARE and self.negations <= self.most_negations
        )


def sentences(text: str) -> list[str]:
    """Returns the sentences of a document's prose."""
    for left_out in (_FRONT, _COMMENT, _CODE, _SKIPPED):
        text = left_out.sub("\n\n", text)
    text = _INLINE.sub("code", _LINK.sub(r"\1", _ITEM.sub("\n\n", text)))
    found = [" ".join(part.split()) for part in _END.split(text)]
    return [one for one in found if _WORD.search(one)]


def measure(text: str, most_negations: float = NEGATIONS) -> Measures:
    """Returns the measures of a document."""
    found = sentences(text)
    counts = [len(_WORD.findall(one)) for one in found]
    words = sum(counts)
    negations = sum(len(_NEGATION.findall(one)) for one in found)
    long = [one for one, count in zip(found, counts, strict=True) if count > LONG]
    return Measures(
        words=words,
        median=statistics.median(counts) if counts else 0,
        long=100 * len(long) / max(len(counts), 1),
        negations=1000 * negations / max(words, 1),
        longest=tuple(long),
        most_negations=most_negations,
    )


def of_code() -> dict[str, Measures]:
    """Returns the measures of what the code says: the help of all commands, and all other texts."""
    texts = (line.partition(": ")[2] for line in SNAPSHOT.read_text().splitlines())
    commands = runpy.run_path(str(ROOT / "docs/site/generated.py"))["commands"]
    others = "\n\n".join(texts).replace(r"\n", "\n")
    return {"help": measure(commands()), "texts": measure(others, OF_ERRORS)}


def documents() -> list[Path]:
    """Returns the documents that people read, without generated pages."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def main() -> None:
    """Prints a line for each document, and the long sentences of those that are named."""
    named = [Path(name) for name in sys.argv[1:]]
    found = {str(path): measure(path.read_text()) for path in named or documents()}
    for path, measures in (found if named else found | of_code()).items():
        mark = " " if measures.reads_well else "*"
        counted = f"{measures.words:6} {measures.median:6.1f} {measures.long:5.1f} %"
        print(f"{mark} {counted} {measures.negations:5.1f}  {path}")
        for sentence in measures.longest if named else ():
            print(f"      {sentence}")


if __name__ == "__main__":
    main()
