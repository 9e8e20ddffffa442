"""What TF Encrypted says, put right: of native operations that are missing, of unknown names."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from extensions.errors import ArgumentError, UnsupportedVersionError
from extensions.rules import one_of

USED = "tfe_ext.ABY3 draws its masks from ChaCha20, under keys of the operating system."
MISSING = (
    "TF Encrypted's own ABY3, Pond and SecureNN draw from a native operation that exists for "
    "TensorFlow 2.9.1 only: they import here, and can share nothing."
)
_SAYINGS = ("Falling back to insecure randomness", "Could not find ")
_logger = logging.getLogger("tfe_ext")


@contextmanager
def said_once() -> Iterator[None]:
    """Lets TF Encrypted be imported inside the block, with one line in place of its four.

    It looks for four libraries of native operations, and says of two that randomness would be
    insecure without them. `tfe_ext.ABY3` uses none of them.
    """
    taken: list[logging.LogRecord] = []

    def others(record: logging.LogRecord) -> bool:
        """Whether the record is about something else."""
        if not str(record.msg).startswith(_SAYINGS):
            return True
        taken.append(record)
        return False

    logger = logging.getLogger("tf_encrypted")
    logger.addFilter(others)
    try:
        yield
    finally:
        logger.removeFilter(others)
    if taken:
        _logger.warning("%s %s", USED, MISSING)


def name_missing_operation(random: Any) -> None:
    """Lets sharing with a protocol of the host raise an error that says what to do."""
    if not random.supports_secure_randomness():
        for name in ("secure_seed", "random_uniform", "seeded_random_uniform"):
            setattr(random, name, _refuse)


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise UnsupportedVersionError(f"{MISSING} Type: tfe.set_protocol(tfe_ext.ABY3())")


def name_unknown_activation(activations: Any) -> None:
    """Lets the name of no activation raise an error that says which names there are."""
    host_get = activations.get
    if getattr(host_get, "names_unknown", False):
        return

    def get(identifier: Any) -> Any:
        try:
            found = host_get(identifier)
        except (KeyError, TypeError):
            found = None
        if found is None:
            raise ArgumentError("activation", identifier, one_of((None, "relu", "sigmoid", "tanh")))
        return found

    vars(get)["names_unknown"] = True
    activations.get = get
