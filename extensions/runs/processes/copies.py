"""The programme of a template: it imports modules, then forks the copies that it is asked for.

Run as ``python -m extensions.runs.processes.copies MODULE... ORDERS_FD`` by
`extensions.runs.processes.template`.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import sys
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle
from typing import cast

import numpy as np

from extensions.runs.processes.lifetime import die_with


def seed_anew() -> None:
    """In a copy, generators that are drawn from by default begin anew; Python's does by itself."""
    np.random.seed()
    if (torch := sys.modules.get("torch")) is not None:
        torch.seed()


def _begin(
    orders: Connection, children: dict[int, int], template: int
) -> tuple[str, list[str]] | None:
    """Forks one copy as ordered; returns, in the copy alone, its module and arguments."""
    module, arguments, changes, without, inherited, handles = pickle.loads(orders.recv_bytes())
    descriptors = [recv_handle(orders) for _ in range(handles)]
    bound, binds = os.pipe()
    if pid := os.fork():
        children[os.pidfd_open(pid)] = pid
        for descriptor in [*descriptors, binds]:
            os.close(descriptor)
        os.read(bound, 1)  # nobody hears of a copy that could outlive this process
        os.close(bound)
        orders.send_bytes(pickle.dumps((pid, None)))
        return None
    die_with(template)
    os.setsid()
    for descriptor in (bound, binds):
        os.close(descriptor)
    orders.close()
    for watched in children:
        os.close(watched)
    for output in descriptors[inherited:]:
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
    os.environ.update(changes)
    for name in without:
        del os.environ[name]
    seed_anew()
    return module, [*arguments, *map(str, descriptors[:inherited])]


def _serve(orders: Connection) -> tuple[str, list[str]] | None:
    """Returns what this process is to run if it is a copy, None when the launcher is gone."""
    children: dict[int, int] = {}
    template = os.getpid()
    with suppress(EOFError, ConnectionError):
        while True:
            for ready in wait([orders, *children]):
                if ready is orders:
                    if (programme := _begin(orders, children, template)) is not None:
                        return programme
                else:
                    pid = children.pop(watched := cast(int, ready))
                    os.close(watched)
                    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    orders.send_bytes(pickle.dumps((pid, status)))
    return None


def main() -> None:
    """The template serves until its launcher is gone; a copy goes on as the module it is to run."""
    orders = Connection(int(sys.argv.pop()))
    for module in sys.argv[1:]:
        with suppress(ImportError):
            importlib.import_module(module)
    gc.freeze()
    if (programme := _serve(orders)) is not None:
        module, arguments = programme
        sys.argv[1:] = arguments
        importlib.import_module(module).main()


if __name__ == "__main__":
    main()
