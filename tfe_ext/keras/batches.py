"""Where the rows of a step come from: from owners who sample in private, or from shares."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError
from extensions.network.chain import Network
from extensions.privacy.sampling import OwnRecords, capacity, check_records
from extensions.protocols.host import Batch
from extensions.ring.interface import NoiseSource
from tfe_ext.keras.records import RecordTable
from tfe_ext.ring.inputs import share_from
from tfe_ext.ring.placed import concatenate
from tfe_ext.ring.servers import Servers
from tfe_ext.ring.shares import Replicated
from tfe_ext.ring.variables import ShareVariable

import tf_encrypted as tfe


class OwnersRecords:
    """Records that lie in the clear with their owners, each on the owner's device.

    Args:
        servers: who get shares of them.
        records: by the owner's name in the configuration.
    """

    def __init__(self, servers: Servers, records: Mapping[str, OwnRecords]) -> None:
        self._servers = servers
        config = tfe.get_config()
        self._owners = [config.get_player(name).device_name for name in records]
        self._tables = [
            RecordTable(owner, own)
            for owner, own in zip(self._owners, records.values(), strict=True)
        ]
        self.shapes = shapes_of(records)

    def replace(self, records: Mapping[str, OwnRecords]) -> None:
        """Puts other records of the same shapes in their place."""
        for table, own in zip(self._tables, records.values(), strict=True):
            table.replace(own)

    @property
    def size(self) -> int:
        """Number of records of all owners."""
        return sum(len(table) for table in self._tables)

    def rows(self, sample_rate: float, overflow_probability: float) -> list[int]:
        """Returns each owner's public number of rows, for one step with that overflow."""
        each = overflow_probability / len(self._tables)
        return [capacity(len(table), sample_rate, each) for table in self._tables]

    def sample(self, rows: list[int], sample_rate: float, source: NoiseSource) -> Batch:
        """Returns a fresh sample of every owner's, padded, whenever the graph runs."""
        shared = []
        tables = zip(self._owners, self._tables, rows, strict=True)
        for party, (owner, table, count) in enumerate(tables):
            drawn = table.draw(
                self._servers.private[owner],
                party=party,
                sample_rate=sample_rate,
                rows=count,
                source=source,
            )
            shared.append(share_from(self._servers, drawn, owner))
        return Batch(*(concatenate(column) for column in zip(*shared, strict=True)))

    def everything(self) -> Batch:
        """Returns all records, in the order of owners."""
        pairs = zip(self._owners, self._tables, strict=True)
        shared = [share_from(self._servers, table.everything(), owner) for owner, table in pairs]
        x, y, norms = (concatenate(column) for column in zip(*shared, strict=True))
        return Batch(x, y, norms, None)


class SharedRecords:
    """Records that are shared already: each step takes all of them, as they were when given.

    Args:
        shares: what `check_shared` returned.
    """

    def __init__(self, shares: tuple[Replicated, Replicated]) -> None:
        x, y = shares
        self.size = x.shape[0]
        self._x, self._y = ShareVariable(x), ShareVariable(y)

    def replace(self, shares: tuple[Replicated, Replicated]) -> None:
        """Puts other records of the same shapes in their place."""
        x, y = shares
        self._x.assign(x)
        self._y.assign(y)

    def rows(self, sample_rate: float, overflow_probability: float) -> list[int]:
        """Returns the number of rows.

        Raises:
            ArgumentError: the rate is not 1; who holds shares only cannot sample in private.
        """
        if sample_rate != 1.0:
            raise ArgumentError(
                "x",
                "a private tensor",
                "each owner's records, by name, for a sample_rate below 1",
                "The owner of a record draws its sample before it is shared.",
            )
        return [self.size]

    def sample(self, rows: list[int], sample_rate: float, source: NoiseSource) -> Batch:
        """Returns all records."""
        return self.everything()

    def everything(self) -> Batch:
        """Returns all records."""
        return Batch(self._x.read(), self._y.read(), None, None)


Records = OwnersRecords | SharedRecords


def check_shared(x: Replicated, y: Replicated, network: Network) -> tuple[Replicated, Replicated]:
    """Returns shares of features, (records, features), and targets, (records, classes).

    Args:
        x: of the features; further axes are flattened. That no row is longer than declared is not
            checked.
        y: of the targets; that they are in [0, 1] is not checked.
        network: of the model.

    Raises:
        ArgumentError: other shapes.
    """
    rows = x.shape[0] if x.shape else 0
    flat = x.reshape(rows, -1)
    for name, share, width in (("x", flat, network.widths[0]), ("y", y, network.widths[-1])):
        if rows == 0 or share.shape != (rows, width):
            raise ArgumentError(name, share.shape, f"({rows or 'rows'}, {width})")
    return flat, y


def check_owners(
    x: Any, y: Any, network: Network, *, frac_bits: int, max_feature_norm: float
) -> dict[str, OwnRecords]:
    """Returns each owner's records, checked and encoded, before anything is shared.

    Args:
        x: features by the owner's name, (records, ...); the further axes are flattened.
        y: labels by the owner's name, (records,) or (records, classes).
        network: of the model.
        frac_bits: of the protocol.
        max_feature_norm: public bound of the Euclidean norm of a record's features.

    Raises:
        ArgumentError: what is wrong, and whose records they are.
    """
    if not isinstance(x, Mapping) or not isinstance(y, Mapping) or not x:
        raise ArgumentError(
            "x, y",
            f"{type(x).__name__}, {type(y).__name__}",
            "dictionaries of each owner's records by its name",
            'For records of the first server: x={"server0": features}, y={"server0": labels}.',
        )
    if list(x) != list(y):
        raise ArgumentError("y", f"of {sorted(y)}", f"of the same owners, {sorted(x)}")
    classes = network.widths[-1]
    players = [player.name for player in tfe.get_config().players]
    checked = {}
    for name in x:
        if name not in players:
            raise ArgumentError("x", f"of {name}", f"of players, {', '.join(players)}")
        features, labels = _as_arrays(name, x[name], y[name])
        if features.ndim > 2:
            features = features.reshape(len(features), -1)
        if classes == 1 and labels.ndim == 1:
            labels = labels[:, None]
        try:
            own = check_records(
                features,
                labels,
                frac_bits=frac_bits,
                classes=classes,
                max_feature_norm=max_feature_norm,
            )
        except ArgumentError as error:
            error.add_note(f"These are the records of {name}.")
            raise
        if own.features.shape[1] != network.widths[0]:
            raise ArgumentError(
                "x",
                f"{own.features.shape[1]} features at {name}",
                f"{network.widths[0]}, as in the model's first layer",
            )
        checked[name] = own
    return checked


def _as_arrays(
    name: str, x: Any, y: Any
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.generic]]:
    """Returns an owner's features and labels as arrays of numbers."""
    try:
        features, labels = np.asarray(x, dtype=np.float64), np.asarray(y)
        labels.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            "x, y",
            f"{type(x).__name__}, {type(y).__name__} of {name}",
            "arrays of numbers in the clear, which are shared from their owner's device",
        ) from error
    return features, labels


def shapes_of(records: Mapping[str, OwnRecords]) -> tuple[tuple[str, int], ...]:
    """Returns what a traced step depends on."""
    return tuple((name, len(own)) for name, own in records.items())
