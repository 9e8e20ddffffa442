"""Trains the clients of a round, in this process or in several."""

import copy
import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from logging import getLogger
from multiprocessing.context import BaseContext
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from extensions.errors import ArgumentError, UpdateError, WorkerLostError
from extensions.rules import Whole
from fl.beside import Beside
from fl.clients import ClientResult, ClientRound, ClientTraining, LocalSGD, seed_generators
from fl.training.cohorts import Cohorts, Own
from fl.weights import WHOLE, Parts, Weights, device_of, get_weights, set_weights

LOG = getLogger(__name__)

START_SECONDS = 3.0
"""That processes take to start and import torch. Training that they shorten by less needs none."""
TRIAL_SECONDS = 0.5
"""For which clients are trained here at most before that is decided."""


@dataclass(frozen=True)
class _Failed:
    """A training that raised an error, as text, since not every error can be pickled."""

    error: str


@dataclass(frozen=True)
class _Trained:
    """A client's weights, with what is beside the model, and the state that it keeps."""

    weights: Weights
    state: Mapping[str, Tensor] = field(default_factory=dict)


Trained = _Trained | UpdateError | _Failed
"""What became of a client's training."""

_Arguments = tuple[Weights, list[Own], list[ClientRound], bool]
"""Of `_Task.run`."""


