"""A data owner and the model's owner meet for a turn, over TLS, and watch each other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import crypten_ext
import extensions
from crypten_ext import pairwise
from crypten_ext.processes.joining import joined_by_tls
from crypten_ext.transport.group import current
from crypten_ext.transport.meeting import session
from extensions.errors import ArgumentError, PartyLostError
from extensions.protocols.agreement import Statement
from extensions.transport import Local

import crypten

_PAUSE = 0.5


def local_of(federation: Path, key: Path, rank: int) -> Local:
    """Returns this party's end of the federation of the two.

    Raises ArgumentError for files that are none, other than two parties, or another rank.
    """
    local = Local.read(federation, key)
    parties = len(local.federation.members)
    if (parties, local.rank) != (2, rank):
        given = f"party {local.rank} of {parties} in {federation}"
        role = ("the model's owner, the first", "a data owner, the second")[rank]
        raise ArgumentError("federation", given, f"one of two parties in which this is {role}")
    return local


@contextmanager
def met(local: Local, seconds: float) -> Iterator[None]:
    """In the block the two parties compute; the other one must have come within `seconds`.

    Raises:
        PartyLostError: it has not, or is lost later, which is found within a minute.
        RejectedError: another host and this one refused each other.
    """
    version = extensions.__version__
    manifest = Statement(run={"parties": 2, "what": "pencil", "pea-mpl": version})
    crypten_ext.enable()  # before both meet: keys are agreed on in the same order in every turn
    last = session()
    over = None if last is None else last.run
    deadline = time.monotonic() + seconds
    with ExitStack() as until_over:
        while True:
            left = max(0.0, deadline - time.monotonic())
            try:
                joined = joined_by_tls(local, manifest, left, over=over)
                until_over.enter_context(joined)
                break
            except PartyLostError:  # the door of the last turn may still be open
                if left <= _PAUSE:
                    raise
                time.sleep(_PAUSE)
        try:
            yield
        finally:
            pairwise.disconnect()
    crypten.uninit()


def carried() -> int:
    """Returns the bytes that this turn's connection has carried both ways, as the kernel counts."""
    mesh = current()
    assert mesh is not None
    return sum(mesh.carried(mesh.others))
