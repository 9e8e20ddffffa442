"""Deep leakage rebuilds a record exactly where `leaks_to` says that its update is known.

Views are those of the benchmark: another scheme is added there.
"""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import fl
from benchmarks import tables
from benchmarks.federated.leakage import command as fl_leakage
from benchmarks.federated.leakage.attacked import (
    ATTACKED,
    CLIENTS,
    LR,
    SCHEMES,
    Scheme,
    attacked_round,
    order_of,
    readings,
)
from benchmarks.federated.leakage.images import cifar100, digits
from fl import paillier
from fl.leakage import attack, ciphertexts, deep_leakage, rest_of_mean, running_sums, vectors_sent
from fl.protocols import SERVER, Aggregate, Mechanism, Message, Outcome, Transcript, Value, Vector
from fl.weights import get_weights
from tests.helpers.refused import refused

DIGITS = digits()
NUMBER = 598
RECORD = DIGITS.x[NUMBER]
GREY = float(RECORD.var(correction=0))
"""The error of a guess that is one grey."""
SIZE = get_weights(DIGITS.model()).size
VIEWS = [
    pytest.param(
        *(scheme, who),
        marks=[pytest.mark.long] if scheme.mechanism and "Gaussian" not in scheme.name else [],
    )
    for scheme in SCHEMES
    for who in scheme.views
]
"""A search for a record under noise is as long whatever the noise is."""


def attacked(updates: list[Vector]) -> fl.leakage.Reconstruction | None:
    model, shape = DIGITS.model(), RECORD.shape
    return attack(model, updates, lr=LR, shape=shape, classes=DIGITS.classes, steps=50, tries=3)


def test_plain_view_leaks_record_and_label():
    run = attacked_round(SCHEMES[0], DIGITS, NUMBER)
    updates = readings(run, fl.Coalition(server=True))
    assert len(updates) == 1
    found = attacked(updates)
    assert found is not None
    assert found.matches
    assert found.loss < 1e-6
    assert found.error(RECORD) < 1e-4 * GREY
    assert int(found.label.argmax()) == DIGITS.y[NUMBER]
    assert float(found.label.max()) > 0.99
    assert found.losses[0] > 1e3 * found.loss


@pytest.mark.parametrize(("scheme", "who"), VIEWS, ids=lambda value: getattr(value, "name", value))
def test_record_is_rebuilt_where_the_update_is_known_and_as_it_was_trained(scheme, who):
    """Noise is fresh: in 25 rounds each no loss was below 4, and no error below 400 greys."""
    run = attacked_round(scheme, DIGITS, NUMBER)
    coalition = scheme.views[who](order_of(run))
    assert run.outcome is not None
    known = frozenset({ATTACKED}) in run.aggregator.leaks_to(coalition, run.outcome)
    found = attacked(readings(run, coalition))
    assert found is not None
    if known and scheme.mechanism is None:
        assert found.matches
        assert found.error(RECORD) < 1e-4 * GREY
    else:
        assert found.error(RECORD) > 0.4 * GREY
        assert found.matches == (who == "everybody"), "only a blend of records matches their mean"
    several = len(coalition.clients) + coalition.server > 1
    assert known == (several or scheme.mechanism is not None or scheme.name == "none")


def test_central_noise_does_not_hide_an_update_from_the_server():
    def noise() -> Mechanism:
        return fl.CentralDP(noise_multiplier=10.0, clip=10.0, min_clients=CLIENTS)

    scheme = Scheme(name="CentralDP", mechanism=noise, views={})
    found = attacked(readings(attacked_round(scheme, DIGITS, NUMBER), fl.Coalition(server=True)))
    assert found is not None
    assert found.error(RECORD) < 1e-4 * GREY


def test_only_rows_of_the_right_size_and_sender_are_read():
    ring = np.array([1 << 24, (1 << 64) - (1 << 23)], dtype=np.uint64)
    body = {"floats": np.array([0.5, -1.0], np.float32), "ring": ring, "short": ring[:1], "n": 3}
    view = [message("any", sender, **body) for sender in (0, 1)]
    floats, fixed = vectors_sent(view, 1, 2)
    assert floats.tolist() == [0.5, -1.0]
    assert fixed.tolist() == [1.0, -0.5]
    assert vectors_sent(view, 2, 2) == []
    assert attacked([]) is None


