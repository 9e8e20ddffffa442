"""Fewer bytes with masks: few bits a value with unbiased rounding, and a part of the values."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import fl
from extensions.errors import ArgumentError
from fl.subset import RandomSubset
from fl.weights import get_weights

VALUES, CLIENTS = 4000, 6
COARSE = fl.FixedPoint(frac_bits=7, clip=1.0, rounding="stochastic")


def updates():
    draws = np.random.default_rng(3)
    return {k: draws.uniform(-0.9, 0.9, VALUES) for k in range(CLIENTS)}


def test_stochastic_rounding_is_to_a_neighbour_and_unbiased():
    """The mean of n values has a deviation of at most 1 / (2 sqrt(n)) units: 6 of them here."""
    value = 0.3
    found = COARSE.encode(np.full(10**6, value)).astype(np.int64)
    assert set(found.tolist()) == {38, 39}
    assert abs(found.mean() - value * 2**7) < 6 * 0.5 / 1000


def test_what_is_on_the_grid_stays():
    grid = np.arange(-127, 128) / 128
    for _ in range(20):
        np.testing.assert_array_equal(COARSE.decode(COARSE.encode(grid)), grid)


@pytest.mark.parametrize(("bits", "lanes"), [(7, 5), (3, 8)])
def test_masked_sums_of_few_bits_are_exact_and_short(bits, lanes):
    fixed = fl.FixedPoint(frac_bits=bits, clip=1.0, rounding="stochastic")
    sent = {}
    weights = dict.fromkeys(range(CLIENTS), 1)
    for name, given in (("few", (fixed, lanes)), ("all", (fl.FixedPoint(), 1))):
        aggregator = fl.MaskedAggregator(fixed_point=given[0], lanes=given[1])
        found = fl.protocols.aggregate(aggregator, updates(), weights)
        messages = found.transcript.received(fl.protocols.SERVER, "masked")
        sent[name] = sum(message.body["values"].nbytes for message in messages)
        error = found.aggregate.mean - np.mean(list(updates().values()), axis=0)
        assert np.abs(error).max() <= 2.0 ** -given[0].frac_bits
        if name == "few":
            scaled = found.aggregate.mean * CLIENTS * 2**bits
            np.testing.assert_allclose(scaled, np.rint(scaled), atol=1e-9)
    assert sent["few"] == pytest.approx(sent["all"] / lanes, rel=0.01)


def learnt(mechanism, aggregator, rounds=12):
    draws = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (600,), generator=draws)
    x = 3.0 * nn.functional.one_hot(y, 3).float() + torch.randn((600, 3), generator=draws)
    torch.manual_seed(0)
    run = fl.FederatedAveraging(
        model=nn.Linear(3, 3),
        clients=fl.partition((x[:400], y[:400]), CLIENTS),
        aggregator=aggregator,
        mechanism=mechanism,
        client_fraction=1.0,
        weighting="equal",
    )
    history = run.fit(rounds, test_set=(x[400:], y[400:]), progress=False) if rounds else None
    return run, history


def test_a_part_of_the_values_is_exchanged_and_the_rest_stays():
    run, _ = learnt(RandomSubset(share=0.25), fl.MaskedAggregator(), rounds=0)
    before = get_weights(run.model)
    for number in (1, 2, 3):
        run.fit(1, progress=False)
        after = get_weights(run.model)
        places = run.mechanism.places(number)
        assert len(places) == 3
        assert set(np.flatnonzero(after != before)) <= set(places.tolist())
        assert (after[places] != before[places]).all()
        before = after


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_the_model_learns_from_a_part_of_the_values_in_few_bits(share):
    aggregator = fl.MaskedAggregator(fixed_point=replace(COARSE, saturation="clip"), lanes=5)
    _, history = learnt(RandomSubset(share=share), aggregator)
    assert history.accuracy > 0.85


def test_the_whole_is_as_without():
    one, _ = learnt(RandomSubset(share=1.0), fl.PlainAggregator(), rounds=2)
    other, _ = learnt(fl.protocols.Mechanism(), fl.PlainAggregator(), rounds=2)
    np.testing.assert_array_equal(get_weights(one.model), get_weights(other.model))


def test_bytes_fall_with_the_share():
    sent = [
        learnt(RandomSubset(share=share), fl.PlainAggregator(), rounds=1)[1][0].bytes_up
        for share in (1.0, 0.5)
    ]
    assert sent[0] - sent[1] == CLIENTS * 6 * 4


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_the_share_is_a_part(share):
    with pytest.raises(ArgumentError) as error:
        RandomSubset(share=share)
    assert (error.value.argument, error.value.code) == ("share", "range")
