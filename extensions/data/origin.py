"""What each owner does with its own records before anything is shared: read them, take features."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

from extensions.checks import check_left_out
from extensions.data.datasets import Columns, Split, is_table, load_own, load_raw, split_among
from extensions.data.datasets.by_columns import cut_columns, load_columns
from extensions.data.datasets.files import read_classes
from extensions.data.datasets.records import Raw, kind_of
from extensions.data.datasets.sources import EMBEDDED
from extensions.data.features import RAW, Cache, Extractor, default_features, extract, find
from extensions.data.features.extraction import check_kind, rows_of
from extensions.data.schema import Schema, label_of, read_schema
from extensions.errors import ArgumentError
from extensions.options import Option
from extensions.public import Public
from extensions.ring.fixed_point import Reals
from extensions.rules import POSITIVE, Whole

Progress = Callable[[int, int, int], None]
"""Called with the owner's rank, the number of its records that are done, and that of all."""


def class_names_of(text: str) -> tuple[str, ...]:
    """Returns the names of classes, of a list with commas."""
    names = tuple(name.strip() for name in text.split(","))
    if len(names) < 2 or len({label_of(name) for name in names}) < len(names):
        raise ArgumentError("class_names", text, "at least two names, all different")
    return names


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where records come from.

    Attributes:
        data: data set to share out among the parties: digits (embedded, the default), mnist,
            cifar10, imdb, csv:PATH, parquet:PATH or npz:PATH.
        data_dir: folder with the files of mnist, cifar10 or imdb; by default the one of this name
            in the folder PEA_DATA, or in the user's cache.
        own: party R's own .npz, .csv or .parquet file, as R=PATH, instead of data; once for each
            party.
        download: download missing files of the data set from its publisher.
        columns: of tables.
        names: labels of a table in order, as negative,positive, which become public; by default all
            distinct labels.
        schema: TOML file that says what a table's columns hold and what to learn, the same at all
            parties (`pea schema` drafts one); instead of label and class-names.
        partition: how to share out the data: iid, or shards (sorted by label).
        seed: seed for shuffling, holding out and sharing out; public.
    """

    data: str | None = None
    data_dir: Path | None = None
    own: Annotated[Sequence[str], Option(name="data-for-party")] = ()
    download: bool = False
    columns: Columns = field(default_factory=Columns)
    names: Annotated[tuple[str, ...] | None, Option(name="class-names", parse=class_names_of)] = (
        None
    )
    schema: Path | None = None
    partition: str = "iid"
    seed: Annotated[int, Option(name="seed-data")] = 0

    @property
    def title(self) -> str:
        """What the report says of the data."""
        return "own records" if self.own else self.data or "digits"

    def read(
        self, parties: int, classes: int | None = None, *, by_columns: bool = False
    ) -> list[Split]:
        """Returns each party's records: of other persons, or other columns of the same persons."""
        self._check()
        own, schema = self.own_files(parties), self.public_schema
        said: Any = {"columns": self.columns, "names": self.names}
        if own:
            load = load_columns if by_columns else load_own
            return load(own, self.seed, classes=classes, schema=schema, **said)
        read = partial(
            load_raw,
            self.data or "digits",
            self.data_dir,
            self.seed,
            download=self.download,
            **said,
        )
        if by_columns:
            check_left_out("where columns are dealt out", partition=self._dealt)
            return cut_columns(read, schema, parties)
        return split_among(read(schema=schema), parties, self.partition, self.seed)

    @property
    def public_schema(self) -> Schema | None:
        """What the file of the schema says, or None without one."""
        if self.schema is None:
            return None
        schema = read_schema(self.schema)
        schema.check_confirmed()
        return schema

    def own_files(self, parties: int) -> list[Path]:
        """Returns each party's own file; nothing where all have parts of one data set."""
        if not self.own:
            return []
        paths = by_rank(self.own, parties)
        if len(paths) < parties:
            missing = min(set(range(parties)) - set(paths))
            allowed = f"RANK=PATH for all {parties} parties"
            advice = f"Party {missing} has none."
            raise ArgumentError("data_for_party", list(self.own), allowed, advice)
        return [paths[rank] for rank in range(parties)]

    @property
    def _dealt(self) -> str | None:
        return None if self.partition == "iid" else self.partition

    def _check(self) -> None:
        """No option is out of range, or left without a use unnoticed."""
        Whole(0).check("seed_data", self.seed)
        if self.own:
            check_left_out("with {data_for_party}", data=self.data, partition=self._dealt)
        paths = [text.partition("=")[2] for text in self.own]
        tables = any(is_table(Path(path)) for path in paths)
        tables = tables or (self.data or "").startswith(("csv:", "parquet:"))
        if self.schema is not None and paths and not tables:
            allowed = "a .csv or .parquet file with {schema}"
            raise ArgumentError("records", paths[0], allowed, code="file")
        if not tables:
            check_left_out("except for a table", schema=self.schema)
        self.columns.check(tables=tables, schema=self.schema is not None, names=self.names)
        if self.own or self.title.partition(":")[0] in EMBEDDED:
            allowed = "except with a downloaded data set"
            check_left_out(allowed, data_dir=self.data_dir, download=self.download)


