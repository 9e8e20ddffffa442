"""Which of two ways of computing ChaCha20 each device uses; both give the same words."""

import functools
import logging
import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from extensions.rules import one_of
from tfe_ext.streams import chacha, native
from tfe_ext.streams.chacha import Keystream, KeystreamOn
from tfe_ext.streams.devices import HERE, player_at

VARIABLE = "TFE_EXT_RANDOMNESS"
_NAMES = ("auto", "portable", "native")
_logger = logging.getLogger("tfe_ext")


def choose(name: str | None, devices: Sequence[str]) -> KeystreamOn:
    """Returns what computes ChaCha20 on a device of this session.

    Args:
        name: "portable", which needs nothing; "native", a compiled operation that is built when it
            is first asked for; "auto", that one on every device that has it, and the portable one
            on the others, with a warning. None takes the environment variable TFE_EXT_RANDOMNESS,
            or else "auto": measured at 3 to 5 times the speed on the host's ``inv_sqrt`` of 1 to
            4,096 values.
        devices: the servers, which are tried now; any other device is when it first draws. Players
            in processes of their own have the operation unless they were started with
            TFE_EXT_RANDOMNESS=portable or have no compiler.

    Raises:
        ArgumentError: another name.
        NativeError: "native", and a device cannot have it; the result raises it for later devices.
    """
    given = name or os.environ.get(VARIABLE) or "auto"
    one_of(_NAMES).check("randomness" if name else VARIABLE, given)
    if given == "portable":
        return chacha.keystream_on
    try:
        native.load()
    except native.NativeError as error:
        if given == "native":
            raise
        _warn(f"The compiled ChaCha20 is not used, the portable one is: {error}")
        return chacha.keystream_on
    chosen = _PerDevice(demanded=given == "native")
    for device in devices:
        chosen.decide(device)
    chosen.tell()
    return chosen


def load_for_players() -> None:
    """Builds and loads the compiled operation, unless the environment says no.

    Raises NativeError if TFE_EXT_RANDOMNESS is "native" and the operation cannot be had.
    """
    choose(None, [HERE])


class _PerDevice:
    """The compiled operation on each device that has it; elsewhere the portable one or an error."""

    def __init__(self, *, demanded: bool) -> None:
        self._demanded = demanded
        self._compiled: dict[str, bool] = {}
        self._why = ""

    def __call__(self, device: str) -> Keystream:
        if device not in self._compiled:
            self.decide(device)
            self.tell()
        on = native.keystream_on if self._compiled[device] else chacha.keystream_on
        return on(device)

    def decide(self, device: str) -> None:
        """Finds out what the device has."""
        try:
            _check(device)
            self._compiled[device] = True
        except native.NativeError as error:
            if self._demanded:
                raise
            self._compiled[device] = False
            self._why = str(error)

    def tell(self) -> None:
        """Warns once of devices that have the portable one, and says which have what."""
        if self._why:
            names = {
                has: ", ".join(player_at(on) for on, own in self._compiled.items() if own is has)
                for has in (True, False)
            }
            _warn(
                f"ChaCha20 is compiled on {names[True] or 'no device'} and portable, which is "
                f"slower, on {names[False]}: {self._why}"
            )


def _check(device: str) -> None:
    """Checks that the operation runs on the device and gives the portable one's words."""
    with tf.init_scope():
        try:
            words = native.keystream_on(device)(*_trial()).numpy()
        except tf.errors.NotFoundError as error:
            raise native.NativeError(
                f"{player_at(device)} does not know it ({error.message.splitlines()[0]}). Start "
                f"that player with {VARIABLE}=native in its environment to see why"
            ) from None
    if (words != _expected()).any():
        raise native.NativeError(f"it computes wrong words on {player_at(device)}")


def _trial() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    key, nonce = (tf.constant(range(size), tf.uint32) for size in (8, 3))
    return key, nonce, tf.constant(3)


@functools.cache
def _expected() -> npt.NDArray[np.uint32]:
    with tf.init_scope(), tf.device(HERE):
        words: npt.NDArray[np.uint32] = chacha.keystream_on(HERE)(*_trial()).numpy()
    return words


_warned: set[str] = set()


def _warn(what: str) -> None:
    if what not in _warned:
        _warned.add(what)
        _logger.warning("%s", what)
