"""What a client does alone: some epochs of SGD, in this process or one of several."""

import copy
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from extensions.checks import check_positive
from extensions.errors import ArgumentError, WorkerLostError
from fl.training.weights import Weights, get_weights, set_weights

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class LocalSGD:
    """ClientUpdate of federated averaging.

    Attributes:
        epochs: passes over the client's records.
        batch_size: records a step, the last of an epoch perhaps fewer; None: all in one step.
        lr: learning rate.
        loss: of outputs and labels.

    Source:
        McMahan et al., AISTATS 2017, Algorithm 1.
    """

    epochs: int
    batch_size: int | None
    lr: float
    loss: Loss

    def __post_init__(self) -> None:
        for name, value in (("local_epochs", self.epochs), ("batch_size", self.batch_size)):
            if value is not None and value < 1:
                raise ArgumentError(name, value, "at least 1")
        check_positive("lr", self.lr)

    def train(self, model: nn.Module, x: Tensor, y: Tensor, seed: int) -> None:
        """Trains the model in place; the result is a function of the arguments alone.

        On one thread, so that it is the same in every process; torch's own generator is left as
        it was.
        """
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(seed)
                self._train(model, x, y)
        finally:
            torch.set_num_threads(threads)

    def _train(self, model: nn.Module, x: Tensor, y: Tensor) -> None:
        # Not torch.optim.SGD: the first optimizer of a process imports torch's compiler, for 2 s.
        model.train()
        parameters = list(model.parameters())
        for _ in range(self.epochs):
            whole = self.batch_size is None or self.batch_size >= len(x)
            order = torch.arange(len(x)) if whole else torch.randperm(len(x))
            for batch in torch.split(order, self.batch_size or len(x)):
                model.zero_grad()
                self.loss(model(x[batch]), y[batch]).backward()  # type: ignore[no-untyped-call]
                with torch.no_grad():
                    for parameter in parameters:
                        if parameter.grad is not None:
                            parameter.add_(parameter.grad, alpha=-self.lr)


def training_seed(seed: int, number: int, client: int) -> int:
    """Returns the seed of one client's training in one round of a run."""
    state = np.random.SeedSequence([seed, number, client]).generate_state(1, np.uint64)
    return int(state[0]) >> 1


class Trainer:
    """Trains clients of one round side by side; the results do not depend on how many at once.

    Args:
        model: its structure.
        sgd: what a client does.
        workers: number of processes; 1 trains in this one. More need a script whose main part
            stands under ``if __name__ == "__main__":``, as Python's processes ask for.
        statistics: whether running statistics are part of the weights.

    Raises:
        ArgumentError: fewer than one worker, or a model or loss that cannot be pickled.
    """

    def __init__(
        self, model: nn.Module, sgd: LocalSGD, workers: int, *, statistics: bool = True
    ) -> None:
        if workers < 1:
            raise ArgumentError("workers", workers, "at least 1")
        self._pool: ProcessPoolExecutor | None = None
        self._task = _Task(model, sgd, statistics)
        if workers > 1:
            self._pool = ProcessPoolExecutor(
                workers,
                _context(),
                initializer=_begin,
                initargs=(_pickled(self._task),),
            )

    def train(
        self,
        weights: Weights,
        records: Mapping[int, tuple[Tensor, Tensor]],
        seeds: Mapping[int, int],
    ) -> dict[int, Weights]:
        """Returns each client's weights after its training.

        Raises:
            WorkerLostError: a process died.
        """
        if self._pool is None:
            return {k: self._task.run(weights, x, y, seeds[k]) for k, (x, y) in records.items()}
        try:
            futures = {
                client: self._pool.submit(_work, weights, x.numpy(), y.numpy(), seeds[client])
                for client, (x, y) in records.items()
            }
            return {client: future.result() for client, future in futures.items()}
        except BrokenProcessPool as error:
            raise WorkerLostError("died while clients were trained") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _context() -> BaseContext:
    """Returns how workers start: where it can be, as copies of one process that imported torch."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


class _Task:
    def __init__(self, model: nn.Module, sgd: LocalSGD, statistics: bool) -> None:
        self.model = model
        self.sgd = sgd
        self.statistics = statistics

    def run(self, weights: Weights, x: Tensor, y: Tensor, seed: int) -> Weights:
        model = copy.deepcopy(self.model)
        set_weights(model, weights, statistics=self.statistics)
        self.sgd.train(model, x, y, seed)
        return get_weights(model, statistics=self.statistics)


def _pickled(task: _Task) -> bytes:
    try:
        return pickle.dumps(task)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ArgumentError(
            "model, loss",
            type(task.model).__name__,
            "picklable where workers are several",
            f"Define them at the top of a module, or take workers=1. {error}",
        ) from error


_task: _Task | None = None


def _begin(pickled: bytes) -> None:
    """Makes the task ready in a worker, which does not outlive the process that started it.

    An interruption from the keyboard is for that process to deal with.
    """
    global _task
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    _task = pickle.loads(pickled)


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _work(weights: Weights, x: Any, y: Any, seed: int) -> Weights:
    assert _task is not None
    return _task.run(weights, torch.from_numpy(x), torch.from_numpy(y), seed)
