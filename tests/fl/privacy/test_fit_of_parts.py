"""Mechanisms, aggregators and models that do not go together are refused when a run is made."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import fl
from extensions.errors import ArgumentError, UpdateError
from fl.protocols import SERVER, aggregate
from fl.weights import get_weights, running_statistics
from tests.helpers.federated.digits import TEST, TRAIN, run_on_digits
from tests.helpers.refused import refused

COARSE = fl.FixedPoint(frac_bits=4, clip=4.0)
FINE = fl.FixedPoint(frac_bits=16, clip=4.0)


def central(**changed: object) -> fl.CentralDP:
    return fl.CentralDP(**{"noise_multiplier": 1.0, "clip": 1.0, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize("grid", [COARSE, FINE])
@pytest.mark.parametrize("make", [fl.MaskedAggregator, fl.ChainAggregator])
def test_grid_of_central_dp_is_no_finer_than_the_aggregators(make, grid):
    """On 4 bits 650 values of 0.039 become 0.0625 each: a norm of 1.59 C, and of 1.98 C at most."""
    with refused("frac_bits", "range", value=24):
        run_on_digits(central(), rounds=0, aggregator=make(fixed_point=grid))
    worst = np.full(650, 1 / math.sqrt(650))
    assert np.linalg.norm(COARSE.decode(COARSE.encode(worst))) > 1.5


def test_grid_of_the_aggregator_carries_what_central_dp_clipped_exactly():
    mechanism = central(frac_bits=16)
    run = run_on_digits(mechanism, rounds=0, aggregator=fl.MaskedAggregator(fixed_point=FINE))
    draws = np.random.default_rng(1).normal(size=650)
    round = run._announced(1, range(50))
    sent = mechanism.client(draws, round, 0)
    np.testing.assert_array_equal(FINE.decode(FINE.encode(sent)), sent)
    assert np.linalg.norm(sent) <= 1.0


def test_clipping_norm_lies_within_the_range_unless_values_are_cut():
    wide = central(clip=8.0, frac_bits=16)
    with refused("clip", "range", value=8.0):
        run_on_digits(wide, rounds=0, aggregator=fl.MaskedAggregator(fixed_point=FINE))
    cut = fl.FixedPoint(frac_bits=16, clip=4.0, saturation="clip")
    run_on_digits(wide, rounds=0, aggregator=fl.MaskedAggregator(fixed_point=cut))


def test_norm_that_adapts_may_need_the_finest_grid():
    """A norm of 64 has a grid of 18 bits, and one of 1 that it may become 24."""
    grid = fl.FixedPoint(frac_bits=20, clip=128.0)
    aggregator = fl.MaskedAggregator(fixed_point=grid)
    run_on_digits(central(clip=64.0), rounds=0, aggregator=aggregator)
    adaptive = central(clip=64.0, adaptive=fl.AdaptiveClipping())
    with refused("frac_bits", "range", value=24):
        run_on_digits(adaptive, rounds=0, aggregator=aggregator)


@pytest.mark.parametrize("options", [{"delta": 1e-5}, {"noise": "laplace"}])
def test_range_too_small_for_the_noise_of_local_dp_names_one_that_is_enough(options):
    mechanism = fl.LocalDP(epsilon=1.0, clip=1.0, **options)
    with refused("fixed_point.clip", "range", value=16.0) as caught:
        run_on_digits(mechanism, rounds=0, aggregator=fl.MaskedAggregator())
    enough = float(str(caught.value).partition("at least ")[2].split()[0])
    wide = fl.FixedPoint(clip=enough)
    run = run_on_digits(mechanism, rounds=1, aggregator=fl.MaskedAggregator(fixed_point=wide))
    assert len(run.history[-1].included) == 50
    cut = fl.FixedPoint(saturation="clip")
    run_on_digits(mechanism, rounds=0, aggregator=fl.MaskedAggregator(fixed_point=cut))


def test_range_that_noise_seldom_leaves_is_allowed():
    """Of 650 values of noise one is beyond 4 with probability 650 erfc(4 / (sqrt(2) sigma))."""
    aggregator = fl.MaskedAggregator(fixed_point=FINE)
    for epsilon, allowed in ((14.0, True), (10.0, False)):
        mechanism = fl.LocalDP(epsilon=epsilon, clip=1.0, delta=1e-5)
        chance = 650 * math.erfc(4 / (math.sqrt(2) * mechanism.scale))
        assert (chance < 0.01) == allowed
        if allowed:
            run_on_digits(mechanism, rounds=0, aggregator=aggregator)
        else:
            with refused("fixed_point.clip", "range", value=4.0):
                run_on_digits(mechanism, rounds=0, aggregator=aggregator)


def test_refused_ranges_tell_no_number_of_values():
    given = {k: np.zeros(4) for k in range(3)}
    texts = set()
    for beyond in (1, 3):
        given[1] = np.where(np.arange(4) < beyond, 99.0, 0.0)
        with pytest.raises(UpdateError) as caught:
            aggregate(fl.MaskedAggregator(), given)
        texts.add(str(caught.value))
    assert len(texts) == 1


# --- running statistics ---------------------------------------------------------------------------


def batched() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10))


def run_of_batches(**settings: object) -> fl.FederatedAveraging:
    given: dict[str, object] = {
        "model": batched(),
        "clients": fl.partition(TRAIN, 10),
        "aggregator": fl.PlainAggregator(),
        "client_fraction": 1.0,
        "local_epochs": 1,
        "weighting": "equal",
        **settings,
    }
    return fl.FederatedAveraging(**given)  # type: ignore[arg-type]


MECHANISMS = {
    "local": lambda: fl.LocalDP(epsilon=8.0, delta=1e-5, clip=1.0),
    "central": central,
    "signs": lambda: fl.SignDS(sign_k=0.1),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanism_never_changes_running_statistics(name):
    with refused("statistics", "choice", "exchange") as caught:
        run_of_batches(mechanism=MECHANISMS[name]())
    text = str(caught.value)
    assert "1.running_mean, 1.running_var" in text
    assert "GroupNorm" in text
    run = run_of_batches(mechanism=MECHANISMS[name](), statistics="keep", transcript="all")
    before = {k: v.clone() for k, v in run.model.state_dict().items()}
    run.fit(1, TEST, progress=False)
    after = run.model.state_dict()
    for key in ("1.running_mean", "1.running_var", "1.num_batches_tracked"):
        assert torch.equal(after[key], before[key])
    assert not torch.equal(after["1.weight"], before["1.weight"])
    (first, *_) = run.outcome.transcript.received(SERVER, "update")
    size = 64 * 8 + 8 + 16 + 80 + 10
    assert run.outcome.aggregate.mean.size == size
    if "places" in first.body:
        assert np.all(first.body["places"] < size)
    else:
        assert first.body["values"].size == size


def test_statistics_are_averaged_without_a_mechanism_and_may_be_kept():
    averaged = run_of_batches()
    averaged.fit(1, progress=False)
    assert averaged.model.state_dict()["1.running_mean"].abs().max() > 0
    kept = run_of_batches(statistics="keep")
    kept.fit(1, progress=False)
    left_out = ((), running_statistics(kept.model))
    sizes = [get_weights(kept.model, without=without).size for without in left_out]
    assert sizes[0] - sizes[1] == 16
    assert kept.model.state_dict()["1.running_mean"].abs().max() == 0
    with refused("statistics", "choice", value="drop"):
        run_of_batches(statistics="drop")


def test_run_with_kept_statistics_goes_on_where_it_was_saved(tmp_path):
    whole, first, second = (run_of_batches(statistics="keep") for _ in range(3))
    whole.fit(2, progress=False)
    first.fit(1, progress=False)
    first.save(tmp_path / "run.npz")
    second.load(tmp_path / "run.npz")
    second.fit(1, progress=False)
    np.testing.assert_array_equal(get_weights(second.model), get_weights(whole.model))
    with refused("statistics", "value", value="exchange"):
        run_of_batches().load(tmp_path / "run.npz")


# --- fractions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [1 / 3, 0.5, 2.0, np.float64(3.0), "3", None])
def test_paillier_takes_integers_and_never_cuts_a_fraction_off(fraction):
    key = fl.paillier.keygen(256, insecure_small_key=True)
    cipher = fl.paillier.encrypt(key.public, 90)
    for wrong in (
        lambda: fl.paillier.enc_mul_const(key.public, cipher, fraction),
        lambda: fl.paillier.enc_add_const(key.public, cipher, fraction),
        lambda: fl.paillier.encrypt(key.public, fraction),
        lambda: fl.paillier.ShortRandomness(key.public).encrypt(fraction),
        lambda: fl.paillier.enc_add(key.public, cipher, fraction),
        lambda: fl.paillier.enc_add_const(key.public, fraction, 1),
        lambda: fl.paillier.enc_mul_const(key.public, fraction, 1),
        lambda: fl.paillier.decrypt(key, fraction),
    ):
        with pytest.raises(ArgumentError) as caught:
            wrong()
        assert caught.value.argument in ("ciphertext", "constant", "plaintext")
    third = fl.paillier.enc_mul_const(key.public, cipher, np.int64(round(2**20 / 3)))
    assert fl.paillier.decrypt(key, third) / 2**20 == pytest.approx(30, abs=1e-4)
