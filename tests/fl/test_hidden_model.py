"""Paillier rounds in which the server has neither model nor mean."""

from collections.abc import Callable

import gmpy2
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

import fl
from extensions.errors import RoundError
from fl import paillier
from fl.paillier.hidden.scale import MEAN_BITS, Scale
from fl.paillier.packing import as_integers
from fl.protocols import SERVER, Aggregator, Message, aggregate
from fl.simulation import DropOut, InProcessTransport
from fl.weights import get_weights
from tests.helpers.federated.attackers import innermost
from tests.helpers.federated.fuzzing import machines
from tests.helpers.federated.masked_rounds import altered, tamper
from tests.helpers.refused import refused
from tests.helpers.strategies import PROPERTY

CLIENTS, SIZE = 5, 6
X, Y = load_digits(return_X_y=True)
SCALE = Scale(fixed_point=fl.FixedPoint(frac_bits=16, clip=4.0), range=64.0, key_bits=256)


def hidden(**options: object) -> fl.PaillierAggregator:
    return fl.PaillierAggregator(
        key_bits=256, insecure_small_key=True, hide_model=True, timeout=7.0, **options
    )


def run(aggregator: Aggregator, **options: object) -> fl.FederatedAveraging:
    torch.manual_seed(3)
    given = {"client_fraction": 0.8, "lr": 0.3, "transcript": "all"} | options
    return fl.FederatedAveraging(
        model=fl.models.logistic(64, 10),
        clients=fl.partition((X[:300] / 16, Y[:300]), CLIENTS),
        aggregator=aggregator,
        **given,
    )


@pytest.mark.parametrize("weighting", ["records", "equal"])
def test_training_is_that_of_the_plain_aggregator_whoever_is_selected(weighting):
    """1 / weight in fixed point changes all steps by one factor, 1 + weight / 2^25 at most."""
    plain, ours = (run(a, weighting=weighting) for a in (fl.PlainAggregator(), hidden()))
    for one in (plain, ours):
        one.fit(4, progress=False)
    assert [r.selected for r in ours.history] == [r.selected for r in plain.history]
    assert len({r.selected for r in ours.history}) > 1, "clients who were not there come again"
    moved = np.abs(get_weights(plain.model) - get_weights(run(hidden()).model)).max()
    np.testing.assert_allclose(
        get_weights(ours.model), get_weights(plain.model), atol=4 * (2.0**-16 + moved * 2.0**-16)
    )


def test_server_sees_neither_model_nor_mean_and_clients_do():
    ours = run(hidden())
    ours.fit(2, progress=False)
    size = get_weights(ours.model).size
    transcript = ours.outcome.transcript
    seen = transcript.view(fl.Coalition(server=True))
    arrays = [value for m in seen for value in m.body.values() if isinstance(value, np.ndarray)]
    assert not [a for a in arrays if a.dtype.kind == "f" or a.size == size]
    assert ours.aggregator.leaks_to(fl.Coalition(server=True), ours.outcome) == frozenset()
    included = frozenset(ours.outcome.included)
    one = min(included)
    key = ours.aggregator.held_by(one)
    (mean,) = transcript.received(one, "mean")
    scale = ours.aggregator._scale
    texts = [paillier.decrypt(key, row) for row in as_integers(mean.body["mean"])]
    values = np.ldexp(scale.packing.unpack(texts, size, key.public.n), -scale.bits)
    np.testing.assert_allclose(values, ours.outcome.aggregate.mean, atol=2.0**-20)
    assert ours.aggregator.leaks_to(fl.Coalition({one}), ours.outcome) == {included - {one}}
    both = fl.Coalition({one}, server=True)
    singles = {frozenset({client}) for client in included - {one}}
    assert ours.aggregator.leaks_to(both, ours.outcome) == singles


