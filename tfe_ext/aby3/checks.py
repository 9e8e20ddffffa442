"""What the hardened ABY3 refuses before anything is shared."""

from typing import Any

import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.rules import Whole
from tfe_ext.streams.randomness import TYPES

import tf_encrypted as tfe
from tf_encrypted.tensor import factories
from tf_encrypted.tensor.fixed import FixedpointConfig

_WIDTHS = {
    "nbits": Whole(64, 64, "64"),
    "scaling_base": Whole(2, 2, "2"),
    "precision_fractional": Whole(0, 30, "from 0 to 30, because a product of two ones must fit"),
}


def check_widths(config: FixedpointConfig) -> None:
    """Checks that the protocol can compute with the encoding."""
    for name, rule in _WIDTHS.items():
        rule.check(f"fixedpoint_config.{name}", getattr(config, name))


def check_servers(*names: Any) -> None:
    """Checks that the servers are three players of the present configuration."""
    config = tfe.get_config()
    players = [config.get_player(name) for name in names]
    if None in players or len({player.name for player in players}) < 3:
        raise ArgumentError(
            "server_0, server_1, server_2",
            [getattr(name, "name", name) for name in names],
            "three distinct players of the configuration",
            "Call tfe.set_config(...) first.",
        )


def native_type(factory: Any) -> tf.DType:
    """Returns TensorFlow's type of the words that one of TF Encrypted's own factories makes."""
    for dtype in TYPES:
        if factory is factories[dtype]:
            return dtype
    raise ArgumentError("factory", factory, "that of bool, or of 8, 16, 32 or 64 bits")
