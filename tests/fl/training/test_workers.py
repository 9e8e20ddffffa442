"""Processes that train clients: used where they save time, and what they are sent."""

import logging
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fl.clients import ClientResult, ClientRound, LocalSGD
from fl.training import workers
from fl.training.workers import Trainer
from fl.weights import get_weights

SGD = LocalSGD(epochs=2, batch_size=2, lr=0.1, loss=cross_entropy)


def model():
    torch.manual_seed(0)
    return nn.Linear(6, 3)


def records(count=9):
    draws = torch.Generator().manual_seed(1)
    return {
        k: (torch.randn((2 + k, 6), generator=draws), torch.arange(2 + k) % 3) for k in range(count)
    }


def trained(trainer, own):
    rounds = {k: ClientRound(number=1, client=k, seed=k, state={"n": torch.ones(2)}) for k in own}
    of = trainer.train(get_weights(model()), own, rounds)
    return np.stack([of(client) for client in own])


def alone(own):
    with Trainer(model(), SGD, 1) as trainer:
        return trained(trainer, own)


def test_a_short_run_starts_no_process_and_says_so_once(caplog):
    own = records()
    with caplog.at_level(logging.INFO), Trainer(model(), SGD, 2, rounds=1) as trainer:
        for _ in range(2):
            np.testing.assert_array_equal(trained(trainer, own), alone(own))
            assert trainer._pool is None
    assert len([each for each in caplog.records if "without more workers" in each.message]) == 1


def test_processes_start_for_what_is_ahead_and_take_what_is_left_of_the_round(monkeypatch):
    monkeypatch.setattr(workers, "TRIAL_SECONDS", 1e-9)
    own, sent = records(), []
    send = Trainer._in_pool
    monkeypatch.setattr(
        Trainer, "_in_pool", lambda self, tasks: sent.append(len(tasks)) or send(self, tasks)
    )
    with Trainer(model(), SGD, 2, rounds=10**9) as trainer:
        np.testing.assert_array_equal(trained(trainer, own), alone(own))
        trainer._pace = 1e9
        np.testing.assert_array_equal(trained(trainer, own), alone(own))
        assert trainer._pool is not None
    assert sent == [len(own) - 1, len(own)]


def test_processes_that_are_not_faster_end_and_a_line_says_so(caplog):
    own = records()
    with caplog.at_level(logging.INFO), Trainer(model(), SGD, 2) as trainer:
        np.testing.assert_array_equal(trained(trainer, own), alone(own))
        trainer._pace = 1e-12
        for _ in range(2):
            np.testing.assert_array_equal(trained(trainer, own), alone(own))
            assert trainer._pool is None
    assert len([each for each in caplog.records if "not faster" in each.message]) == 1


def test_one_task_is_no_work_for_two(monkeypatch):
    monkeypatch.setattr(workers, "START_SECONDS", 0.0)
    for count, starts in ((1, False), (2, True)):
        with Trainer(model(), SGD, 2, rounds=1) as trainer:
            trained(trainer, records(count))
            assert (trainer._pool is not None) == starts


def keeping(net, own, round):
    SGD(net, own, round)
    return ClientResult(state={"n": round.state["n"] + len(own)})


def test_tensors_go_to_workers_and_back_as_bytes(monkeypatch):
    def shared(tensor):
        raise AssertionError("a tensor by a file descriptor")

    monkeypatch.setitem(ForkingPickler._extra_reducers, torch.Tensor, shared)
    own = records(5)
    with Trainer(model(), keeping, 2) as trainer:
        np.testing.assert_array_equal(trained(trainer, own), alone(own))
        assert {k: v["n"].tolist() for k, v in trainer.states.items()} == {
            k: [3.0 + k] * 2 for k in own
        }


@pytest.mark.parametrize("count", [1, 5, 9, 40])
def test_every_client_has_its_own_result(count):
    own = records(count)
    with Trainer(model(), SGD, 3) as trainer:
        np.testing.assert_array_equal(trained(trainer, own), alone(own))