def test_bytes_of_a_round_are_ciphertexts():
    """650 values in slots of 43 bits, 5 in a ciphertext of 64 bytes: 130, thrice."""
    ours = run(hidden(), client_fraction=1.0)
    ours.fit(2, progress=False)
    assert SCALE.limit.bit_length() + 1 == 48
    slots = 255 // 48
    vector = -(-650 // slots) * 64
    first, second = ours.history
    words = CLIENTS * 700
    assert 0 <= first.bytes_up - CLIENTS * vector < words
    assert 0 <= first.bytes_down - CLIENTS * vector < words, "the mean"
    assert 0 <= second.bytes_down - 2 * CLIENTS * vector < words, "the model as well"


def test_a_run_goes_on_from_its_file(tmp_path):
    whole = run(hidden())
    whole.fit(3, progress=False)
    before = run(hidden())
    before.fit(2, progress=False)
    before.save(tmp_path / "run.npz")
    after = run(hidden())
    after.load(tmp_path / "run.npz")
    after.fit(1, progress=False)
    np.testing.assert_allclose(get_weights(after.model), get_weights(whole.model), atol=2.0**-20)


@PROPERTY
@given(st.lists(st.floats(-4, 4), min_size=3, max_size=3), st.integers(1, 2**17))
def test_mean_is_that_of_the_sum_but_for_one_factor(values, weight):
    encoded = np.rint(np.ldexp(np.array(values) * weight, 16))
    mean = encoded.astype(object) * SCALE.factor(weight)
    found = np.ldexp(mean.astype(np.float64), -SCALE.bits)
    exact = encoded / weight * 2.0**-16
    np.testing.assert_allclose(found, exact, rtol=weight / 2 ** (MEAN_BITS + 1) + 1e-12, atol=1e-15)
    assert np.all(np.abs(mean) <= SCALE.limit - SCALE.farthest)


def played(aggregator: fl.PaillierAggregator, kind: str, alter: Callable, *senders: int):
    made = machines(aggregator, 1)
    tamper(kind, alter, *senders)(made)
    return InProcessTransport().run(made)


def test_client_whose_update_overflows_the_others_slots_ends_the_round_and_nothing_is_kept():
    ours = hidden()

    def spoilt(message: Message, _: object) -> Message:
        n = int(innermost(made[2])._public.n)
        rows = as_integers(message.body["ciphertexts"])
        grown = int(rows[0] * (1 + n * gmpy2.mpz(2) ** 230) % gmpy2.mpz(n) ** 2)
        rows[0] = grown
        return altered(message, ciphertexts=paillier.packing.as_rows(rows, 64))

    made = machines(ours, 1)
    tamper("update", spoilt, 2)(made)
    with pytest.raises(RoundError, match="0 of 5 clients could apply the mean.*out of range"):
        InProcessTransport().run(made)
    assert ours._stored.moved is None


def test_a_minority_that_cannot_apply_the_mean_is_named_and_the_round_goes_on():
    def zeros(message: Message, _: object) -> Message:
        if message.receiver in (1, 3):
            return altered(message, mean=np.zeros_like(message.body["mean"]))
        return message

    outcome = played(hidden(), "mean", zeros, SERVER)
    assert outcome.included == (0, 1, 2, 3, 4)
    assert {refusal.client for refusal in outcome.refusals} == {1, 3}
    expected = np.full(SIZE, sum(0.25 * k * (k + 1) for k in range(5)) / 15)
    np.testing.assert_allclose(outcome.aggregate.mean, expected, rtol=1e-5)


@pytest.mark.parametrize("kind", ["hello", "update", "applied"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_clients_that_vanish_are_named_and_the_others_go_on(kind, when):
    gone = [DropOut(1, kind, when)]
    ours = run(hidden(), client_fraction=1.0, drop_outs=lambda number: gone if number == 1 else ())
    ours.fit(2, progress=False)
    first, second = ours.history
    assert first.vanished == (1,)
    in_mean = kind == "applied" or (kind, when) == ("update", "after")
    assert (1 in first.included) == in_mean
    assert second.included == (0, 1, 2, 3, 4), "it has the model from the server's ciphertexts"


def test_model_that_would_leave_its_range_is_refused():
    far = run(hidden(model_range=0.01), client_fraction=1.0)
    with pytest.raises(RoundError, match=r"moved more than 0\.01 from its first values: raise"):
        far.fit(5, progress=False)


@pytest.mark.parametrize(
    ("options", "code", "value"),
    [
        ({"exchange": "weights"}, "choice", "weights"),
        ({"server_optimizer": fl.FedAvgM()}, "conflict", "FedAvgM"),
        (
            {"mechanism": fl.CentralDP(noise_multiplier=1.0, clip=1.0), "weighting": "equal"},
            *("value", "CentralDP"),
        ),
        ({"client_fraction": 0.4}, "range", 0.4),
    ],
)
def test_run_whose_server_needs_the_model_is_refused(options, code, value):
    with refused(next(iter(options)), code, value):
        run(hidden(), **options)


@pytest.mark.parametrize(
    ("make", "rule", "code", "value"),
    [
        (lambda: run(hidden(model_range=2.0**30)), "model_range", "range", 2.0**30),
        (lambda: run(hidden(model_range=0.0)), "model_range", "range", 0.0),
        (lambda: SCALE.factor(2**19), "total weight", "range", 2**19),
        (
            lambda: aggregate(hidden(), {0: np.ones(3), 1: np.ones(3)}),
            *("hide_model", "conflict", True),
        ),
    ],
)
def test_settings_out_of_range_are_refused(make, rule, code, value):
    with refused(rule, code, value):
        make()


def test_round_without_a_client_that_has_the_models_key_fails():
    ours = run(hidden())
    ours.fit(1, progress=False)
    for held in ours.aggregator._held.values():
        held.key = None
    with pytest.raises(RoundError, match="no client has the key under which the model is encr"):
        ours.fit(1, progress=False)
