"""The records of an experiment: features taken once, and parts of them set aside."""

import functools
from dataclasses import dataclass
from pathlib import Path

from benchmarks.accuracy.settings import PARTIES, Setting
from extensions.cli import console
from extensions.data.datasets import Split, find_folder, load_raw, split_among
from extensions.data.origin import FeatureExtraction

SET_ASIDE = 6
"""One in so many training records is set aside."""


@dataclass(frozen=True, kw_only=True)
class Material:
    """The data set that an experiment is about.

    Attributes:
        data: its name.
        data_dir: folder of its files; None for the digits.
        download: fetch them from where they are published.
        epsilon: of each run.
        seeds: of the repetitions.
    """

    data: str
    data_dir: Path | None
    download: bool
    epsilon: float
    seeds: range

    def features(self, setting: Setting) -> Split:
        """Returns all features and labels, training records in an order shuffled by seed 0."""
        return self._features(setting.features, setting.max_feature_norm)

    @functools.lru_cache(maxsize=1)  # noqa: B019 - a process has one of these
    def _features(self, features: str, norm: float) -> Split:
        source = load_raw(self.data, self.data_dir, 0, download=self.download)
        extraction = FeatureExtraction(features=features, max_feature_norm=norm)
        with console.extracting() as show:
            (found,) = extraction.extract([source], show)
        return found

    @property
    def classes(self) -> int:
        """Number of classes."""
        return 2 if self.data == "imdb" else 10


def folder_of(data: str, data_dir: Path | None, download: bool) -> Path | None:
    """Returns the folder of the files (`extensions.data.datasets.find_folder`), None for digits.

    Raises:
        ArgumentError: there is none, and nothing shall be downloaded.
    """
    if data == "digits":
        return None
    return find_folder(data, data_dir, download=download, files="its files")


def without_test(features: Split) -> Split:
    """Returns the training records alone, a sixth of them in the place of the test records."""
    cut = len(features.train_x) // SET_ASIDE
    return Split(
        train_x=features.train_x[cut:],
        train_y=features.train_y[cut:],
        test_x=features.train_x[:cut],
        test_y=features.train_y[:cut],
    )


def dealt(features: Split, partition: str = "iid", seed: int = 0) -> list[Split]:
    """Returns each party's part."""
    return split_among(features, PARTIES, partition, seed)