class Trainer:
    """Trains clients of one round side by side; the results do not depend on how many at once.

    Args:
        model: its structure; records go to the device that it is on.
        training: what a client does. It is on one thread, so that it is the same in every process;
            torch's own generator is left as it was.
        workers: number of processes; 1 trains in this one. More need a script whose main part
            stands under ``if __name__ == "__main__":``, as Python's processes ask for.
        rounds: how many are ahead. Processes are used if they save more time than they take to
            start, and as long as they are faster than this one; the log says so. None: always.
        parts: of the model that clients do not exchange.
        hidden: whether others may not learn of a training that fails: it changes nothing then.
        cohorts: whether clients train together where that is possible.

    Attributes:
        states: what clients that were asked for since `train` keep, by client.

    Raises:
        ArgumentError: fewer than one worker, or a model or training that cannot be pickled.
    """

    def __init__(
        self,
        model: nn.Module,
        training: ClientTraining,
        workers: int,
        *,
        parts: Parts = WHOLE,
        hidden: bool = False,
        cohorts: bool = False,
        rounds: int | None = None,
    ) -> None:
        Whole(1).check("workers", workers)
        self._hidden, self._workers, self._rounds = hidden, workers, rounds
        self._task = _Task(model, training, parts)
        self._together: bool | None = None if cohorts else False
        self.states: dict[int, Mapping[str, Tensor]] = {}
        self._pool: ProcessPoolExecutor | None = None
        self._pace = 0.0
        """Seconds that this process takes for a record; 0: that was not tried."""
        if workers > 1:
            self._pickled = _pickled(self._task)
            if rounds is None:
                self._start()

    def _start(self) -> None:
        self._pool = ProcessPoolExecutor(
            self._workers, _context(), initializer=_begin, initargs=(self._pickled,)
        )

    def train(
        self,
        weights: Weights,
        records: Mapping[int, Own],
        rounds: Mapping[int, ClientRound],
    ) -> Callable[[int], Weights | UpdateError]:
        """Returns the function that gives a client's weights once, or why it withdraws.

        In this process a cohort is trained when a client of it is asked for. Words of an error that
        is no `UpdateError` may have a value of a record: they are in the log of this process alone.
        Raises WorkerLostError if a process died.
        """
        self.states = {}
        groups = [*self._groups(records)]
        tasks = [
            (weights, [records[k] for k in group], [rounds[k] for k in group], together)
            for group, together in groups
        ]
        group_of = {client: at for at, (group, _) in enumerate(groups) for client in group}
        found: dict[int, Trained] = {}
        for trained, (group, _) in zip(self._by_workers(tasks), groups, strict=False):
            found.update(zip(group, trained, strict=True))

        def of(client: int) -> Weights | UpdateError:
            if client not in found:
                at = group_of[client]
                found.update(zip(groups[at][0], self._task.run(*tasks[at]), strict=True))
            return self._told(client, found.pop(client), weights)

        return of

    def _groups(self, records: Mapping[int, Own]) -> Iterator[tuple[list[int], bool]]:
        """Yields clients that one call trains, and whether as a cohort: of records of one kind."""
        apart = list(records)
        first = records[apart[0]]
        if self._are_together(first):
            kind = _kind(first)
            alike = [client for client in apart if _kind(records[client]) == kind]
            apart = [client for client in apart if _kind(records[client]) != kind]
            size = self._task.cohorts.clients([records[client] for client in alike])
            yield from ((alike[k : k + size], True) for k in range(0, len(alike), size))
        yield from (([client], False) for client in apart)

    def _are_together(self, like: Own) -> bool:
        """Returns whether clients are trained in cohorts, which is tried once."""
        if self._together is None:
            reason = self._task.why_not(like)
            self._together = not reason
            if reason:
                LOG.info("clients are trained one by one: %s", reason)
        return self._together

    def _by_workers(self, tasks: list[_Arguments]) -> list[list[Trained]]:
        """Returns what becomes of all tasks if processes do them, or of the first ones.

        Those are tried in this process, to see how long it takes.
        """
        if self._pool is not None:
            began = time.perf_counter()
            every = self._in_pool(tasks)
            if 0 < self._pace * _records(tasks) < 0.9 * (time.perf_counter() - began):
                self._stop("they are not faster")
            return every
        if self._workers == 1:
            return []
        found: list[list[Trained]] = []
        spent: list[float] = []
        while len(found) < len(tasks) and sum(spent) < TRIAL_SECONDS:
            began = time.perf_counter()
            found.append(self._task.run(*tasks[len(found)]))
            spent.append(time.perf_counter() - began)
        warm = slice(len(spent) > 1, len(spent))
        self._pace = sum(spent[warm]) / _records(tasks[warm])
        shares = min(self._workers, len(tasks))
        ahead = self._pace * _records(tasks) * (self._rounds or 1)
        if ahead * (1 - 1 / shares) > START_SECONDS:
            self._start()
            return [*found, *self._in_pool(tasks[len(found) :])]
        self._stop("they would take longer to start than they save")
        return found

    def _stop(self, reason: str = "") -> None:
        """Ends the processes; this one trains the clients of further rounds."""
        if reason:
            LOG.info("one process trains all clients, without more workers: %s", reason)
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._pool, self._workers = None, 1

    def _in_pool(self, tasks: list[_Arguments]) -> list[list[Trained]]:
        """Returns what becomes of each task, of which a process is sent several at once.

        They are bytes on their way, since torch hands tensors over by a file descriptor and a
        connection each, which takes longer than the training of a small model.
        """
        assert self._pool is not None
        size = max(1, len(tasks) // (4 * self._workers))
        parts = (pickle.dumps(tasks[k : k + size]) for k in range(0, len(tasks), size))
        try:
            return [
                one for results in self._pool.map(_work, parts) for one in pickle.loads(results)
            ]
        except BrokenProcessPool as error:
            raise WorkerLostError("died while clients were trained") from error

    def _told(self, client: int, trained: Trained, weights: Weights) -> Weights | UpdateError:
        """Returns what others are told of a client's training."""
        if isinstance(trained, _Trained):
            self.states[client] = trained.state
            return trained.weights
        if isinstance(trained, UpdateError):
            return trained
        LOG.error("client %d cannot train: %s", client, trained.error)
        reason = "it cannot train its model: see its own log"
        return weights if self._hidden else UpdateError(reason)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()


def _context() -> BaseContext:
    """Returns how workers start: where it can be, as copies of one process that imported torch."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


class _Task:
    def __init__(self, model: nn.Module, training: ClientTraining, parts: Parts) -> None:
        self.model = model
        self.training = training
        self.parts = parts
        self.beside = Beside(training, model)

    def why_not(self, like: Own) -> str:
        """Returns why clients are trained one by one, or "" if they train in cohorts."""
        training = self.training
        if not isinstance(training, LocalSGD) or type(training).__call__ is not LocalSGD.__call__:
            return "their training is their own"
        if self.beside.names:
            return "they exchange more than the model"
        if self.parts.local:
            return "each keeps a part of the model"
        with _one_thread(), _generators_kept(device_of(self.model)):
            return self.cohorts.why_not(like)

    def run(
        self, weights: Weights, records: list[Own], rounds: list[ClientRound], together: bool
    ) -> list[Trained]:
        """Returns what becomes of each client's training."""
        with _one_thread(), _generators_kept(device_of(self.model)):
            if not together:
                return [self._alone(weights, *one) for one in zip(records, rounds, strict=True)]
            return self._in_cohort(weights, records, rounds)

    def _in_cohort(
        self, weights: Weights, records: list[Own], rounds: list[ClientRound]
    ) -> list[Trained]:
        """Trains clients at once, and alone those that could stop the others.

        In the cohort a client of zeros is in their place, so that nothing of others' results
        depends on them.
        """
        fit = self.cohorts.takes(records)
        zeros = ((torch.zeros_like(x), torch.zeros_like(y)) for x, y in records)
        given = [own if fits else zero for fits, own, zero in zip(fit, records, zeros, strict=True)]
        try:
            trained = self.cohorts.train(weights, given, rounds)
        except Exception as error:  # which the trial on made-up records did not show
            LOG.warning("a cohort cannot train at once, so its clients train one by one: %s", error)
            return [self._alone(weights, *one) for one in zip(records, rounds, strict=True)]
        return [
            _Trained(one) if fits else self._alone(weights, own, each)
            for one, fits, own, each in zip(trained, fit, records, rounds, strict=True)
        ]

    @property
    def cohorts(self) -> Cohorts:
        """What trains clients at once, where `why_not` says nothing."""
        assert isinstance(self.training, LocalSGD)
        return Cohorts(self.model, self.training, self.parts.without)

    def _alone(self, weights: Weights, records: Own, round: ClientRound) -> Trained:
        model = copy.deepcopy(self.model)
        weights, extra = self.beside.split(weights)
        set_weights(model, weights, without=self.parts.without)
        state = self.parts.set(model, round.state)
        device = device_of(model)
        try:
            seed_generators(device, round.seed)
            own = TensorDataset(*(_copied(each, device) for each in records))
            told = replace(round, extra=extra, state=state)
            found = self.training(model, own, told) or ClientResult()
            trained = get_weights(model, without=self.parts.without, like=self.model)
            kept = {**found.state, **self.parts.get(model)}
            return _Trained(self.beside.join(trained, extra, found), kept)
        except UpdateError as error:
            return UpdateError(str(error))
        except Exception as error:
            return _Failed("".join(traceback.format_exception(error)))


def _records(tasks: list[_Arguments]) -> int:
    return sum(len(y) for _, records, _, _ in tasks for _, y in records)


def _kind(own: Own) -> tuple[Any, ...]:
    """Returns what records and labels of a cohort have in common: shapes and types."""
    return tuple((part.shape[1:], part.dtype) for part in own)


def _copied(values: Tensor, device: torch.device) -> Tensor:
    """Returns values that a training may change in place: they are nobody else's."""
    return values.to(device, copy=True, memory_format=torch.contiguous_format)


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _generators_kept(device: torch.device) -> AbstractContextManager[None]:
    """Leaves torch's generators as they were."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def _pickled(task: _Task) -> bytes:
    try:
        return pickle.dumps(task)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ArgumentError(
            "model, loss, train",
            type(task.model).__name__,
            "picklable, because there are several workers",
            f"Define them at the top of a module, or give {{workers=1}}. {error}",
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


def _work(tasks: bytes) -> bytes:
    assert _task is not None
    return pickle.dumps([_task.run(*each) for each in pickle.loads(tasks)])
