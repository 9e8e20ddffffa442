"""Runs side by side, in processes of their own."""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from typing import Any, TypeVar

import torch

from extensions.cli import console

Result = TypeVar("Result")


def side_by_side(
    act: Callable[..., Result], jobs: Sequence[tuple[Any, ...]], workers: int
) -> list[Result]:
    """Returns what each job, arguments of a run, gives, in their order; shows how many are done.

    Workers above 1 are processes, each on one thread.
    """
    pool: Executor = ThreadPoolExecutor(1)
    if workers > 1:
        spawn = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(workers, spawn, torch.set_num_threads, (1,))
    try:
        with console.counted("run") as show:
            futures = [pool.submit(act, *job) for job in jobs]
            show(0, len(futures))
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                show(done, len(futures))
        return [future.result() for future in futures]
    finally:
        pool.shutdown(cancel_futures=True)
