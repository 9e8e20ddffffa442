"""The 50,000 labelled reviews of the Large Movie Review Dataset: 0 negative, 1 positive."""

import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np

from extensions.data.datasets.download import Published, fetch_folder
from extensions.data.datasets.folders import broken, find_folder
from extensions.data.datasets.records import Split
from extensions.errors import ArgumentError

FOLDER = "aclImdb"
LINES = "imdb_reviews.jsonl.xz"
CLASSES = ("neg", "pos")
ARCHIVE = Published(
    "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
    "md5:7c2ac02c03563afcf9b574c7e56c153a",
)

Reviews = dict[str, list[tuple[str, int]]]


def read_imdb(folder: Path | None, download: bool) -> Split:
    """Returns the reviews as texts, negative ones first.

    The folder is or holds ``aclImdb``; or it holds ``imdb_reviews.jsonl.xz``, one object a line
    with split ("train" or "test"), label (0 or 1) and text.
    """
    folder = find_folder("imdb", folder, download=download, files=FOLDER)
    if download:
        fetch_folder(ARCHIVE, folder, FOLDER)
    for files in (folder / FOLDER, folder):
        if (files / "train").is_dir():
            return _raw(files, _read_folder(files))
    if (folder / LINES).is_file():
        return _raw(folder, _read_lines(folder / LINES))
    raise broken(str(folder), f"a folder that holds {FOLDER} or {LINES}")


def _read_folder(folder: Path) -> Reviews:
    return {
        part: [
            (_read_review(path), label)
            for label, name in enumerate(CLASSES)
            for path in sorted((folder / part / name).glob("*.txt"))
        ]
        for part in ("train", "test")
    }


def _read_review(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise broken(str(path), "a text in UTF-8") from error


def _read_lines(path: Path) -> Reviews:
    reviews: Reviews = {"train": [], "test": []}
    read = 0
    try:
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                review = json.loads(line)
                reviews[review["split"]].append((str(review["text"]), (0, 1)[review["label"]]))
                read += 1
    except (lzma.LZMAError, EOFError, ValueError, LookupError, TypeError) as error:
        raise ArgumentError(
            "data_dir",
            f"{path.name}, line {read + 1}",
            "an object with split, label and text",
            code="data",
        ) from error
    return reviews


def _raw(folder: Path, reviews: Reviews) -> Split:
    arrays: dict[str, Any] = {}
    for part, pairs in reviews.items():
        if not pairs:
            raise broken(str(folder), f"a folder with reviews for {part}ing")
        arrays[f"{part}_x"] = np.array([text for text, _ in pairs], dtype=object)
        arrays[f"{part}_y"] = np.array([label for _, label in pairs], dtype=np.int64)
    return Split(**arrays)
