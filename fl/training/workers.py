"""Trains the clients of a round, in this process or in several."""

import copy
import multiprocessing
import os
import pickle
import signal
import threading
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
from fl.weights import Weights, device_of, get_weights, set_weights

LOG = getLogger(__name__)


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
        statistics: bool = True,
        hidden: bool = False,
        cohorts: bool = False,
    ) -> None:
        Whole(1).check("workers", workers)
        self._hidden = hidden
        self._pool: ProcessPoolExecutor | None = None
        self._task = _Task(model, training, statistics)
        self._together: bool | None = None if cohorts else False
        self.states: dict[int, Mapping[str, Tensor]] = {}
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
        if self._pool is not None:
            for (group, _), trained in zip(groups, self._in_pool(tasks), strict=True):
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

    def _in_pool(self, tasks: list[tuple[Any, ...]]) -> Iterator[list[Trained]]:
        assert self._pool is not None
        try:
            yield from self._pool.map(_work, *zip(*tasks, strict=True))
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
        reason = "it cannot train its model: its own log says why"
        return weights if self._hidden else UpdateError(reason)

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
        self.beside = Beside(training, model)

    def why_not(self, like: Own) -> str:
        """Returns why clients are trained one by one, or "" if they train in cohorts."""
        training = self.training
        if not isinstance(training, LocalSGD) or type(training).__call__ is not LocalSGD.__call__:
            return "their training is their own"
        if self.beside.names:
            return "they exchange more than the model"
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
            LOG.warning("a cohort cannot train, and its clients do one by one: %s", error)
            return [self._alone(weights, *one) for one in zip(records, rounds, strict=True)]
        return [
            _Trained(one) if fits else self._alone(weights, own, each)
            for one, fits, own, each in zip(trained, fit, records, rounds, strict=True)
        ]

    @property
    def cohorts(self) -> Cohorts:
        """What trains clients at once, where `why_not` says nothing."""
        assert isinstance(self.training, LocalSGD)
        return Cohorts(self.model, self.training, self.statistics)

    def _alone(self, weights: Weights, records: Own, round: ClientRound) -> Trained:
        model = copy.deepcopy(self.model)
        weights, extra = self.beside.split(weights)
        set_weights(model, weights, statistics=self.statistics)
        device = device_of(model)
        try:
            seed_generators(device, round.seed)
            own = TensorDataset(*(_copied(each, device) for each in records))
            found = self.training(model, own, replace(round, extra=extra)) or ClientResult()
            trained = get_weights(model, statistics=self.statistics, like=self.model)
            return _Trained(self.beside.join(trained, extra, found), found.state)
        except UpdateError as error:
            return UpdateError(str(error))
        except Exception as error:
            return _Failed("".join(traceback.format_exception(error)))


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


def _work(
    weights: Weights, records: list[Own], rounds: list[ClientRound], together: bool
) -> list[Trained]:
    assert _task is not None
    return _task.run(weights, records, rounds, together)
