"""Trains the clients of a round, in this process or in several."""

import copy
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from logging import getLogger
from multiprocessing.context import BaseContext
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from extensions.errors import ArgumentError, UpdateError, WorkerLostError
from extensions.rules import Whole
from fl.clients import ClientRound, ClientTraining, seed_generators
from fl.training.weights import Weights, device_of, get_weights, set_weights

LOG = getLogger(__name__)


@dataclass(frozen=True)
class _Failed:
    """A training that raised an error, as text, since not every error can be pickled."""

    error: str


class Trainer:
    """Trains clients of one round side by side; the results do not depend on how many at once.

    Args:
        model: its structure; records go to the device that it is on.
        training: what a client does. It is on one thread, so that it is the same in every process;
            torch's own generator is left as it was.
        workers: number of processes; 1 trains in this one. More need a script whose main part
            stands under ``if __name__ == "__main__":``, as Python's processes ask for.
        statistics: whether running statistics are part of the weights.
        hidden: whether others may not learn of a training that fails: it changes nothing then.

    Raises:
        ArgumentError: fewer than one worker, or a model or training that cannot be pickled.
    """

    def __init__(
        self,
        model: nn.Module,
        training: ClientTraining,
        workers: int,
        *,
        statistics: bool = True,
        hidden: bool = False,
    ) -> None:
        Whole(1).check("workers", workers)
        self._hidden = hidden
        self._pool: ProcessPoolExecutor | None = None
        self._task = _Task(model, training, statistics)
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
        rounds: Mapping[int, ClientRound],
    ) -> dict[int, Weights | UpdateError]:
        """Returns each client's weights after its training, or why it withdraws.

        Words of an error that is no `UpdateError` may have a value of a record: they are in the log
        of this process alone. Raises WorkerLostError if a process died.
        """
        if self._pool is None:
            found = {k: self._task.run(weights, own, rounds[k]) for k, own in records.items()}
            return self._told(found, weights)
        try:
            futures = {
                client: self._pool.submit(_work, weights, x.numpy(), y.numpy(), rounds[client])
                for client, (x, y) in records.items()
            }
            found = {client: future.result() for client, future in futures.items()}
            return self._told(found, weights)
        except BrokenProcessPool as error:
            raise WorkerLostError("died while clients were trained") from error

    def _told(
        self, found: Mapping[int, Weights | UpdateError | _Failed], weights: Weights
    ) -> dict[int, Weights | UpdateError]:
        """Returns what others are told of clients' trainings."""
        told: dict[int, Weights | UpdateError] = {}
        for client, trained in found.items():
            if not isinstance(trained, _Failed):
                told[client] = trained
                continue
            LOG.error("client %d cannot train: %s", client, trained.error)
            reason = "it cannot train its model: its own log says why"
            told[client] = weights if self._hidden else UpdateError(reason)
        return told

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
    def __init__(self, model: nn.Module, training: ClientTraining, statistics: bool) -> None:
        self.model = model
        self.training = training
        self.statistics = statistics

    def run(
        self, weights: Weights, records: tuple[Tensor, Tensor], round: ClientRound
    ) -> Weights | UpdateError | _Failed:
        model = copy.deepcopy(self.model)
        set_weights(model, weights, statistics=self.statistics)
        device = device_of(model)
        try:
            with _alone(round.seed, device):
                own = TensorDataset(*(_copied(each, device) for each in records))
                self.training(model, own, round)
            return get_weights(model, statistics=self.statistics, like=self.model)
        except UpdateError as error:
            return UpdateError(str(error))
        except Exception as error:
            return _Failed("".join(traceback.format_exception(error)))


def _copied(values: Tensor, device: torch.device) -> Tensor:
    """Returns values that a training may change in place: they are nobody else's."""
    return values.to(device, copy=True, memory_format=torch.contiguous_format)


@contextmanager
def _alone(seed: int, device: torch.device) -> Iterator[None]:
    """One thread and torch's generators from this seed; all are as they were afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            seed_generators(device, seed)
            yield
    finally:
        torch.set_num_threads(threads)


def _pickled(task: _Task) -> bytes:
    try:
        return pickle.dumps(task)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ArgumentError(
            "model, loss, train",
            type(task.model).__name__,
            "picklable where workers are several",
            f"Define them at the top of a module, or take {{workers=1}}. {error}",
            code="type",
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


def _work(weights: Weights, x: Any, y: Any, round: ClientRound) -> Weights | UpdateError | _Failed:
    assert _task is not None
    return _task.run(weights, (torch.from_numpy(x), torch.from_numpy(y)), round)
