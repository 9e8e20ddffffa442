"""Records that model or loss cannot take count as zeros, and nobody learns of them.

Two runs that differ in one such record have the same clients, messages, sizes and reasons, as a
simulation and on other hosts; what a client is told of it is in its own log.
"""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import fl
from extensions.errors import ArgumentError, RoundError
from extensions.privacy.randomness import InsecureSeededSource
from fl.clients import ClientRound
from fl.privacy import dp_sgd
from fl.protocols import Transcript
from fl.training.data import as_tensors
from fl.training.inputs import checked_records
from fl.training.workers import Trainer
from tests.helpers.federated import remote as helpers
from tests.helpers.federated.remote import CLIENTS, remote

ROWS = 12
TOKENS = np.random.default_rng(0).integers(0, 50, (CLIENTS, ROWS, 6))
LABELS = np.arange(CLIENTS * ROWS).reshape(CLIENTS, ROWS) % 2
WIDE = fl.FixedPoint(frac_bits=30, clip=2.0**10)
ROUND = ClientRound(number=1, client=3, seed=1)
DP = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "steps": 1, "sample_rate": 1.0, "lr": 0.1}


class Bag(nn.Module):
    """Classes of the mean of embedded tokens, of which there are 50, in texts of 6."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.EmbeddingBag(50, 4)
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        if (x == 7).all():
            raise OSError("a record that the user's own code cannot take")
        return self.layer(self.embedding(x))


class Items(torch.utils.data.Dataset):
    """A data set of items, some of which cannot be read."""

    def __init__(self, items) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place):
        item = self.items[place]
        if item is None:
            raise OSError("this file is damaged")
        return item


def items(place: int, odd) -> Items:
    rows = [(TOKENS[2][k], LABELS[2][k]) for k in range(ROWS)]
    rows[place] = odd(*rows[place])
    return Items(rows)


def arrays(place: int, x=None, y=None):
    tokens, labels = TOKENS[2].copy(), LABELS[2].copy()
    if x is not None:
        tokens[place] = x
    if y is not None:
        labels[place] = y
    return tokens, labels


def missing(place: int):
    """A column of a table in which a label is missing has floating-point numbers."""
    tokens, labels = arrays(place)
    column = pd.Series(labels)
    column[place] = None
    return tokens, column


ODD = {
    "token beyond the embedding": lambda k: arrays(k, x=50),
    "negative token": lambda k: arrays(k, x=-1),
    "error of the model's own": lambda k: arrays(k, x=7),
    "label beyond the classes": lambda k: arrays(k, y=2),
    "negative label": lambda k: arrays(k, y=-3),
    "missing label": missing,
    "longer": lambda k: items(k, lambda x, y: (np.append(x, 1), y)),
    "of more axes": lambda k: items(k, lambda x, y: (x[None], y)),
    "of fractions": lambda k: items(k, lambda x, y: (x + 0.5, y)),
    "label of a fraction": lambda k: items(k, lambda x, y: (x, y + 0.5)),
    "label in a row": lambda k: items(k, lambda x, y: (x, [y])),
    "text": lambda k: items(k, lambda x, y: ("a text", y)),
    "nothing": lambda k: items(k, lambda x, y: (None, None)),
    "damaged": lambda k: items(k, lambda x, y: None),
    "in a list": lambda k: ([*TOKENS[2][:k], [1, 2], *TOKENS[2][k + 1 :]], LABELS[2]),
    "in an array of objects": lambda k: (
        np.array([*map(list, TOKENS[2][:k]), [1], *map(list, TOKENS[2][k + 1 :])], dtype=object),
        LABELS[2],
    ),
}
MECHANISMS = {
    "record": partial(fl.RecordDP, **DP),
    "local": partial(fl.LocalDP, epsilon=8.0, delta=1e-5, clip=0.1),
    "laplace": partial(fl.LocalDP, epsilon=8.0, clip=0.1, noise="laplace"),
    "distributed": partial(fl.DistributedDP, noise_multiplier=1.0, clip=0.1),
    "signds": partial(fl.SignDS, sign_k=0.1),
    "central": partial(fl.CentralDP, noise_multiplier=1.0, clip=0.1, sampling="fixed"),
}


def settings(mechanism: str, **more: object) -> dict[str, object]:
    return {
        "aggregator": fl.MaskedAggregator(fixed_point=WIDE),
        "mechanism": MECHANISMS[mechanism](),
        "client_fraction": 1.0,
        "weighting": "equal",
        "transcript": "all",
        "on_failure": "raise",
        **more,
    }


def clients(own) -> list[object]:
    found: list[object] = [(TOKENS[k], LABELS[k]) for k in range(CLIENTS)]
    found[2] = own
    return found


def seen(transcript: Transcript) -> list[tuple[object, ...]]:
    """Returns what is public of a round's messages: who sent whom what, and how long it was."""
    sent = [(m.message.sender, m.message.receiver, m.message.kind, m.size) for m in transcript]
    return sorted(sent, key=str)


def simulation(own, mechanism: str, **more: object) -> fl.FederatedAveraging:
    given = settings(mechanism, **more)
    return fl.FederatedAveraging(model=Bag(), clients=clients(own), **given)  # type: ignore[arg-type]


