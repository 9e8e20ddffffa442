"""Records of a `tf.data.Dataset`, read and checked where they lie, on their owner's device."""

import math
from typing import Any

import numpy as np
import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.layers.chain import Network
from extensions.privacy.sampling import OwnRecords
from extensions.ring.fixed_point import SAFE_BITS

import tf_encrypted as tfe

_PAIR = "a tf.data.Dataset of pairs (features, labels), of numbers and of known shapes"


def read(
    name: str,
    dataset: tf.data.Dataset,
    network: Network,
    *,
    frac_bits: int,
    max_feature_norm: float,
) -> OwnRecords:
    """Returns all records that the dataset gives, read once, checked and encoded by their owner.

    Features and labels are tensors on the owner's device. The dataset is of pairs (features,
    labels), each of one record, or of a batch of them; how they are batched and shuffled has no
    influence. It lies on the owner's device, where it was made under `tf.device`, or in this
    process.

    Guarantees:
        Of a dataset on its owner's device nothing leaves that device but the number of records, and
        whether a check failed in which row. No function is traced here: none takes records along as
        constants.
    """
    device = tfe.get_config().get_player(name).device_name
    place = _place_of(name, dataset, device)
    with tf.device(place):
        pair = _everything(name, _records_of(name, dataset, network))
    with tf.device(device):
        x, y = (tf.cast(tf.identity(column), tf.float64) for column in pair)
        features = tf.reshape(x, [-1, network.widths[0]])
        targets, of_range = _targets(name, y, len(features), network.widths[-1])
        encoded = _encode(features, frac_bits)
        squares = tf.reduce_sum(tf.square(tf.cast(encoded, tf.float64)), axis=1)
        slack = math.sqrt(network.widths[0]) * 2.0**-frac_bits
        largest = math.ldexp(max_feature_norm + slack, frac_bits) ** 2
        limit = 2.0 ** (SAFE_BITS - frac_bits)
        checks = {
            "NaN or infinity, or beyond the ring": tf.reduce_all(tf.abs(features) < limit, axis=1),
            f"longer than max_feature_norm = {max_feature_norm:g}": squares <= largest,
            f"labels beyond 0..{network.widths[-1] - 1}, or targets beyond [0, 1]": of_range,
        }
        for wrong, holds in checks.items():
            if not tf.reduce_all(holds):
                row = int(tf.argmin(tf.cast(holds, tf.int32)))
                place = f"row {row} of {name}'s dataset"
                raise ArgumentError("x", place, f"without {wrong}", code="data")
        labels = _encode(targets, frac_bits)
        return OwnRecords(features=encoded, labels=labels, frac_bits=frac_bits)


def _place_of(name: str, dataset: tf.data.Dataset, device: str) -> str:
    """Returns the device on which the dataset lies: its owner's, or one that is no player's."""
    variant = dataset._variant_tensor
    if not tf.is_tensor(variant) or not hasattr(variant, "backing_device"):
        given = f"a dataset of {name} made within a function"
        raise ArgumentError("x", given, "a dataset made outside of functions")
    place: str = variant.backing_device
    others = {player.device_name: player.name for player in tfe.get_config().players}
    if place != device and place in others:
        raise ArgumentError(
            "x",
            f"a dataset of {name} on the device of {others[place]}",
            f"a dataset on the device of {name}, or in this process",
            f'Make it under tf.device(tfe.get_config().get_player("{name}").device_name).',
        )
    return place


def _records_of(name: str, dataset: tf.data.Dataset, network: Network) -> tf.data.Dataset:
    spec, width = dataset.element_spec, network.widths[0]
    if _repeats(dataset):
        raise ArgumentError(
            "x",
            f"a dataset of {name} with repeat()",
            "a dataset that gives each record once",
            "A repeated record would count several times. Give {epochs} instead.",
        )
    if not isinstance(spec, tuple) or len(spec) != 2 or not all(map(_is_numeric, spec)):
        raise ArgumentError("x", f"{spec} of {name}", _PAIR, code="type")
    x, _ = shapes = [part.shape for part in spec]
    if _size(x) == width:
        return dataset
    if x.rank and _size(x[1:]) == width and all(shape.rank for shape in shapes):
        return dataset.unbatch()
    allowed = f"of {width} features, or batches of such"
    raise ArgumentError("x", f"elements of shape {x} of {name}", allowed, code="shape")


def _everything(name: str, dataset: tf.data.Dataset) -> Any:
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ArgumentError("x", f"a dataset without end of {name}", "a dataset that ends")
    whole = dataset.batch(np.iinfo(np.int64).max)
    try:
        return whole.get_single_element()
    except tf.errors.InvalidArgumentError as error:
        given, allowed = f"a dataset of {name}", "of at least one record, all of one shape"
        raise ArgumentError("x", given, allowed, code="shape") from error


def _targets(name: str, y: tf.Tensor, rows: int, classes: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns targets (rows, classes), and for each row whether its labels are in their range."""
    if classes > 1 and y.shape.num_elements() == rows:
        labels = tf.reshape(y, [-1])
        known = (labels >= 0) & (labels < classes) & (labels == tf.floor(labels))
        return tf.one_hot(tf.cast(labels, tf.int64), classes, dtype=tf.float64), known
    if y.shape.num_elements() != rows * classes:
        allowed = f"one label, or {classes} targets, a record"
        given = f"labels of shape {y.shape[1:]} of {name}"
        raise ArgumentError("y", given, allowed, code="shape")
    targets = tf.reshape(y, [-1, classes])
    return targets, tf.reduce_all((targets >= 0.0) & (targets <= 1.0), axis=1)


def _encode(reals: tf.Tensor, frac_bits: int) -> tf.Tensor:
    """As `extensions.ring.fixed_point.encode`."""
    return tf.cast(tf.round(reals * 2.0**frac_bits), tf.int64)


def _repeats(dataset: tf.data.Dataset) -> bool:
    """Whether the dataset, or one of which it is made, gives records more than once."""
    own = type(dataset).__name__.strip("_") == "RepeatDataset" and int(dataset._count) != 1
    return own or any(map(_repeats, dataset._inputs()))


def _is_numeric(spec: Any) -> bool:
    return isinstance(spec, tf.TensorSpec) and (
        spec.dtype.is_floating or spec.dtype.is_integer or spec.dtype.is_bool
    )


def _size(shape: tf.TensorShape) -> int | None:
    return shape.num_elements() if shape.rank is not None else None
