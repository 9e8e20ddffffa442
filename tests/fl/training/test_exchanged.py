"""What clients exchange of a model: what is trained, once, and nothing that is frozen."""

import copy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import fl
from extensions.errors import ArgumentError
from fl.training.workers import Trainer
from fl.weights import (
    get_weights,
    not_exchanged,
    of_parameters,
    running_statistics,
    set_weights,
)
from tests.helpers.federated import remote as helpers
from tests.helpers.federated.remote import CLIENTS, RECORDS, remote

X, Y = RECORDS[0].tensors
"""Digits: 20 records of 64 values."""


class Tied(nn.Module):
    """Layers that share a weight: an embedding and the output, or one module by two names."""

    def __init__(self, way: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(64, 10, bias=False)
        self.last = self.first if way == "module" else nn.Linear(64, 10, bias=False)
        if way == "weight":
            self.last.weight = self.first.weight
        if way == "buffer":
            shared = torch.ones(10)
            self.last = nn.Linear(64, 10, bias=False)
            self.last.weight = self.first.weight
            self.first.register_buffer("scale", shared)
            self.last.register_buffer("scale", shared)

    def forward(self, x):
        return self.first(x) + self.last(x)


def frozen(part: str = "first") -> nn.Module:
    """Returns a model of two layers and batch statistics, of which some is not trained."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Linear(7, 10))
    if part == "first":
        model[:2].requires_grad_(False)
    else:
        model[3].bias.requires_grad_(False)
    return model


def run(model: nn.Module, **settings: object) -> fl.FederatedAveraging:
    given = {"aggregator": fl.PlainAggregator(), "client_fraction": 1.0, **settings}
    return fl.FederatedAveraging(model=model, clients=RECORDS, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("way", "size"), [("weight", 640), ("module", 640), ("buffer", 650)])
def test_what_layers_share_is_exchanged_once(way, size):
    model = Tied(way)
    assert get_weights(model).size == of_parameters(model).size == size
    assert of_parameters(model).sum() == 640
    wanted = np.arange(size, dtype=np.float32)
    set_weights(model, wanted)
    np.testing.assert_array_equal(get_weights(model), wanted)
    assert model.first.weight is model.last.weight


def test_a_sign_of_every_selected_dimension_arrives_where_weights_are_shared():
    mechanism = fl.SignDS(sign_k=0.2, sign_dim_out=20, sign_global_lr=1.0)
    averaged = run(Tied("weight"), mechanism=mechanism, weighting="equal")
    before = get_weights(averaged.model)
    averaged.fit(1, progress=False)
    sent = averaged.outcome.aggregate.mean
    assert 20 <= np.count_nonzero(sent) <= 20 * CLIENTS
    np.testing.assert_allclose(get_weights(averaged.model) - before, sent, atol=1e-6)


@pytest.mark.parametrize("statistics", ["exchange", "keep"])
@pytest.mark.parametrize(("part", "trained"), [("first", 80), ("bias", 455 + 14 + 70)])
def test_what_is_frozen_is_neither_sent_nor_changed_and_statistics_go_as_they_are_asked_to(
    part, trained, statistics
):
    model = frozen(part)
    averaged = run(model, statistics=statistics, batch_size=5, transcript="all")
    averaged.fit(2, progress=False)
    size = trained + (14 if statistics == "exchange" else 0)
    assert averaged.outcome.aggregate.mean.shape == (size,)
    (update,) = {m.body["values"].size for m in averaged.outcome.transcript.received(-1, "update")}
    assert update == size
    for (name, was), now in zip(model.named_parameters(), averaged.model.parameters(), strict=True):
        assert torch.equal(was, now) != was.requires_grad, name
    moved = not torch.equal(model[1].running_mean, averaged.model[1].running_mean)
    assert moved == (statistics == "exchange")


@pytest.mark.parametrize(
    "mechanism",
    [
        partial(fl.CentralDP, noise_multiplier=1.0, clip=1.0, sampling="fixed"),
        partial(fl.DistributedDP, noise_multiplier=1.0, clip=1.0),
        partial(fl.LocalDP, epsilon=8.0, delta=1e-3, clip=1.0),
        partial(fl.SignDS, sign_k=0.2),
        partial(
            fl.RecordDP, noise_multiplier=1.0, max_grad_norm=1.0, steps=1, sample_rate=0.5, lr=0.1
        ),
    ],
    ids=["central", "distributed", "local", "signds", "record"],
)
def test_no_mechanism_reaches_what_is_frozen(mechanism):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 300), nn.ReLU(), nn.Linear(300, 10))
    model[0].requires_grad_(False)
    wide = fl.FixedPoint(frac_bits=24, clip=2.0**10)
    averaged = run(
        model,
        mechanism=mechanism(),
        aggregator=fl.MaskedAggregator(fixed_point=wide),
        weighting="equal",
    )
    averaged.fit(1, progress=False)
    assert averaged.outcome.aggregate.mean.size == 3010
    assert torch.equal(averaged.model[0].weight, model[0].weight)
    assert not torch.equal(averaged.model[2].weight, model[2].weight)


def freezing(model, records, round) -> None:
    """A training of the user's, which freezes more than the run does, and thaws what it froze."""
    x, y = records.tensors
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    with torch.no_grad():
        model[3].weight -= 0.1 * model[3].weight.grad
    for parameter in model.parameters():
        parameter.requires_grad_(not parameter.requires_grad)


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_training_freezes_changes_nothing_of_what_is_exchanged(workers):
    model = frozen()
    rounds = {0: fl.ClientRound(number=1, client=0, seed=1)}
    with Trainer(model, freezing, workers) as trainer:
        trained = trainer.train(get_weights(model), {0: (X, Y)}, rounds)(0)
    assert trained.shape == get_weights(model).shape
    assert not np.array_equal(trained, get_weights(model))


@pytest.mark.parametrize("way", ["data", "parameter of data", "transposed", "rows", "buffer"])
def test_parameters_of_one_memory_are_refused_as_copies_would_not_share_it(way):
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10))
    shared = model[0].weight.data
    if way == "data":
        model[1].weight.data = shared
    elif way == "buffer":
        model.register_buffer("kept", shared)
    else:
        view = {"transposed": shared.t(), "rows": shared[:10]}.get(way, shared)
        model[2 if way == "rows" else 1].weight = nn.Parameter(view)
    with pytest.raises(ArgumentError) as caught:
        run(model)
    assert caught.value.argument == "model"


