"""Which of two ways of computing ChaCha20 a session uses; both give the same words."""

import logging
import os
from collections.abc import Sequence

import tensorflow as tf

from extensions.errors import ArgumentError
from tfe_ext.streams import chacha, native
from tfe_ext.streams.chacha import KeystreamOn
from tfe_ext.streams.devices import HERE

VARIABLE = "TFE_EXT_RANDOMNESS"
DEFAULT = "auto"
_NAMES = ("auto", "portable", "native")
_logger = logging.getLogger("tfe_ext")


def choose(name: str | None, devices: Sequence[str]) -> KeystreamOn:
    """Returns what computes ChaCha20 on a device of this session.

    Args:
        name: "portable", which needs nothing; "native", a compiled operation that is built when it
            is first asked for; "auto", that one if it can be had on all devices, and otherwise the
            portable one, with a warning that says why. None takes the environment variable
            TFE_EXT_RANDOMNESS, or else "auto": measured at 3 to 5 times the speed on the host's
            ``inv_sqrt`` of 1 to 4,096 values.
        devices: the servers, each of which must know the operation. Players in processes of their
            own do unless they were started with TFE_EXT_RANDOMNESS=portable or have no compiler.

    Raises:
        ArgumentError: another name.
        NativeError: "native", and it cannot be had here, or not on all devices.
    """
    given = name or os.environ.get(VARIABLE) or DEFAULT
    if given not in _NAMES:
        raise ArgumentError("randomness" if name else VARIABLE, given, f"one of {_NAMES}")
    if given == "portable":
        return chacha.keystream_on
    try:
        for device in devices:
            _check(device)
    except native.NativeError as error:
        if given == "native":
            raise
        _warn(str(error))
        return chacha.keystream_on
    return native.keystream_on


def load_for_players() -> None:
    """Builds and loads the compiled operation, unless the environment says no.

    Raises:
        NativeError: TFE_EXT_RANDOMNESS is "native", and it cannot be had.
    """
    choose(None, [HERE])


def _check(device: str) -> None:
    """Checks that the operation runs on the device and gives the portable one's words."""
    key, nonce = tf.range(8), tf.range(3)
    with tf.init_scope():
        arguments = (tf.cast(key, tf.uint32), tf.cast(nonce, tf.uint32), tf.constant(3))
        expected = chacha.keystream_on(device)(*arguments).numpy()
        try:
            words = native.keystream_on(device)(*arguments).numpy()
        except tf.errors.OpError as error:
            raise native.NativeError(
                f"{device} does not know it ({error.message.splitlines()[0]}). Start that player "
                f"with {VARIABLE}=native in its environment to see why"
            ) from None
    if (words != expected).any():
        raise native.NativeError(f"it computes wrong words on {device}")


_warned: set[str] = set()


def _warn(why: str) -> None:
    if why not in _warned:
        _warned.add(why)
        _logger.warning("The compiled ChaCha20 is not used, the portable one is: %s", why)
