"""Where the rows of a step come from: from owners who sample in private, or from shares."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.layers.chain import Network
from extensions.privacy.sampling import OwnRecords, as_reals, capacity, check_records
from extensions.protocols.host import Batch
from extensions.ring.interface import NoiseSource
from tfe_ext.graphs.datasets import read
from tfe_ext.graphs.program import Kept, Turn
from tfe_ext.graphs.tables import RecordTable
from tfe_ext.ring.inputs import share_rows
from tfe_ext.ring.shares import Replicated
from tfe_ext.ring.variables import assign, in_variables, present
from tfe_ext.streams.randomness import Servers

import tf_encrypted as tfe


class OwnersRecords:
    """Records that lie in the clear with their owners, each on the owner's device.

    Attributes:
        tables: of records, by the owner's name in the configuration.
        number: how many times others took their place.
        kept: what was made of them last.
    """

    def __init__(self, servers: Servers, records: Mapping[str, OwnRecords]) -> None:
        self.servers, self.number, self.kept = servers, 0, Kept(1)
        config = tfe.get_config()
        self.tables = {
            name: RecordTable(config.get_player(name).device_name, own)
            for name, own in records.items()
        }

    def replace(self, records: Mapping[str, OwnRecords]) -> None:
        """Puts other records of the same shapes in their place."""
        self.number += 1
        for table, own in zip(self.tables.values(), records.values(), strict=True):
            table.replace(own)

    @property
    def sizes(self) -> list[int]:
        """Number of rows of each owner."""
        return [table.size for table in self.tables.values()]

    @property
    def size(self) -> int:
        """Number of records of all owners."""
        return sum(len(table) for table in self.tables.values())

    def rows(self, sample_rate: float, overflow_probability: float) -> list[int]:
        """Returns each owner's public number of rows, for one step with that overflow."""
        each = overflow_probability / len(self.tables)
        return [capacity(len(table), sample_rate, each) for table in self.tables.values()]

    def sample(self, rows: list[int], sample_rate: float, source: NoiseSource) -> Batch:
        """Returns a fresh sample of every owner's, padded, whenever the graph runs."""
        return self.shared(self.draw(rows, sample_rate, source))

    def draw(
        self, rows: list[int], sample_rate: float, source: NoiseSource
    ) -> list[list[tf.Tensor]]:
        """Returns what `RecordTable.draw` does of each owner, on its device."""
        tables = zip(self.tables.values(), rows, strict=True)
        return [
            table.draw(
                self.servers.private[table.device],
                party=party,
                sample_rate=sample_rate,
                rows=count,
                source=source,
            )
            for party, (table, count) in enumerate(tables)
        ]

    def shared(self, columns: Sequence[Sequence[tf.Tensor]]) -> Batch:
        """Returns the batch of all owners' rows, each owner's columns on its device.

        They are features, labels, squared norms and, unless all rows count, padding.
        """
        devices = (table.device for table in self.tables.values())
        x, y, *beside = share_rows(self.servers, zip(devices, columns, strict=True))
        norms, padding = [*beside, None][:2]
        return Batch(x, y, norms, padding)

    def everything(self) -> Batch:
        """Returns all records, in the order of owners."""
        return self.shared([table.everything() for table in self.tables.values()])

    def part(
        self,
        turn: Turn,
        starts: Sequence[int],
        sizes: Sequence[int],
        rows: Sequence[int] | None = None,
    ) -> Batch:
        """Returns so many records of each owner, in the order of owners.

        They begin as many such parts after the start as turns came before. With `rows` each owner's
        are padded to that number.
        """
        padded = [None] * len(self.tables) if rows is None else rows
        owners = zip(self.tables.values(), starts, sizes, padded, strict=True)
        return self.shared([own.part(turn[own.device], a, n, all_) for own, a, n, all_ in owners])