def test_a_parameter_that_is_a_buffer_too_is_exchanged_whether_statistics_are_or_not():
    model = nn.Sequential(nn.Linear(64, 10))
    model.register_buffer("kept", model[0].weight)
    for without in ((), running_statistics(model)):
        assert get_weights(model, without=without).size == 650


@pytest.mark.parametrize("exchange", ["delta", "weights"])
@pytest.mark.parametrize("trained", [True, False])
def test_a_layer_that_is_frozen_or_no_longer_between_rounds_is_told_before_anything_is_sent(
    exchange, trained
):
    course = run(frozen(), exchange=exchange)
    course.fit(1, progress=False)
    layer = course.model[0] if trained else course.model[3].bias
    layer.requires_grad_(trained)
    with pytest.raises(ArgumentError) as caught:
        course.fit(1, progress=False)
    assert caught.value.argument == "model"
    assert len(course.history) == 1
    run(course.model, exchange=exchange).fit(1, progress=False)


def test_a_model_of_which_nothing_is_trained_is_refused():
    with pytest.raises(ArgumentError) as caught:
        get_weights(nn.Linear(3, 2).requires_grad_(False))
    assert caught.value.argument == "model"


def test_precision_matters_where_values_are_exchanged():
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    model[0].half().requires_grad_(False)
    assert get_weights(model).size == 6
    with pytest.raises(ArgumentError):
        get_weights(model.requires_grad_(True))


def test_frozen_values_that_are_no_numbers_are_refused():
    model = frozen()
    with torch.no_grad():
        model[0].weight[0, 0] = torch.nan
    with pytest.raises(ArgumentError) as caught:
        run(model)
    assert caught.value.argument == "model"


def test_all_parties_and_a_run_that_goes_on_have_the_same_frozen_values(tmp_path):
    first, other = frozen(), frozen()
    with torch.no_grad():
        other[0].weight += 1
    assert not_exchanged(frozen("bias").requires_grad_(True)) == {}
    averaged = run(first)
    averaged.fit(1, progress=False)
    averaged.save(tmp_path / "run.npz")
    run(copy.deepcopy(first)).load(tmp_path / "run.npz")
    with pytest.raises(ArgumentError) as caught:
        run(other).load(tmp_path / "run.npz")
    assert caught.value.argument == "not exchanged"


def test_a_client_with_other_frozen_values_takes_no_part(monkeypatch):
    monkeypatch.setattr(helpers, "mlp", frozen)
    other = frozen()
    with torch.no_grad():
        other[0].bias += 1
    averaged, post = remote(lambda: {"aggregator": fl.PlainAggregator(), "batch_size": 5})
    usual = post.client
    post.client = lambda number: replace(usual(number), **({"model": other} if number == 2 else {}))
    assert [report.included for report in averaged.fit(post)] == [(0, 1, 3, 4)] * 2


def test_what_is_shared_or_frozen_is_exchanged_with_other_hosts_as_in_the_simulation(monkeypatch):
    def settings() -> dict[str, object]:
        return {"aggregator": fl.MaskedAggregator(), "batch_size": 5}

    for make in (frozen, partial(Tied, "weight")):
        monkeypatch.setattr(helpers, "mlp", make)
        averaged, post = remote(settings)
        averaged.fit(post)
        same = helpers.simulated(settings)
        np.testing.assert_array_equal(get_weights(averaged.model), get_weights(same.model))