def message(kind: str, sender: int, **body: Value) -> Message:
    return Message(round=1, sender=sender, receiver=SERVER, kind=kind, body=body)


def token(value: int, *users: int, mask: int = 1) -> Message:
    values = np.array([value << 24], dtype=np.uint64)
    body = {"chain": 0, "mask": mask, "users": np.array(users, dtype=np.int64), "values": values}
    return message("token", users[-1] if users else SERVER, **body)


def test_running_sums_are_read_by_all_differences_under_one_mask():
    """Updates 1, 2, 4 of clients 7, 8, 9 on masks 100 and 200."""
    view = [token(100), token(101, 7), token(107, 7, 8, 9), token(201, 7, mask=2)]
    assert [row.item() for row in running_sums(view, 8, 1)] == [6.0, 7.0, 107.0]
    assert [row.item() for row in running_sums(view, 7, 1)] == [1.0, 101.0, 201.0, 7.0, 107.0]
    assert running_sums(view, 6, 1) == []


@pytest.mark.parametrize("r", [1, 12345])
def test_ciphertexts_without_the_key_tell_what_nothing_blinds(r):
    private = paillier.keygen(256, insecure_small_key=True)
    packing = paillier.Packing(limit=1000, slots=20)
    units = np.arange(-12, 13)
    plaintexts = packing.pack(units, private.public.n)
    rows = paillier.packing.as_rows(
        [paillier.encrypt(private.public, m, r) for m in plaintexts], 64
    )
    view = [message("update", client, ciphertexts=rows) for client in (0, 1)]
    for key, opens in ((private, True), (private.public, r == 1)):
        (read,) = ciphertexts(view, 1, 25, packing, key, frac_bits=2)
        assert np.array_equal(read, units / 4) == opens


def test_rest_of_a_mean_is_that_of_the_others():
    aggregate = Aggregate(np.array([2.0, 3.0]), (1, 2, 5))
    outcome = Outcome(aggregate, (), (), 0.0, Transcript())
    own = {1: np.array([1.0, 1.0]), 3: np.array([9.0, 9.0])}
    np.testing.assert_allclose(rest_of_mean(outcome, own), [2.5, 4.0])
    np.testing.assert_array_equal(rest_of_mean(outcome, {}), [2.0, 3.0])
    with refused("own", "value", [1, 2, 5]):
        rest_of_mean(outcome, dict.fromkeys((1, 2, 5), own[1]))


def test_gradient_of_another_size_is_refused():
    with refused("gradient", "shape", (2409,)):
        deep_leakage(DIGITS.model(), np.zeros(SIZE - 1), shape=RECORD.shape, classes=10)
    with refused("lr", "range", value=0.0):
        attack(DIGITS.model(), [], lr=0.0, shape=RECORD.shape, classes=10)


@pytest.mark.long
def test_command_has_a_row_for_every_view(monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    fl_leakage.main(records=1, steps=8, tries=3, record=True)
    rows = json.loads((tmp_path / "fl-leakage-digits.json").read_text())["rows"]
    assert [(row["protection"], row["seen by"]) for row in rows] == [
        (scheme.name, who) for scheme, who in VIEWS
    ]
    rebuilt = {row["update known"]: set() for row in rows}
    for row in rows:
        rebuilt[row["update known"]].add(row["rebuilt"])
    assert rebuilt == {"yes": {"1 of 1"}, "no": {"0 of 1"}, "as protected": {"0 of 1"}}
    with refused("data", "choice", "mnist"):
        fl_leakage.main(data="mnist")


def test_images_are_read_from_a_strip_and_missing_files_are_named(tmp_path):
    pixels = np.random.default_rng(1).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    with refused("data_dir", "file", str(tmp_path)):
        cifar100(tmp_path)
    strip = Image.fromarray(pixels.reshape(64, 32, 3))
    strip.save(tmp_path / "subset500.webp", lossless=True, exact=True)
    np.savez(tmp_path / "labels.npz", y=np.array([7, 99], dtype=np.uint8))
    images = cifar100(tmp_path)
    assert images.y.tolist() == [7, 99]
    np.testing.assert_allclose(images.x[1, 2].numpy() * 255, pixels[1, :, :, 2], atol=1e-4)
