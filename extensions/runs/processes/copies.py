"""The programme of a template: it imports modules, then forks the copies that it is asked for.

Run as ``python -m extensions.runs.processes.copies MODULE... ORDERS_FD`` by
`extensions.runs.processes.starting.Template`.
"""

import gc
import importlib
import os
import sys
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle
from typing import cast

import numpy as np

from extensions.runs.processes.starting import die_with

_Children = dict[int, tuple[int, Connection]]
"""Process id, and where its end is told, by the descriptor that is ready when it has ended."""


def seed_anew() -> None:
    """In a copy, generators that are drawn from by default begin anew; Python's does by itself."""
    np.random.seed()
    if (torch := sys.modules.get("torch")) is not None:
        torch.seed()


def _begin(orders: Connection, children: _Children, template: int) -> str | None:
    """Forks one copy as ordered; returns, in the copy alone, which module it runs."""
    module, arguments, changes, without, inherited, places = orders.recv()
    first, *descriptors = [recv_handle(orders) for _ in range(1 + inherited + len(places))]
    told = Connection(first, readable=False)
    if pid := os.fork():
        children[os.pidfd_open(pid)] = pid, told
        for descriptor in descriptors:
            os.close(descriptor)
        return None
    die_with(template)
    os.setsid()
    told.send((os.getpid(), None))  # nobody hears of a copy that could outlive the template
    for watched, (_, sibling) in children.items():
        os.close(watched)
        sibling.close()
    orders.close()
    told.close()
    for place, output in zip(places, descriptors[inherited:], strict=True):
        os.dup2(output, place)
    for output in {*descriptors[inherited:]}:
        os.close(output)
    os.environ.update(changes)
    for name in without:
        del os.environ[name]
    seed_anew()
    sys.argv[1:] = [*arguments, *map(str, descriptors[:inherited])]
    return cast(str, module)


def _serve(orders: Connection) -> str | None:
    """Returns what this process is to run if it is a copy, None when the launcher is gone."""
    children: _Children = {}
    template = os.getpid()
    with suppress(EOFError, ConnectionError):
        while True:
            for ready in wait([orders, *children]):
                if ready is orders:
                    if (module := _begin(orders, children, template)) is not None:
                        return module
                else:
                    pid, told = children.pop(watched := cast(int, ready))
                    os.close(watched)
                    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    with told, suppress(BrokenPipeError):
                        told.send((pid, status))
    return None


def main() -> None:
    """The template serves until its launcher is gone; a copy goes on as the module it is to run."""
    orders = Connection(int(sys.argv.pop()))
    for module in sys.argv[1:]:
        with suppress(ImportError):
            importlib.import_module(module)
    gc.freeze()
    if (programme := _serve(orders)) is not None:
        importlib.import_module(programme).main()


if __name__ == "__main__":
    main()
