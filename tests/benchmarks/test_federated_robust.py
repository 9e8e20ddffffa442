"""The benchmark of attacks: what its attackers send, and the table that it records."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import fl
from benchmarks import tables
from benchmarks.__main__ import Benchmarks
from benchmarks.federated import robust
from benchmarks.federated.robust import ALL, ATTACKS, BACKDOOR, CLIP, HONEST, SCALED, SGD, Client
from fl.clients import LocalSGD
from tests.helpers.mnist_files import write_digits

X = torch.rand((40, 1, 28, 28), generator=torch.Generator().manual_seed(0))
RECORDS = TensorDataset(X, torch.arange(40) % 10)


def moved(client: int, training: LocalSGD) -> torch.Tensor:
    """What a client's training adds to a model, as one vector."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    before = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    torch.manual_seed(1)
    training(model, RECORDS, fl.ClientRound(number=1, client=client, seed=0))
    return nn.utils.parameters_to_vector(model.parameters()).detach() - before


@pytest.mark.parametrize("attack", ATTACKS)
def test_attackers_multiply_their_update_and_others_do_not(attack):
    plain = moved(0, LocalSGD(**SGD))
    torch.testing.assert_close(moved(4, Client(**SGD, attack=attack, aggregation="mean")), plain)
    found = moved(3, Client(**SGD, attack=attack, aggregation="mean"))
    if attack in ("none", "sign flip", "scaling"):
        torch.testing.assert_close(found, ATTACKS[attack] * plain, rtol=1e-3, atol=1e-4)
    else:
        assert float((found - plain).norm() / plain.norm()) > 0.1


@pytest.mark.parametrize(("aggregation", "held"), [(HONEST, False), (ALL, True)])
def test_norms_are_clipped_by_those_who_follow(aggregation, held):
    training = Client(**SGD, attack="scaling", aggregation=aggregation)
    norms = [float(moved(client, training).norm()) for client in (0, 4)]
    assert norms[1] == pytest.approx(CLIP, rel=1e-4)
    assert (norms[0] == pytest.approx(CLIP, rel=1e-3)) == held


def test_records_of_attackers_have_other_labels_or_a_trigger():
    x, y = robust.poisoned(RECORDS, "label flip").tensors
    assert torch.equal(x, X)
    assert torch.equal(y, 9 - RECORDS.tensors[1])
    for attack in (BACKDOOR, SCALED):
        x, y = robust.poisoned(RECORDS, attack).tensors
        assert torch.equal(x[::2], X[::2])
        assert torch.equal(x[1::2], robust.triggered(X[1::2]))
        assert torch.equal(y, torch.where(torch.arange(40) % 2 == 1, 0, RECORDS.tensors[1]))
    changed = (robust.triggered(X) != X).flatten(1).sum(dim=1)
    assert changed.tolist() == [9] * 40
    assert torch.equal(robust.poisoned(RECORDS, "scaling").tensors[0], X)


def test_the_command_records_accuracy_and_triggers_of_all_seeds(tmp_path, monkeypatch):
    write_digits(tmp_path)
    monkeypatch.setattr(tables, "RESULTS", tmp_path / "results")
    few = {name: robust.AGGREGATIONS[name] for name in ("mean", "multi-Krum")}
    monkeypatch.setattr(robust, "AGGREGATIONS", few)
    monkeypatch.setattr(robust, "ATTACKS", {k: ATTACKS[k] for k in ("none", BACKDOOR, SCALED)})
    options = ("--rounds", "4", "--seeds", "2", "--workers", "1", "--record")
    Benchmarks.call("benchmarks", "fl-robust", *options, "--data-dir", str(tmp_path))
    written = json.loads((tmp_path / "results" / "fl-robust.json").read_text())
    assert [row["aggregation"] for row in written["rows"]] == ["mean", "multi-Krum"]
    for row in written["rows"]:
        for attack in ("none", BACKDOOR, SCALED):
            right, taken = zip(*written["samples"][f"{row['aggregation']} / {attack}"], strict=True)
            assert row[attack] == f"{np.mean(right):.1f} ± {np.std(right, ddof=1):.1f}"
            assert row[f"trigger, {attack}"].startswith(f"{np.mean(taken):.1f}")
    opened = {name: np.mean(each, axis=0)[1] for name, each in written["samples"].items()}
    assert opened["mean / backdoor x 5"] > 50
    assert max(opened["mean / none"], opened["multi-Krum / backdoor x 5"]) < 20
