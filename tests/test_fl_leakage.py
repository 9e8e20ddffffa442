"""Deep leakage rebuilds a record from the plain view of an update, and not from protected views.

Another scheme is added to `PROTECTED` with its aggregator or its mechanism.
"""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fl
from extensions.errors import ArgumentError
from fl.leakage import NO_LEAK, attack, deep_leakage, vectors_sent
from fl.weights import get_weights
from tests.fl_digits import X, Y

LR = 0.1
RECORD = torch.tensor(X[1])
GREY = float(torch.mean((RECORD - RECORD.mean()) ** 2))
"""The error of a guess that is one grey."""


def model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(64, 16), nn.Sigmoid(), nn.Linear(16, 10))


SIZE = get_weights(model()).size


def sent_by_client_1(
    *, mechanism: fl.Mechanism | None = None, aggregator: fl.Aggregator | None = None
) -> list[fl.Vector]:
    """What the server reads of client 1, who trains one step on one record."""
    run = fl.FederatedAveraging(
        model=model(),
        clients=[(X[i : i + 1], Y[i : i + 1]) for i in range(3)],
        aggregator=aggregator or fl.PlainAggregator(),
        mechanism=mechanism or fl.Mechanism(),
        client_fraction=1.0,
        local_epochs=1,
        batch_size=None,
        lr=LR,
        weighting="equal",
    )
    run.fit(1, progress=False)
    assert run.outcome is not None
    return vectors_sent(run.outcome.transcript.view(fl.Coalition(server=True)), 1, SIZE)


def attacked(updates: list[fl.Vector], steps: int) -> fl.leakage.Reconstruction | None:
    return attack(model(), updates, lr=LR, shape=(64,), classes=10, steps=steps)


def test_plain_view_leaks_record_and_label():
    updates = sent_by_client_1()
    assert len(updates) == 1
    found = attacked(updates, 60)
    assert found is not None
    assert found.matches
    assert found.loss < 1e-6
    assert found.error(RECORD) < 1e-4 * GREY
    assert int(found.label.argmax()) == Y[1]
    assert float(found.label.max()) > 0.99
    assert found.losses[0] > 1e3 * found.loss


PROTECTED: dict[str, Any] = {
    "masked": {"aggregator": fl.MaskedAggregator()},
    "gaussian": {"mechanism": fl.LocalDP(epsilon=8.0, delta=1e-5, clip=0.5)},
    "laplace": {"mechanism": fl.LocalDP(epsilon=8.0, clip=0.5, noise="laplace")},
    "signds": {"mechanism": fl.SignDS(sign_k=0.1, sign_eps=10.0, sign_global_lr=0.1)},
}


@pytest.mark.parametrize("scheme", PROTECTED)
def test_protected_view_does_not_leak(scheme):
    updates = sent_by_client_1(**PROTECTED[scheme])
    assert len(updates) == 1
    found = attacked(updates, 15)
    assert found is not None
    assert found.loss > NO_LEAK
    assert not found.matches
    assert found.error(RECORD) > 0.5 * GREY


def test_central_noise_does_not_hide_an_update_from_the_server():
    mechanism = fl.CentralDP(noise_multiplier=10.0, clip=10.0, min_clients=3)
    found = attacked(sent_by_client_1(mechanism=mechanism), 60)
    assert found is not None
    assert found.error(RECORD) < 1e-4 * GREY


def test_only_rows_of_the_right_size_and_sender_are_read():
    ring = np.array([1 << 24, (1 << 64) - (1 << 23)], dtype=np.uint64)
    body = {"floats": np.array([0.5, -1.0], np.float32), "ring": ring, "short": ring[:1], "n": 3}
    view = [
        fl.Message(round=1, sender=sender, receiver=fl.SERVER, kind="any", body=body)
        for sender in (0, 1)
    ]
    floats, fixed = vectors_sent(view, 1, 2)
    assert floats.tolist() == [0.5, -1.0]
    assert fixed.tolist() == [1.0, -0.5]
    assert vectors_sent(view, 2, 2) == []
    assert attacked([], 1) is None


def test_gradient_of_another_size_is_refused():
    with pytest.raises(ArgumentError, match="gradient = "):
        deep_leakage(model(), np.zeros(SIZE - 1), shape=(64,), classes=10)
    with pytest.raises(ArgumentError, match="lr = "):
        attack(model(), [], lr=0.0, shape=(64,), classes=10)