@dataclass(frozen=True, kw_only=True)
class FeatureExtraction:
    """How features are extracted, the same for every owner.

    Attributes:
        features: feature extractor, which each owner runs before anything is shared: raw (numbers
            as they are); for images hog, scattering, efficientnet:KIND, tflite:PATH,
            backbone:ARCHITECTURE or timm:NAME; for texts hashed, words or wordllama; for both
            hf:NAME_OR_FOLDER; or your own module:function. Options follow (,mirror), and + joins
            several. The default is raw for tables and small images, words:4096 for texts,
            scattering:1024 for other images; in colour efficientnet:lite0+efficientnet:lite2, each
            with ,bicubic,half, if installed.
        weights: file with the weights of a backbone.
        keep: whether features are kept on disk between runs.
        max_feature_norm: public bound of the norm of a row.
    """

    features: str | None = None
    weights: Path | None = None
    keep: Annotated[
        bool,
        Option(
            name="no-feature-cache", help="keep no features on disk between runs.", negated=True
        ),
    ] = True
    max_feature_norm: float = 1.0

    def __post_init__(self) -> None:
        POSITIVE.check("max_feature_norm", self.max_feature_norm)

    def chosen(
        self, x: Raw, *, linear: bool, hidden: bool
    ) -> tuple["FeatureExtraction", str | None]:
        """Returns the extraction with a name, and what is to be said of it, if that was chosen."""
        if self.features is not None:
            return self, None
        name, note = default_features(x, linear=linear, hidden=hidden)
        return replace(self, features=name), note

    @property
    def extractor(self) -> Extractor:
        """What extracts them."""
        return find(self.features or RAW, self.weights)

    @property
    def _cache(self) -> Cache | None:
        return Cache() if self.keep else None

    def extract(self, parts: Sequence[Split], progress: Progress) -> list[Split]:
        """Returns the features of each owner's records."""
        extractor = self.extractor
        more: Any = {"bound": self.max_feature_norm, "cache": self._cache}
        return [
            extract(part, extractor, progress=partial(progress, rank), **more)
            for rank, part in enumerate(parts)
        ]

    def width(self, part: Split) -> int:
        """Returns how many features a record has, of two of an owner's."""
        few = part.taken(slice(2), slice(2))
        (sample,) = replace(self, keep=False).extract([few], lambda *_: None)
        return sample.public.features

    def rows(self, x: Raw, progress: Callable[[int], None]) -> Reals:
        """Returns the features of records without labels."""
        extractor = self.extractor
        check_kind(kind_of(x), extractor)
        return rows_of(x, extractor, self.max_feature_norm, self._cache, progress)

    @property
    def statement(self) -> dict[str, str]:
        """What fixes the features beside the records, by name (`Extractor.statement`)."""
        return self.extractor.statement


def sizes_of(
    origin: Origin, extraction: FeatureExtraction, parties: int
) -> tuple[list[Public], dict[str, Any]]:
    """Returns what a run over these records and features will be told of their sizes and kind."""
    parts = origin.read(parties)
    width = extraction.width(parts[0])
    sizes = [Public(features=width, records=x.drawn, held_out=len(x.test_x)) for x in parts]
    return sizes, {"data_kind": parts[0].settings["data_kind"]}


def own_records(
    records: Path, origin: Origin, classes: int | None, *, by_columns: bool = False
) -> Split:
    """Returns one owner's records; by columns they may have no labels.

    `classes` counts if neither names, a schema nor the file say how many there are.
    """
    if origin.schema is not None or origin.names is not None:
        check_left_out("with {schema} or {class_names}", classes=classes)
        return replace(origin, own=[f"0={records}"]).read(1, by_columns=by_columns)[0]
    told = None if is_table(records) else read_classes(records)
    if classes is not None and told not in (None, classes):
        raise ArgumentError("classes", classes, f"{told}, which {records.name} says")
    count = told if classes is None else classes
    if count is None:
        raise ArgumentError(
            "classes",
            None,
            "because one party's records may lack some of them",
            "For a table give {schema} (`pea schema` drafts one) or {class_names}, else {classes}.",
            code="missing",
        )
    Whole(2).check("classes", count, "Give {schema} for a file of numbers that are learnt.")
    names = tuple(map(str, range(count))) if is_table(records) else None
    own = replace(origin, own=[f"0={records}"], names=names)
    return own.read(1, count, by_columns=by_columns)[0]


def by_rank(own: Sequence[str], parties: int) -> dict[int, Path]:
    """Returns paths by the ranks of their owners, of texts such as ``0=hospital.csv``.

    One file, by whatever name, is refused for two parties: its records would count twice.
    """
    paths: dict[int, Path] = {}
    for text in own:
        rank, equals, path = text.partition("=")
        if not equals or not rank.isdecimal() or int(rank) in paths or int(rank) >= parties:
            allowed = f"RANK=PATH, one for each rank in 0..{parties - 1}"
            raise ArgumentError("data_for_party", text, allowed)
        paths[int(rank)] = Path(path)
    there = sorted(rank for rank, path in paths.items() if path.exists())
    for first, second in combinations(there, 2):
        if paths[first].samefile(paths[second]):
            given = f"{paths[second]}, which party {first} and party {second} have both"
            advice = "Give each party its own records, or share out one file with {data}."
            raise ArgumentError("data_for_party", given, "another file for each party", advice)
    return paths