def shown(run) -> tuple[object, ...]:
    report = run.history[0]
    return report.included, report.refused, report.vanished, seen(run.outcome.transcript)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_simulation_shows_nothing_of_a_record_that_cannot_be_taken(mechanism):
    usual = simulation(arrays(0), mechanism)
    usual.fit(1, progress=False)
    expected = shown(usual)
    assert expected[:3] == (tuple(range(CLIENTS)), {}, ())
    for place, odd in enumerate(ODD.values()):
        run = simulation(odd(place % 3), mechanism)
        run.fit(1, progress=False)
        assert shown(run) == expected
        assert run.get_epsilon(1e-3) == usual.get_epsilon(1e-3)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_other_hosts_show_nothing_of_a_record_that_cannot_be_taken(mechanism, monkeypatch):
    """The first record of a client is no exception, by which its model is tried without one."""
    monkeypatch.setattr(helpers, "mlp", Bag)
    monkeypatch.setattr(helpers, "USUAL", {})
    found = []
    for odd in ({"usual": arrays} | ODD).values():
        monkeypatch.setattr(helpers, "RECORDS", clients(odd(0)))
        run, post = remote(lambda: settings(mechanism), rounds=1)
        run.fit(post)
        requests = [(client, len(request)) for client, request in post.requests]
        found.append((*shown(run), requests))
    assert all(one == found[0] for one in found)
    assert found[0][:2] == (tuple(range(CLIENTS)), {})


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_show_nothing_either(workers):
    for mechanism in ("record", "local"):
        run = simulation(arrays(3, x=50), mechanism, workers=workers)
        run.fit(1, progress=False)
        assert shown(run)[:2] == (tuple(range(CLIENTS)), {})


def test_its_own_log_tells_a_client_and_nobody_else(caplog):
    run = simulation(arrays(0, x=50), "record")
    run.fit(1, progress=False)
    assert "client 2" in caplog.text
    assert "50" in caplog.text
    assert not run.history[0].refused


@pytest.mark.parametrize("name", ODD)
def test_of_record_dp_that_record_alone_counts_as_zeros(name, monkeypatch):
    """With the same noise, the update is that of the other records over all of them."""
    changes = []
    for own in (ODD[name](4), arrays(0)):
        ((x, y),) = checked_records(Bag(), {"records": own}, cross_entropy, hidden=True)
        if len(changes) == 1:
            kept = [k for k in range(ROWS) if k != 4]
            x, y = x[kept], y[kept]
        monkeypatch.setattr(dp_sgd, "SystemSource", partial(InsecureSeededSource, 5))
        model = Bag()
        training = fl.RecordDP(**DP | {"noise_multiplier": 2.0**-20}).training
        training(model, torch.utils.data.TensorDataset(x, y), ROUND)
        change = model.layer.weight.detach() - Bag().layer.weight.detach()
        changes.append(change * len(x))
    np.testing.assert_allclose(changes[0], changes[1], atol=1e-6)
    assert changes[0].abs().max() > 1e-3


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name != "record"])
def test_of_other_mechanisms_the_clients_update_counts_as_zeros(mechanism):
    """So it is as if its training had changed nothing; the mechanism hides that."""
    run = simulation(arrays(0, x=50), mechanism)
    received = run._weights()
    told = {2: run.of_client(1, 2)}
    with Trainer(run.model, run.training, 1, hidden=True) as trainer:
        trained = trainer.train(received, {2: run._records[2]}, told)(2)
    np.testing.assert_array_equal(trained, received)


def test_without_a_mechanism_the_client_is_left_out_by_name():
    given = {"aggregator": fl.PlainAggregator(), "client_fraction": 1.0, "on_failure": "skip"}
    run = fl.FederatedAveraging(model=Bag(), clients=clients(arrays(3, x=50)), **given)
    run.fit(1, progress=False)
    assert list(run.history[0].refused) == [2]
    with pytest.raises(ArgumentError):
        fl.FederatedAveraging(model=Bag(), clients=clients(arrays(3, y=2)), **given)


def test_a_training_that_withdraws_does_so_whatever_the_mechanism():
    def withdrawing(model, records, round):
        if round.client == 2:
            raise fl.UpdateError("not today")

    sgd = {"train": withdrawing}
    run = simulation(arrays(0), "local", **sgd)
    run.fit(1, progress=False)
    assert run.history[0].refused == {2: "not today"}


def test_records_of_which_none_can_be_read_are_refused():
    with pytest.raises(ArgumentError) as caught:
        simulation(Items([None] * ROWS), "record")
    assert caught.value.argument == "client 2"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_no_record_of_the_kind_could_be_is_refused_before_the_run(mechanism):
    """Of types and shapes that all records have, everybody may know."""
    for x in (TOKENS[2].astype(np.float32), TOKENS[2][:, None, None]):
        with pytest.raises((ArgumentError, RoundError)) as caught:
            simulation((x, LABELS[2]), mechanism)
        assert isinstance(caught.value, ArgumentError)


def test_numbers_that_are_the_same_in_the_usual_type_are_taken():
    x, y = as_tensors(Items([(1, 0.5), (2.0, 1), (3, 1.5)]), "records", hidden=True)
    assert (x.tolist(), y.tolist()) == ([1, 2, 3], [0.5, 1.0, 1.5])
    x, _ = as_tensors(Items([(np.nan, 0), (2.0, 1), (3.0, 1)]), "records", hidden=True)
    assert x[1:].tolist() == [2.0, 3.0]
    assert torch.isnan(x[0])
