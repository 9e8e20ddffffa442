"""Options of the `pea` command that say what the records are, and the commands about them alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from extensions.cli import console
from extensions.errors import ArgumentError
from extensions.owners.data import Columns, RawSplit, Split, write_parts
from extensions.owners.origin import Origin, Taking, own_features, write_features
from extensions.runs.config import TrainConfig

NO_FEATURES = "none"

Data = Annotated[
    str | None,
    typer.Option(
        help="digits (embedded, default), mnist, cifar10, imdb, csv:PATH, parquet:PATH or npz:PATH."
    ),
]
DataDir = Annotated[Path | None, typer.Option(help="Folder of mnist, cifar10 or imdb.")]
DataForParty = Annotated[
    list[str] | None,
    typer.Option(help="R=PATH: party R's own .npz, .csv or .parquet file; once for each party."),
]
Download = Annotated[bool, typer.Option("--download", help="Fetch missing files of --data.")]
Label = Annotated[str | None, typer.Option(help="Column of labels, of a table.")]
Text = Annotated[str | None, typer.Option(help="Column of texts, if a table's records are texts.")]
ClassNames = Annotated[
    str | None, typer.Option(help="A table's labels in order, public: negative,positive.")
]
Partition = Annotated[
    str, typer.Option(help="How --data is dealt out: iid, or shards (sorted by label).")
]
SeedData = Annotated[int, typer.Option(help="Seed of splitting the data; public.")]
Features = Annotated[
    str,
    typer.Option(
        help="raw, hog, scattering, tflite:PATH, backbone:ARCHITECTURE (images), hashed, wordllama "
        "(texts) or module:function; each owner takes them before anything is shared."
    ),
]
Weights = Annotated[Path | None, typer.Option(help="Weights of --features backbone.")]
NoFeatureCache = Annotated[
    bool, typer.Option("--no-feature-cache", help="Keep no features on disk between runs.")
]
FeatureNorm = Annotated[float, typer.Option(help="Public bound of a row's norm.")]
Classes = Annotated[int, typer.Option(help="Number of classes.")]


def columns_of(label: str | None, text: str | None) -> Columns:
    """Returns which columns of a table are what."""
    return Columns(label=label, text=text)


def names_of(class_names: str | None) -> tuple[str, ...] | None:
    """Returns the names of the classes.

    Raises:
        ArgumentError: fewer than two, or one twice.
    """
    if class_names is None:
        return None
    names = tuple(name.strip() for name in class_names.split(","))
    if len(names) < 2 or len(set(names)) < len(names):
        raise ArgumentError("class_names", class_names, "at least two names, all different")
    return names


def split(
    out: Annotated[Path, typer.Option(help="Folder for party-0.npz, party-1.npz, ...")],
    parties: Annotated[int, typer.Option(help="Number of parties.")] = 3,
    data: Data = None,
    data_dir: DataDir = None,
    label: Label = None,
    text: Text = None,
    class_names: ClassNames = None,
    partition: Partition = "iid",
    seed_data: SeedData = 0,
    download: Download = False,
    features: Annotated[
        str, typer.Option(help="As in `pea train`; none: cut only, for `pea party --features`.")
    ] = "raw",
    weights: Weights = None,
    max_feature_norm: FeatureNorm = 1.0,
    no_feature_cache: NoFeatureCache = False,
) -> None:
    """Cut a data set into one file for each party, to try `pea party` with."""
    origin = Origin(
        data=data,
        data_dir=data_dir,
        columns=columns_of(label, text),
        names=names_of(class_names),
        partition=partition,
        seed=seed_data,
        download=download,
    )
    sources = origin.read(parties)
    console.classes(sources[0].names)
    raw = [source.split for source in sources]
    parts: Sequence[Split | RawSplit] = raw
    if features != NO_FEATURES:
        taking = taking_of(features, weights, max_feature_norm, no_feature_cache)
        with console.extracting() as show:
            parts = taking.take(raw, show)
    elif raw[0].kind == "texts":
        raise ArgumentError("features", NO_FEATURES, "an extractor for texts, such as hashed")
    for path in write_parts(parts, out):
        typer.echo(path)


def take(
    records: Annotated[Path, typer.Option(help="One party's .npz, .csv or .parquet file.")],
    out: Annotated[Path, typer.Option(help=".npz file for the features.")],
    features: Features,
    weights: Weights = None,
    label: Label = None,
    text: Text = None,
    class_names: ClassNames = None,
    classes: Classes = TrainConfig.classes,
    seed_data: SeedData = 0,
    max_feature_norm: FeatureNorm = 1.0,
    no_feature_cache: NoFeatureCache = False,
) -> None:
    """Turn one party's records into the features that `pea party` shares; runs on its own."""
    taking = taking_of(features, weights, max_feature_norm, no_feature_cache)
    taken = read_own(records, label, text, class_names, classes, seed_data, taking)
    path = write_features(taken, out)
    typer.echo(f"{path} {len(taken.train_x)}+{len(taken.test_x)} x {taken.train_x.shape[1]}")


def taking_of(
    features: str, weights: Path | None, max_feature_norm: float, no_feature_cache: bool
) -> Taking:
    """Returns how features are taken."""
    return Taking(
        features=features, weights=weights, bound=max_feature_norm, keep=not no_feature_cache
    )


def read_own(
    records: Path,
    label: str | None,
    text: str | None,
    class_names: str | None,
    classes: int,
    seed: int,
    taking: Taking,
) -> Split:
    """Returns one owner's features, of its own file."""
    names = names_of(class_names)
    origin = Origin(columns=columns_of(label, text), names=names, seed=seed)
    with console.extracting() as show:
        return own_features(records, origin, len(names or ()) or classes, taking, show)
