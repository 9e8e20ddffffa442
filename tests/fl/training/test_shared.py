"""What clients exchange of a model where each keeps a part to itself: FedBN, adapters, heads."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import fl
from extensions.errors import ArgumentError
from fl.clients import LocalSGD
from fl.simulation import DropOut
from fl.training.evaluation import evaluate
from fl.weights import Parts, get_weights
from tests.helpers.arrays import arrays_of
from tests.helpers.federated.remote import remote
from tests.helpers.refused import refused

SIZES = (8, 12, 6, 10)
LR, EPOCHS, BATCH = 0.1, 2, 4
SHARED = 5 * 4 + 4 + 4 * 3 + 3
"""Values of `batched` that are of no BatchNorm."""
STATISTICS = ("1.running_mean", "1.running_var", "1.num_batches_tracked")
NORM = ("1.weight", "1.bias", *STATISTICS)
WIDE = fl.FixedPoint(frac_bits=24, clip=2.0**4)
AGGREGATORS = {
    "plain": fl.PlainAggregator,
    "robust": lambda: fl.RobustAggregator(rule="median"),
    "masked": lambda: fl.MaskedAggregator(fixed_point=WIDE),
    "sparse": lambda: fl.MaskedAggregator(fixed_point=WIDE, graph=fl.SparseGraph(corrupt=0.0)),
    "chain": lambda: fl.ChainAggregator(WIDE),
    "paillier": lambda: fl.PaillierAggregator(key_bits=512, insecure_small_key=True),
    "hidden": lambda: fl.PaillierAggregator(key_bits=512, insecure_small_key=True, hide_model=True),
}
MEANS = [name for name in AGGREGATORS if name != "robust"]


def batched() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 3))


class Adapter(nn.Module):
    """A linear layer that is frozen, and the product of two thin matrices that are trained."""

    def __init__(self, inputs: int, outputs: int, rank: int = 2) -> None:
        super().__init__()
        self.base = nn.Linear(inputs, outputs).requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, inputs) / 4)
        self.up = nn.Parameter(torch.zeros(outputs, rank))

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


def adapted() -> nn.Module:
    torch.manual_seed(1)
    model = nn.Sequential(Adapter(5, 6), nn.BatchNorm1d(6), nn.Tanh(), Adapter(6, 3))
    model[1].requires_grad_(False)
    return model


def plain() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


def clients(sizes=SIZES):
    draws = torch.Generator().manual_seed(3)
    found = []
    for shift, rows in enumerate(sizes):  # features differ, as FedBN is for
        x = torch.randn((rows, 5), generator=draws) * (1 + shift) + shift
        found.append((x, torch.randint(0, 3, (rows,), generator=draws)))
    return found


def run_of(model=batched, aggregator="plain", **given) -> fl.FederatedAveraging:
    usual = {"client_fraction": 1.0, "local_epochs": EPOCHS, "batch_size": BATCH, "lr": LR}
    usual |= {"shared": "fedbn", "drop_last": True}
    return fl.FederatedAveraging(
        model=model(), clients=clients(), aggregator=AGGREGATORS[aggregator](), **usual | given
    )


def reference(run, model, local, rounds):
    """FedAvg of what is not local, by its definition: the server's model, and clients' parts."""
    server = model().state_dict()
    kept = {k: {name: server[name].clone() for name in local} for k in range(len(SIZES))}
    for number in range(1, rounds + 1):
        chosen, ends = run.select(number, len(SIZES)), {}
        for k in chosen:
            net = model()
            net.load_state_dict(server | kept[k])
            x, y = clients()[k]
            torch.manual_seed(run.of_client(number, k).seed)
            for _ in range(EPOCHS):
                for batch in torch.split(torch.randperm(len(x)), BATCH):
                    if len(batch) < BATCH:
                        continue
                    net.zero_grad()
                    cross_entropy(net(x[batch]), y[batch]).backward()
                    with torch.no_grad():
                        for p in net.parameters():
                            if p.grad is not None:
                                p -= LR * p.grad
            ends[k] = {name: v.detach().clone() for name, v in net.state_dict().items()}
            kept[k] = {name: ends[k][name] for name in local}
        whole = sum(SIZES[k] for k in chosen)
        server = {
            name: was
            if name in local or not was.is_floating_point()
            else sum(SIZES[k] * ends[k][name] for k in chosen) / whole
            for name, was in server.items()
        }
    return server, kept


def assert_close(found, expected, atol=5e-6):
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=atol, msg=name)


def changed(one: nn.Module, other: nn.Module) -> set[str]:
    after = other.state_dict()
    return {name for name, was in one.state_dict().items() if not torch.equal(was, after[name])}


@pytest.mark.parametrize("aggregator", MEANS)
@pytest.mark.parametrize("fraction", [1.0, 0.75])
def test_fedbn_is_the_papers_algorithm(aggregator, fraction):
    run = run_of(aggregator=aggregator, client_fraction=fraction)
    run.fit(4, progress=False)
    server, kept = reference(run, batched, NORM, 4)
    atol = 2e-3 if aggregator in ("paillier", "hidden") else 5e-6
    assert_close(run.model.state_dict(), server, atol)
    assert run.states.keys() == {k for r in run.history for k in r.included}
    for k, state in run.states.items():
        assert_close({n.removeprefix("local."): v for n, v in state.items()}, kept[k], atol)
        assert_close(run.model_of(k).state_dict(), server | kept[k], atol)
    assert len({float(kept[k]["1.running_mean"][0]) for k in run.states}) == len(run.states)


@pytest.mark.parametrize("shared", ["all", "trainable"])
def test_of_adapters_only_they_travel_and_the_base_is_as_it_was(shared):
    """Rank 2 on layers of 5 x 6 and 6 x 3: 22 and 18 values, and the statistics that all share."""
    run = run_of(adapted, shared=shared, transcript="all")
    run.fit(3, progress=False)
    local = STATISTICS if shared == "trainable" else ()
    size = 2 * (5 + 6) + 2 * (6 + 3) + (12 if shared == "all" else 0)
    assert run.outcome.aggregate.mean.size == size
    kinds = {entry.message.kind: entry.size for entry in run.outcome.transcript}
    assert (kinds["update"], kinds["model"]) == (4 * size + 23, 4 * size + 22)
    server, kept = reference(run, adapted, local, 3)
    assert_close(run.model.state_dict(), server)
    moved = {"0.down", "0.up", "3.down", "3.up"} | set(() if local else STATISTICS[:2])
    assert changed(adapted(), run.model) == moved
    for k in run.states:
        assert_close(run.model_of(k).state_dict(), server | kept[k])
    assert bool(run.states) == (shared == "trainable")


@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_bytes_are_those_of_a_model_without_what_is_kept(aggregator):
    sent = []
    for model, shared in ((batched, "all"), (batched, "fedbn"), (plain, "all")):
        run = run_of(model, aggregator, shared=shared)
        (report,) = run.fit(1, progress=False)
        sent.append((report.bytes_up, report.bytes_down, report.bytes_total))
        assert run.exchanged(run.model) == SHARED + 16 * (len(sent) == 1)
    assert sent[1] == sent[2]
    assert sent[1][2] < sent[0][2]
    if aggregator == "plain":
        assert sent[0][2] - sent[1][2] == len(SIZES) * 2 * 4 * 16


@pytest.mark.parametrize(
    "mechanism",
    [
        partial(fl.CentralDP, noise_multiplier=0.1, clip=1.0, sampling="fixed"),
        partial(fl.DistributedDP, noise_multiplier=0.1, clip=1.0),
        partial(fl.LocalDP, epsilon=8.0, delta=1e-3, clip=1.0),
        partial(fl.SignDS, sign_k=0.2),
        partial(fl.RandomSubset, share=0.5),
    ],
    ids=["central", "distributed", "local", "signds", "subset"],
)
def test_what_is_kept_is_neither_noised_nor_cut_nor_counted(mechanism):
    run = run_of(aggregator="masked", mechanism=mechanism(), weighting="equal")
    run.fit(2, progress=False)
    size = -(-SHARED // 2) if isinstance(run.mechanism, fl.RandomSubset) else SHARED
    assert size <= run.outcome.aggregate.mean.size <= size + 1
    assert not changed(batched(), run.model) & set(NORM)
    own = [{k for k in NORM if f"local.{k}" in state} for state in run.states.values()]
    assert own == [set(NORM)] * len(SIZES)


def test_a_part_that_record_dp_trains_stays_at_its_client():
    mechanism = fl.RecordDP(noise_multiplier=1.0, max_grad_norm=1.0, steps=2, sample_rate=0.5, lr=1)
    run = fl.FederatedAveraging(
        model=plain(),
        clients=clients(),
        aggregator=fl.PlainAggregator(),
        client_fraction=1.0,
        mechanism=mechanism,
        shared=("0.*",),
    )
    run.fit(1, progress=False)
    assert changed(plain(), run.model) == {"0.weight", "0.bias"}
    assert {*run.states[0]} == {"local.2.weight", "local.2.bias"}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_goes_on_from_a_checkpoint_with_what_clients_keep(tmp_path, workers):
    whole, first, second = (run_of(client_fraction=0.5, workers=n) for n in (1, workers, 1))
    whole.fit(5, progress=False)
    first.fit(3, checkpoint=tmp_path / "run.npz", progress=False)
    second.load(tmp_path / "run.npz")
    second.fit(2, progress=False)
    np.testing.assert_array_equal(get_weights(second.model), get_weights(whole.model))
    assert second.states.keys() == whole.states.keys()
    for k, state in whole.states.items():
        assert {name: v.tolist() for name, v in state.items()} == {
            name: v.tolist() for name, v in second.states[k].items()
        }
    with refused("shared", "value", value="trainable"):
        run_of(client_fraction=0.5, shared="trainable").load(tmp_path / "run.npz")


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v[:-1],
        lambda v: v.astype(np.float64),
        lambda v: None,
    ],
    ids=["shape", "type", "gone"],
)
def test_a_file_with_other_parts_is_refused_and_nothing_is_loaded(tmp_path, change):
    path = tmp_path / "run.npz"
    before = run_of()
    before.fit(1, progress=False)
    before.save(path)
    entries = arrays_of(path)
    entries["client.0.local.1.bias"] = change(entries["client.0.local.1.bias"])
    np.savez(path, **{k: v for k, v in entries.items() if v is not None})
    run = run_of()
    with refused("state of a client", "file"):
        run.load(path)
    assert (len(run.history), run.states) == (0, {})


def test_the_test_set_sees_the_parts_as_given_and_own_tests_those_of_the_client():
    run = run_of()
    x, y = clients()[2]
    (report,) = run.fit(1, (x, y), own_tests={1: (x, y), 2: (x, y)}, progress=False)
    server, kept = reference(run, batched, NORM, 1)
    for found, state in (
        ({"loss": report.loss, "accuracy": report.accuracy}, server),
        (report.of_clients[1], server | kept[1]),
        (report.of_clients[2], server | kept[2]),
    ):
        net = batched()
        net.load_state_dict(state)
        expected = evaluate(net, x, y, cross_entropy, {})
        assert found == pytest.approx(expected, abs=1e-5)
    assert len({report.loss, *(own["loss"] for own in report.of_clients.values())}) == 3
    assert run_of(shared="all").model_of(0).training


def test_a_client_whose_update_is_not_in_the_mean_goes_on_from_what_it_kept():
    run = run_of(drop_outs=lambda number: [DropOut(1, "update")] if number == 2 else [])
    run.fit(1, progress=False)
    before = copy.deepcopy(run.states)
    run.fit(1, progress=False)
    same = {
        k for k in before if torch.equal(before[k]["local.1.bias"], run.states[k]["local.1.bias"])
    }
    assert same == {1}


def test_a_training_of_ones_own_sees_its_own_state_and_metrics_travel():
    def train(model, records, round):
        assert set(round.state) <= {"rounds"}
        LocalSGD(epochs=1, batch_size=None, lr=LR, loss=cross_entropy)(model, records, round)
        count = round.state.get("rounds", torch.zeros(())) + 1
        return fl.ClientResult(metrics={"rounds": float(count)}, state={"rounds": count})

    train.metrics = ("rounds",)
    run = run_of(train=train, local_epochs=5, batch_size=10, drop_last=False)
    history = run.fit(2, progress=False)
    assert [report.trained["rounds"] for report in history] == [1.0, pytest.approx(2.0)]
    assert {"rounds", "local.1.bias"} <= set(run.states[0])


@pytest.mark.parametrize(
    ("shared", "code", "value"),
    [
        ("2.weight", "choice", ["2.weight"]),
        (("0.*", "9.*"), "choice", ["9.*"]),
        ("trainble", "choice", ["trainble"]),
        ((), "choice", []),
        (3, "type", 3),
        ((3,), "type", (3,)),
    ],
)
def test_names_that_nothing_has_are_refused(shared, code, value):
    with refused("shared", code, value):
        run_of(shared=shared)


def test_a_frozen_parameter_is_no_part_to_share():
    with refused("shared", "choice", ["0.base.weight"]):
        run_of(adapted, shared=("0.up", "0.base.weight"))


def test_parts_are_found_by_every_name_of_a_layer():
    model = batched()
    model.again = model[0]
    for shared in ("0.*", "again.*"):
        parts = Parts.of(model, shared=shared)
        assert get_weights(model, without=parts.without).size == 24
        assert set(parts.local) == {*NORM, "3.weight", "3.bias"}
    kept = Parts.of(batched(), statistics=False, shared="fedbn")
    assert set(kept.local) == {"1.weight", "1.bias"}
    assert set(kept.without) == {*NORM} - {"1.num_batches_tracked"}


@pytest.mark.parametrize("training", [fl.algorithms.Scaffold, fl.algorithms.NormalizedSGD])
def test_algorithms_on_the_whole_model_leave_no_part_at_a_client(training):
    own = training(epochs=1, batch_size=4, lr=0.1, loss=cross_entropy, drop_last=True)
    usual = {"train": own, "local_epochs": 5, "batch_size": 10, "drop_last": False}
    with refused("shared", "choice", "fedbn"):
        run_of(**usual)


def test_a_client_on_another_host_keeps_no_part():
    with pytest.raises(ArgumentError) as caught:
        remote(lambda: {"aggregator": fl.PlainAggregator(), "shared": "trainable"})
    assert (caught.value.argument, caught.value.code) == ("shared", "conflict")
