"""Protocol 4 on every ring: the same candidate is taken, and ties, zeros and averages are right."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from extensions.ring.fixed_point import Integers, Reals, encode
from tests.conformance.arenas.arena import Arena, Cost, CrypTenArena

F = 16
CLASSES, FEATURES, ROWS = 4, 5, 24
RECORDS = (50, 7, 20)
LABELS = np.arange(ROWS) % CLASSES
TARGETS = encode(np.eye(CLASSES)[LABELS], F)
Model = list[tuple[Reals, Reals]]


def records() -> Reals:
    """Returns features whose first columns name the class, beside multiples of 1/64, none 0."""
    generator = np.random.default_rng(5)
    x = generator.choice([-3, -2, -1, 1, 2, 3], (ROWS, FEATURES)) / 64
    x[np.arange(ROWS), LABELS] += 0.5
    return x


X = records()


def linear_model(right: int, scale: float = 1.0) -> Model:
    """Returns a model of one layer that tells the first `right` classes apart, and no other."""
    weight = np.zeros((CLASSES, FEATURES))
    weight[np.arange(right), np.arange(right)] = scale
    return [(weight, np.zeros(CLASSES))]


def hidden_model(seed: int) -> Model:
    draw = np.random.default_rng(seed).normal
    return [
        (draw(0, 2.0, (6, FEATURES)), draw(0, 0.5, 6)),
        (draw(0, 2.0, (CLASSES, 6)), draw(0, 0.5, CLASSES)),
    ]


def misses(model: Model) -> int:
    """Returns in how many rows the true class has no lead over all others, in floating point."""
    value = X
    for i, (weight, bias) in enumerate(model):
        value = (np.clip(value, 0.0, 8.0) if i else value) @ weight.T + bias
    lead = value[np.arange(ROWS), LABELS][:, None] - value
    lead[np.arange(ROWS), LABELS] = 1.0
    assert np.abs(lead[lead != 0]).min() > 2.0**-10
    return int((lead.min(axis=1) <= 0).sum())


def mean(models: list[Model]) -> Model:
    share = np.array(RECORDS) / sum(RECORDS)
    return [
        tuple(sum(s * m[i][j] for s, m in zip(share, models, strict=True)) for j in range(2))
        for i in range(len(models[0]))
    ]


def inputs(models: list[Model], start: Model) -> list[Integers]:
    stacked = [
        encode(np.stack([m[i][j] for m in models]), F)
        for i, j in itertools.product(range(len(start)), range(2))
    ]
    own = [encode(part, F) for pair in start for part in pair]
    return [encode(X, F), TARGETS, *stacked, *own]


def taken(
    arena: Arena, models: list[Model], start: Model, strategy: str, weighting: str = "records"
) -> list[Integers]:
    return arena.evaluate(
        "initialize",
        inputs(models, start),
        frac_bits=F,
        strategy=strategy,
        records=RECORDS,
        weighting=weighting,
    )


def encoded(model: Model) -> list[Integers]:
    return [encode(part, F) for pair in model for part in pair]


@pytest.mark.hosts(rights=[(3, 1, 3), (0, 0, 0)])
@pytest.mark.parametrize("rights", [(1, 2, 4), (4, 1, 2), (2, 3, 1), (3, 1, 3), (0, 0, 0)])
def test_the_first_most_accurate_local_model_is_taken_exactly(arena: Arena, rights: tuple[int]):
    """Scales differ, so that a tie shows which one was taken."""
    models = [linear_model(right, 1.0 + i) for i, right in enumerate(rights)]
    best = min(range(3), key=lambda i: misses(models[i]))
    assert best == rights.index(max(rights))
    got = taken(arena, models, linear_model(0), "local-accuracy")
    for own, expected in zip(got, encoded(models[best]), strict=True):
        np.testing.assert_array_equal(own, expected)


def test_a_better_public_start_stays(arena: Arena):
    models = [linear_model(1, -1.0), linear_model(2, -1.0), linear_model(3, -1.0)]
    start = linear_model(4, 0.5)
    got = taken(arena, models, start, "local")
    for own, expected in zip(got, encoded(start), strict=True):
        np.testing.assert_array_equal(own, expected)


def test_a_start_of_zeros_counts_as_right_nowhere(arena: Arena):
    """All its logits are equal; a model that is right in one row is better."""
    assert misses(linear_model(0)) == ROWS
    models = [linear_model(1, -1.0), linear_model(1, -1.0), linear_model(1)]
    assert misses(models[2]) < ROWS == misses(mean(models))
    got = taken(arena, models, linear_model(0), "local")
    np.testing.assert_array_equal(got[0], encoded(models[2])[0])


def test_models_of_two_layers_are_compared_as_they_predict(arena: Arena):
    models = [hidden_model(seed) for seed in (5, 16, 7)]
    counts = [misses(model) for model in models]
    assert counts == [15, 11, 4]
    got = taken(arena, models, hidden_model(1), "local-accuracy")
    for own, expected in zip(got, encoded(models[int(np.argmin(counts))]), strict=True):
        np.testing.assert_array_equal(own, expected)


@pytest.mark.hosts(weighting=["records"])
@pytest.mark.parametrize(("weighting", "counts"), [("records", RECORDS), ("uniform", (1, 1, 1))])
def test_the_average_is_weighted_as_asked_within_an_ulp(
    arena: Arena, weighting: str, counts: tuple[int, ...]
):
    models = [hidden_model(seed) for seed in range(3)]
    got = taken(arena, models, hidden_model(9), "local-average", weighting)
    for i, own in enumerate(got):
        parts = [encoded(model)[i] for model in models]
        for index in np.ndindex(own.shape):
            exact = sum(
                Fraction(n * int(part[index]), sum(counts))
                for n, part in zip(counts, parts, strict=True)
            )
            assert abs(int(own[index]) - exact) < 1 + 3 * Fraction(2) ** (2 * F - 47)


def test_equal_models_are_their_own_average(arena: Arena):
    model = hidden_model(3)
    got = taken(arena, [model] * 3, hidden_model(9), "local-average")
    for own, expected in zip(got, encoded(model), strict=True):
        np.testing.assert_array_equal(own, expected)


@pytest.mark.hosts(values=[[5, 1, 1, 0, 0, 7], [2**50, 2**50 - 1, 2**50]])
@pytest.mark.parametrize(
    "values", [[3], [0, 0], [5, 1, 1, 0, 0, 7], [2**50, 2**50 - 1, 2**50], list(range(61, -1, -1))]
)
def test_the_first_of_the_smallest_is_marked(arena: Arena, values: list[int]):
    (got,) = arena.evaluate("first_smallest", [np.array(values, dtype=np.int64)])
    assert got.tolist() == [int(i == values.index(min(values))) for i in range(len(values))]


@pytest.mark.parametrize(("strategy", "rounds"), [("local-accuracy", 18), ("local", 19)])
def test_a_selection_costs_the_same_rounds_for_any_number_of_models(
    crypten_arena: CrypTenArena, strategy: str, rounds: int
):
    models = [linear_model(right) for right in (1, 2, 3)]
    options = {"frac_bits": F, "strategy": strategy}
    few, many = (
        crypten_arena.cost(
            "initialize",
            inputs(models * times, linear_model(0)),
            records=RECORDS * times,
            **options,
        )
        for times in (1, 3)
    )
    assert few.rounds == many.rounds == rounds
    assert few.words < many.words


def test_an_average_is_one_round(crypten_arena: CrypTenArena):
    models = [linear_model(right) for right in (1, 2, 3)]
    cost = crypten_arena.cost(
        "initialize",
        inputs(models, linear_model(0)),
        frac_bits=F,
        strategy="local-average",
        records=RECORDS,
    )
    assert cost == Cost(1, CLASSES * (FEATURES + 1))
