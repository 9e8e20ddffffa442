"""Processes that share the blocks of a list."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain, islice
from queue import SimpleQueue
from typing import Any

from extensions.errors import WorkerLostError
from extensions.runs.processes import Program

Task = Callable[[bytes], bytes]
"""Takes a block; it is pickled for other processes."""


class Workers(ExitStack):
    """Does the same with one block after the other, several at once, until the `with` block ends.

    Args:
        processes: how many; with 1, or for a single block, this process does it.
    """

    def __init__(self, processes: int) -> None:
        super().__init__()
        self._processes = processes
        self._idle: SimpleQueue[Program] = SimpleQueue()
        self._threads: ThreadPoolExecutor | None = None
        self._lost: WorkerLostError | None = None

    def each(self, task: Task, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yields what a task returns for each block, in turn; what it raises is raised.

        Raises:
            WorkerLostError: a process died.
        """
        blocks = iter(blocks)
        first = [*islice(blocks, 2)]
        if self._processes == 1 or len(first) < 2:
            yield from map(task, chain(first, blocks))
            return
        waiting = deque[Future[bytes]]()
        for block in chain(first, blocks):
            waiting.append(self._begun().submit(self._done, task, block))
            if len(waiting) > 2 * self._processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _begun(self) -> ThreadPoolExecutor:
        if self._threads is None:
            for _ in range(self._processes):
                self._idle.put(self.enter_context(Program(os.environ, WorkerLostError)))
            self._threads = ThreadPoolExecutor(self._processes)
            self.callback(self._threads.shutdown, cancel_futures=True)
        return self._threads

    def _done(self, task: Task, block: bytes) -> bytes:
        program, told = self._idle.get(), {"task": task, "block": block}
        try:
            if self._lost is not None:
                raise self._lost
            found: bytes = program.call(
                f"{__name__}:do_block", told, timeout=math.inf, on_event=lambda _: None
            )
            return found
        except WorkerLostError as error:
            self._lost = error  # its program answers nobody any more
            raise
        finally:
            self._idle.put(program)


def do_block(_: Any, task: Task, block: bytes) -> bytes:
    """Returns what the task returns, in a process of its own."""
    return task(block)
