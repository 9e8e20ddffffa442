"""What a run leaves alone: the caller's records, and files that are nobody else's to read."""

import os
import stat

import numpy as np
import pytest
import torch
from torch import nn

import fl
from fl.remote.client import RemoteClient
from fl.training.settings import RunSettings
from fl.weights import get_weights
from tests.helpers.federated import remote as helpers

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 8)).astype(np.float32), RNG.integers(0, 3, 60)
DP = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "steps": 2, "sample_rate": 0.9, "lr": 0.1}


def normalising(model, records, round) -> None:
    """Trains on records that it normalises, and labels that it turns round, in place."""
    x, y = records.tensors
    x.sub_(x.mean(0)).mul_(0.5)
    y.neg_().add_(2)
    for _ in range(3):
        model.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad


class InPlace(nn.Module):
    """Changes its input in place, as a first layer with inplace=True does."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        return self.layer(x.mul_(0.5))


def clients() -> list[tuple[torch.Tensor, torch.Tensor]]:
    parts = np.array_split(np.arange(60), 4)
    return [(torch.tensor(X[part]), torch.tensor(Y[part])) for part in parts]


def fitted(own, **settings: object) -> fl.FederatedAveraging:
    given = {"model": InPlace(), "aggregator": fl.PlainAggregator(), "client_fraction": 1.0}
    averaged = fl.FederatedAveraging(clients=own, **given | settings)  # type: ignore[arg-type]
    averaged.fit(3, test_set=own[0], own_tests={1: own[1]}, progress=False)
    return averaged


@pytest.mark.parametrize("settings", [{}, {"train": normalising}], ids=["sgd", "train"])
def test_records_stay_as_they_were_and_runs_are_equal_whatever_the_number_of_workers(settings):
    models = []
    for workers in (1, 2):
        own = clients()
        models.append(get_weights(fitted(own, workers=workers, **settings).model))
        for (x, y), (was_x, was_y) in zip(own, clients(), strict=True):
            assert torch.equal(x, was_x)
            assert torch.equal(y, was_y)
    np.testing.assert_array_equal(*models)


def test_records_in_another_order_of_memory_give_the_same_run_in_workers():
    own = [(x.T.contiguous().T, y) for x, y in clients()]
    models = [get_weights(fitted(own, workers=n, train=normalising).model) for n in (1, 2)]
    np.testing.assert_array_equal(*models)


def test_no_step_of_record_dp_sees_what_an_earlier_one_left_of_a_record():
    own, seen = clients(), []

    class Watching(InPlace):
        def forward(self, x):
            seen.append(tuple(x.flatten().tolist()))
            return super().forward(x)

    averaged = fl.FederatedAveraging(
        model=Watching(),
        clients=own,
        client_fraction=1.0,
        aggregator=fl.PlainAggregator(),
        mechanism=fl.RecordDP(**DP),
    )
    seen.clear()  # what the model was tried on
    averaged.fit(2, progress=False)
    assert set(seen) <= {tuple(row.tolist()) for x, _ in own for row in x}
    assert len(seen) > 60
    assert all(torch.equal(x, was) for (x, _), (was, _) in zip(own, clients(), strict=True))


def test_a_client_on_another_host_starts_every_round_with_its_records_as_they_are(monkeypatch):
    monkeypatch.setattr(helpers, "mlp", InPlace)
    own = clients()[0]
    settings = RunSettings(aggregator=fl.PlainAggregator(), train=normalising)
    client = RemoteClient(settings=settings, model=InPlace(), clients=2, client=0, records=own)
    updates = [client._update(client._alone(1), get_weights(InPlace())) for _ in range(2)]
    np.testing.assert_array_equal(*updates)
    assert torch.equal(own[0], clients()[0][0])


def test_files_of_tensorboard_are_their_owners_alone(tmp_path):
    before = os.umask(0o022)
    try:
        there = tmp_path / "there"
        there.mkdir()
        folders = [tmp_path / "new" / "deeper", there]
        for folder in folders:
            write = fl.TensorBoardWriter(folder)
            averaged = fitted(clients())
            write(averaged.history, averaged.model)
            write._writer.close()  # a later scalar begins another file
            write(averaged.history, averaged.model)
        modes = [stat.S_IMODE(path.stat().st_mode) for f in folders for path in f.iterdir()]
        assert len(modes) >= 2
        assert set(modes) == {0o600}
        assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700, 0o755]
        (tmp_path / "other").touch()
        assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o644
    finally:
        os.umask(before)
