"""The store at which the processes of torch's process group met."""

from __future__ import annotations

from typing import Any


def default_store() -> tuple[Any, int | None]:
    """Returns the store, and the TCP port at which one of the processes serves it; None of a file.

    The process group must be initialised.
    """
    from torch._C._distributed_c10d import PrefixStore, TCPStore
    from torch.distributed.distributed_c10d import _get_default_store

    store: Any = _get_default_store()
    base = store
    while isinstance(base, PrefixStore):
        base = base.underlying_store
    return store, int(base.port) if isinstance(base, TCPStore) else None