class SharedRecords:
    """Records that are shared already: each step takes all of them, as they were when given.

    The second of the shares are the `targets`; the third, if there are any, squared norms.
    """

    def __init__(self, shares: Sequence[Replicated]) -> None:
        self.size, self.targets = shares[0].shape[0], shares[1]
        self._shares = [in_variables(share) for share in shares]

    @property
    def sizes(self) -> list[int]:
        """Number of rows, of all owners together."""
        return [self.size]

    def replace(self, shares: Sequence[Replicated]) -> None:
        """Puts other records of the same shapes in their place."""
        self.targets = shares[1]
        for variables, share in zip(self._shares, shares, strict=True):
            assign(variables, share)

    def rows(self, sample_rate: float, overflow_probability: float) -> list[int]:
        """Returns the number of rows, at rate 1 only: who holds shares cannot sample in private."""
        if sample_rate != 1.0:
            raise ArgumentError(
                "x",
                "a private tensor",
                "a dictionary of each owner's records, because sample_rate is below 1",
                "Each owner draws its sample before it shares records.",
            )
        return [self.size]

    def sample(self, rows: list[int], sample_rate: float, source: NoiseSource) -> Batch:
        """Returns all records."""
        return self.everything()

    def everything(self) -> Batch:
        """Returns all records."""
        x, y, *norms = map(present, self._shares)
        return Batch(x, y, norms[0] if norms else None, None)


Records = OwnersRecords | SharedRecords


def check_shared(x: Replicated, y: Replicated, network: Network) -> tuple[Replicated, Replicated]:
    """Returns shares of features, (records, features), and targets, (records, classes).

    Further axes of features are flattened. Norms and ranges of targets are not checked.
    """
    rows = x.shape[0] if x.shape else 0
    flat = x.reshape(rows, -1)
    for name, share, width in (("x", flat, network.widths[0]), ("y", y, network.widths[-1])):
        if rows == 0 or share.shape != (rows, width):
            raise ArgumentError(name, share.shape, f"({rows or 'rows'}, {width})", code="shape")
    return flat, y


def pair_of(data: Any) -> tuple[Any, Any]:
    """Returns features and labels of (x, y), or of x alone, which has both."""
    if isinstance(data, tuple) and len(data) == 2:
        return data
    return data, None


def check_owners(
    x: Any, y: Any, network: Network, *, frac_bits: int, max_feature_norm: float
) -> dict[str, OwnRecords]:
    """Returns each owner's records by name, checked and encoded, before anything is shared.

    Features are (records, ...), flattened, or a `tf.data.Dataset` of features and labels
    (`tfe_ext.graphs.datasets.read`). Labels are (records,) or (records, classes), of all owners
    without a dataset; None if there are none.
    """
    y = {} if y is None else y
    if not isinstance(x, Mapping) or not isinstance(y, Mapping) or not x:
        raise ArgumentError(
            "x, y",
            f"{type(x).__name__}, {type(y).__name__}",
            "dictionaries of each owner's records by its name",
            'For records of the first server: x={"server0": features}, y={"server0": labels}, or '
            'x={"server0": dataset}.',
            code="type",
        )
    labelled = [name for name in x if not isinstance(x[name], tf.data.Dataset)]
    if labelled != list(y):
        raise ArgumentError("y", f"of {sorted(y)}", f"of the same owners, {sorted(labelled)}")
    check_players("x", x)
    options: dict[str, Any] = {"frac_bits": frac_bits, "max_feature_norm": max_feature_norm}
    checked: dict[str, OwnRecords] = {}
    for name in x:
        if name in labelled:
            checked[name] = _check_arrays(name, x[name], y[name], network, **options)
        else:
            checked[name] = read(name, x[name], network, **options)
    return checked


def check_players(argument: str, owners: Iterable[str]) -> None:
    """Raises ArgumentError unless all owners are players of the configuration."""
    players = [player.name for player in tfe.get_config().players]
    for name in owners:
        if name not in players:
            allowed = f"a dataset of one of the players {', '.join(players)}"
            raise ArgumentError(argument, f"of {name}", allowed, code="choice")


def _check_arrays(
    name: str, x: Any, y: Any, network: Network, *, frac_bits: int, max_feature_norm: float
) -> OwnRecords:
    try:
        features, labels = as_reals("x", x), as_reals("y", y)
        own = check_records(
            features.reshape(len(features), -1) if features.ndim > 2 else features,
            labels,
            frac_bits=frac_bits,
            classes=network.widths[-1],
            max_feature_norm=max_feature_norm,
        )
    except ArgumentError as error:
        error.add_note(f"These are the records of {name}.")
        raise
    if own.features.shape[1] != network.widths[0]:
        given = f"{own.features.shape[1]} features at {name}"
        allowed = f"{network.widths[0]}, as in the model's first layer"
        raise ArgumentError("x", given, allowed, code="shape")
    return own
