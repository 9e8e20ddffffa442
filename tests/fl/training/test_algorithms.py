"""FedProx, SCAFFOLD and FedNova against their papers, and what clients exchange beside a model."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import fl
from extensions.errors import ArgumentError
from fl.algorithms import FedNova, FedProx, NormalizedSGD, Scaffold
from fl.clients import ClientResult, LocalSGD
from fl.weights import get_weights

SIZES = (4, 8, 12, 6)
SGD = {"epochs": 2, "batch_size": 4, "lr": 0.1, "loss": cross_entropy}
FIXED = fl.FixedPoint(frac_bits=24)
AGGREGATORS = {
    "plain": fl.PlainAggregator,
    "masked": lambda: fl.MaskedAggregator(fixed_point=FIXED),
    "chain": lambda: fl.ChainAggregator(FIXED),
}


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


def clients(sizes=SIZES):
    draws = torch.Generator().manual_seed(2)
    return [
        (torch.randn((n, 5), generator=draws), torch.randint(0, 3, (n,), generator=draws))
        for n in sizes
    ]


def run_of(training, aggregator="plain", **given):
    given = {"client_fraction": 1.0, "train": training, **given}
    start = given.pop("model", model)
    return fl.FederatedAveraging(
        model=start(), clients=clients(), aggregator=AGGREGATORS[aggregator](), **given
    )


def steps_of(run, training, number, client, start, change):
    """SGD of a client, whose gradients the function may change: parameters after, and steps."""
    net = model()
    torch.nn.utils.vector_to_parameters(start.clone(), net.parameters())
    x, y = clients()[client]
    draws = torch.Generator().manual_seed(run.of_client(number, client).seed)
    count = 0
    for batch in training.batches(len(x), draws):
        net.zero_grad()
        cross_entropy(net(x[batch]), y[batch]).backward()
        here = torch.nn.utils.parameters_to_vector(net.parameters()).detach()
        gradient = torch.cat([p.grad.reshape(-1) for p in net.parameters()])
        torch.nn.utils.vector_to_parameters(
            here - training.lr * change(gradient, here), net.parameters()
        )
        count += 1
    return torch.nn.utils.parameters_to_vector(net.parameters()).detach(), count


def start_of(net):
    return torch.nn.utils.parameters_to_vector(net.parameters()).detach().clone()


def assert_close(run, expected):
    np.testing.assert_allclose(get_weights(run.model), expected.numpy(), rtol=0, atol=2e-6)


@pytest.mark.parametrize("mu", [0.0, 0.5, 3.0])
def test_fedprox_is_sgd_with_its_proximal_term(mu):
    training = FedProx(mu=mu, **SGD)
    run = run_of(training)
    run.fit(2, progress=False)
    w = start_of(model())
    for number in (1, 2):
        new = [
            steps_of(run, training, number, k, w, lambda g, v, w=w: g + mu * (v - w))[0]
            for k in range(len(SIZES))
        ]
        w = sum(n * each for n, each in zip(SIZES, new, strict=True)) / sum(SIZES)
    assert_close(run, w)


@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_scaffold_is_the_papers_algorithm(aggregator, fraction):
    training = Scaffold(**SGD)
    run = run_of(training, aggregator, client_fraction=fraction)
    run.fit(4, progress=False)
    w = start_of(model())
    c, own = torch.zeros_like(w), [torch.zeros_like(w) for _ in SIZES]
    for number in range(1, 5):
        chosen = run.select(number, len(SIZES))
        ends, moved = [], []
        for k in chosen:
            end, steps = steps_of(
                run, training, number, k, w, lambda g, v, c=c, k=k: g + c - own[k]
            )
            fresh = own[k] - c + (w - end) / (steps * training.lr)
            moved.append(fresh - own[k])
            ends.append(end)
            own[k] = fresh
        w = sum(ends) / len(chosen)
        c = c + len(chosen) / len(SIZES) * sum(moved) / len(chosen)
    assert_close(run, w)
    found = torch.cat([each.reshape(-1) for each in run.extra.values()])
    np.testing.assert_allclose(found, c, rtol=0, atol=5e-6)
    assert found.abs().max() > 0.01


def test_fednova_counts_clients_by_what_a_step_of_theirs_does():
    training = NormalizedSGD(**SGD)
    run = run_of(training, server_optimizer=FedNova())
    run.fit(2, progress=False)
    w = start_of(model())
    for number in (1, 2):
        share = np.array(SIZES) / sum(SIZES)
        found = [steps_of(run, training, number, k, w, lambda g, v: g) for k in range(len(SIZES))]
        effective = sum(p * steps for p, (_, steps) in zip(share, found, strict=True))
        w = w + effective * sum(
            p * (end - w) / steps for p, (end, steps) in zip(share, found, strict=True)
        )
    assert_close(run, w)
    assert float(run.extra["steps"]) == pytest.approx(effective)


def test_scaffold_goes_on_from_a_checkpoint_with_what_clients_keep(tmp_path):
    whole, first, second = (run_of(Scaffold(**SGD)) for _ in range(3))
    whole.fit(3, progress=False)
    first.fit(2, progress=False)
    first.save(tmp_path / "run.npz")
    second.load(tmp_path / "run.npz")
    second.fit(1, progress=False)
    np.testing.assert_array_equal(get_weights(second.model), get_weights(whole.model))
    for k, state in whole.states.items():
        for name, value in state.items():
            torch.testing.assert_close(second.states[k][name], value, rtol=0, atol=0)


@dataclass(frozen=True)
class Told(LocalSGD):
    """SGD that tells its loss and how many records it has, and counts its rounds."""

    metrics = ("rows", "loss")

    def extra(self, net):
        return {"seen": torch.zeros(2)}

    def __call__(self, net, records, round):
        super().__call__(net, records, round)
        x, y = records.tensors
        times = round.state.get("times", torch.zeros(())) + 1
        return ClientResult(
            metrics={"rows": len(x), "loss": float(cross_entropy(net(x), y).detach())},
            extra={"seen": round.extra["seen"] + torch.tensor([1.0, times])},
            state={"times": times},
        )


@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize("exchange", ["delta", "weights"])
def test_metrics_and_tensors_are_means_over_clients_with_every_aggregator(aggregator, exchange):
    run = run_of(Told(**SGD), aggregator, exchange=exchange, weighting="equal")
    history = run.fit(3, progress=False)
    for report in history:
        assert report.trained["rows"] == pytest.approx(np.mean(SIZES), abs=1e-4)
        assert report.numbers()["trained/loss"] == report.trained["loss"] > 0
    np.testing.assert_allclose(run.extra["seen"], [3.0, 1 + 2 + 3], atol=1e-4)
    assert {float(state["times"]) for state in run.states.values()} == {3.0}
    assert fl.protocols.History.from_json(history.to_json()) == history


def test_what_lies_beside_the_model_costs_its_bytes_and_no_more():
    plain, told = (
        run_of(training, weighting="equal") for training in (LocalSGD(**SGD), Told(**SGD))
    )
    sent = [run.fit(1, progress=False)[0].bytes_up for run in (plain, told)]
    assert sent[1] - sent[0] == len(SIZES) * 4 * 4


def broken(result):
    def training(net, records, round):
        return ClientResult(**result)

    training.metrics = ("loss",)
    return training


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"metrics": {"loss": 1.0, "more": 2.0}},
        {"metrics": {"loss": 1.0}, "extra": {"seen": torch.zeros(1)}},
    ],
)
def test_a_client_that_returns_something_else_than_it_states_is_left_out_by_name(result):
    run = run_of(broken(result), on_failure="skip")
    report = run.fit(1, progress=False)[0]
    assert report.included == ()
    assert set(report.refused) == set(range(len(SIZES)))


@pytest.mark.parametrize(
    ("given", "argument", "code"),
    [
        ({"train": Scaffold(**SGD), "weighting": "records"}, "weighting", "choice"),
        ({"train": LocalSGD(**SGD), "server_optimizer": FedNova()}, "train", "needs"),
        (
            {"train": Told(**SGD), "mechanism": fl.LocalDP(epsilon=1.0, delta=1e-5, clip=1.0)},
            "train",
            "conflict",
        ),
    ],
)
def test_what_does_not_go_together_is_told_before_the_run(given, argument, code):
    with pytest.raises(ArgumentError) as error:
        run_of(given.pop("train"), **given)
    assert (error.value.argument, error.value.code) == (argument, code)


def test_mu_is_not_negative():
    with pytest.raises(ArgumentError) as error:
        FedProx(mu=-1.0, **SGD)
    assert (error.value.argument, error.value.code, error.value.value) == ("mu", "range", -1.0)


def test_workers_bring_back_what_clients_keep():
    one, two = (run_of(Scaffold(**SGD), workers=workers) for workers in (1, 2))
    for run in (one, two):
        run.fit(2, progress=False)
    np.testing.assert_array_equal(get_weights(one.model), get_weights(two.model))


def test_a_round_that_fails_changes_nothing_that_is_kept():
    run = run_of(Scaffold(**SGD), "masked", on_failure="skip")
    run.fit(1, progress=False)
    kept, extra = dict(run.states), run.extra
    lost = tuple(fl.simulation.DropOut(party=k, kind="ready") for k in range(3))
    run.drop_outs = lambda number: lost
    assert run.fit(1, progress=False)[1].failure
    assert run.states == kept
    for name, value in extra.items():
        torch.testing.assert_close(run.extra[name], value, rtol=0, atol=0)
