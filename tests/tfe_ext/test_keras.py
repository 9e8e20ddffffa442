"""Private training of TF Encrypted's layers on ABY3: the same steps as everywhere, nothing opened.

Each step is compared from the weights at which it started, element by element, with the interval
of `tests.helpers.reference_dpsgd`; sampling and noise are replayed exactly.
"""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from extensions.layers.activations import OUTPUT_SLACK, relu, sigmoid
from extensions.layers.losses import Loss, residual_norm
from extensions.privacy.accounting import epsilon
from extensions.privacy.gaussian_table import MAX_DIGITS, digits, failure_bound
from extensions.privacy.randomness import InsecureSeededSource
from extensions.privacy.sampling import OVERFLOW_PROBABILITY, capacity, check_records, draw_rows
from extensions.protocols.dpsgd_plan import DEFAULT_WEIGHT_NORM, StepPlan
from extensions.ring.fixed_point import ENCODING_SLACK
from tests.helpers.reference_dpsgd import factors, gradients, noise_of
from tests.helpers.strategies import (
    ALARM,
    BINS_LIMIT,
    bins_statistic,
    chain_of_shapes,
    count_p_value,
)

TASKS = "tests.helpers.tfe_tasks.keras"
FEATURES, HIDDEN, CLASSES, RECORDS = 6, 5, 3, 20
SEED, RATE, LR, NOISE, F, SERVERS = 11, 0.6, 0.75, 2.0, 20, 3

CASES: dict[str, dict[str, Any]] = {
    "linear": {"max_grad_norm": 0.7, "steps": 10, "decay": 0.7},
    "momentum, falling rates": {
        "max_grad_norm": 0.7,
        "steps": 5,
        "decay": 0.4,
        "momentum": 0.75,
        "average": 0.6,
        "bias_scale": 0.5,
    },
    "momentum, rising rates": {"max_grad_norm": 0.7, "steps": 5, "decay": 1.7, "momentum": 0.75},
    "hidden": {"hidden": True, "max_grad_norm": 1.0, "steps": 2},
    "hidden sigmoid, no bias": {
        "hidden": True,
        "activation": "sigmoid",
        "bias": False,
        "max_grad_norm": 1.0,
        "steps": 2,
    },
    "softmax": {"max_grad_norm": 0.7, "steps": 2, "kind": "softmax"},
    "SGD": {"private": False, "steps": 2},
}
SHORT = ("momentum, falling rates",)
"""Each case traces a step for seconds; the others differ in what the core computes."""
COSTS = {"linear": 19, "hidden": 28, "hidden sigmoid, no bias": 30, "softmax": 27, "SGD": 12}
COSTS |= dict.fromkeys([case for case in CASES if "momentum" in case], COSTS["linear"])
LINEAR_SENT = [21064, 21064, 86728]
"""Bytes of each server in a step of a linear model, with momentum and without."""


@pytest.mark.parametrize(
    "task",
    [
        "lookup_is_that_of_the_table",
        "noise_is_drawn_by_each_server_in_the_graph",
        "inputs_are_masked",
        "a_fit_opens_nothing_and_ends_where_it_should",
        pytest.param("a_run_goes_on_from_its_checkpoints", marks=pytest.mark.long),
        pytest.param("steps_are_fresh", marks=pytest.mark.long),
        pytest.param("one_output_and_other_layers", marks=pytest.mark.long),
        "wrong_layers_are_refused",
        "a_name_of_no_activation_or_layer_is_told",
        "labels_are_numbers_of_any_kind",
        "a_summary_is_that_of_keras_and_opens_nothing",
        "wrong_arguments_are_refused",
    ],
)
def test_property_of_private_training(tfe_process, task):
    tfe_process.run(f"{TASKS}:{task}")


@pytest.mark.long
def test_steps_stay_as_fast_and_memory_as_small(tfe_process):
    tfe_process.run(f"{TASKS}:steps_stay_as_fast_and_memory_as_small")


def owned_records() -> list[dict[str, Any]]:
    parts = []
    for rank in range(SERVERS):
        draws = np.random.default_rng(rank)
        x = draws.standard_normal((RECORDS, FEATURES))
        x *= draws.uniform(0.2, 1.0, (RECORDS, 1)) / np.linalg.norm(x, axis=1, keepdims=True)
        parts.append({"x": np.trunc(x * 2**10) / 2**10, "y": draws.integers(0, CLASSES, RECORDS)})
    return parts


def replayed_batches(steps: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns the real rows and targets of each step, drawn again from the same seed."""
    own = [
        check_records(part["x"], part["y"], frac_bits=F, classes=CLASSES, max_feature_norm=1.0)
        for part in owned_records()
    ]
    source, batches = InsecureSeededSource(SEED), []
    for _ in range(steps):
        drawn = [
            draw_rows(records, party=i, sample_rate=RATE, rows=RECORDS, source=source)
            for i, records in enumerate(own)
        ]
        real = np.concatenate([rows.padding for rows in drawn]) == 0
        x = np.concatenate([rows.x for rows in drawn])[real]
        y = np.concatenate([rows.y for rows in drawn])[real]
        batches.append((x * 2.0**-F, y * 2.0**-F))
    return batches


def plan_of(
    widths: list[int],
    bias: bool,
    activation: str,
    steps: int,
    private: bool,
    c: float,
    loss: Loss,
    momentum: float,
    bias_scale: float,
) -> StepPlan:
    """Returns the public constants that the optimizer is documented to derive."""
    bound = {"relu": relu, "sigmoid": sigmoid}[activation]().bound
    norms = [ENCODING_SLACK, *(OUTPUT_SLACK * bound * math.sqrt(w) for w in widths[1:-1])]
    pairs = zip(itertools.pairwise(widths), norms, strict=True)
    each = capacity(RECORDS, RATE, OVERFLOW_PROBABILITY / (steps * SERVERS))
    return StepPlan(
        frac_bits=F,
        layers=chain_of_shapes(
            [(n, m, bias, norm) for (n, m), norm in pairs],
            delta_norm=residual_norm(loss, CLASSES),
            weight_norm=DEFAULT_WEIGHT_NORM,
            bias_bits=round(-math.log2(bias_scale)),
        ),
        rows=SERVERS * each,
        learning_rate=LR,
        expected_batch_size=RATE * RECORDS * SERVERS,
        max_grad_norm=c,
        noise_multiplier=NOISE if private else 0.0,
        parties=SERVERS,
        momentum=momentum,
        private=private,
    )


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[] if case in SHORT else [pytest.mark.long]) for case in CASES],
)
def test_steps_are_those_of_the_reference(tfe_process, case):
    """Ten steps of a linear model, two of others; rounds and epsilon are checked on the way.

    With a decay each step has another learning rate than the one before, in the same graph. With
    momentum no step is truncated by more bits than an earlier one. The end is the mean of the last
    iterates.
    """
    options = {"hidden": False, "activation": "relu", "bias": True, "private": True, **CASES[case]}
    defaults = {
        "max_grad_norm": 1.0,
        "kind": "sigmoid",
        "decay": 1.0,
        "momentum": 0.0,
        "average": 0.0,
        "bias_scale": 1.0,
    }
    options = defaults | options
    widths = [FEATURES, HIDDEN, CLASSES] if options.pop("hidden") else [FEATURES, CLASSES]
    draws, parameters = np.random.default_rng(5), []
    for n, m in itertools.pairwise(widths):
        parameters.append(draws.integers(-1024, 1025, (m, n)) / 2**10)
        bias = draws.integers(-512, 513, m) / 2**10
        parameters += [bias] if options["bias"] else []
    result = tfe_process.run(
        f"{TASKS}:train",
        parts=[{key: value.tolist() for key, value in part.items()} for part in owned_records()],
        parameters=[p.tolist() for p in parameters],
        lr=LR,
        rate=RATE,
        seed=SEED,
        noise=NOISE,
        **{key: value for key, value in options.items() if key != "bias"},
        bias=options["bias"],
    )
    plan = plan_of(
        widths,
        options["bias"],
        options["activation"],
        options["steps"],
        options["private"],
        options["max_grad_norm"],
        options["kind"],
        options["momentum"],
        options["bias_scale"],
    )
    activation = {"relu": relu, "sigmoid": sigmoid}[options["activation"]]()
    source, ulp, clipped, carried, shift = InsecureSeededSource(SEED), 2.0**-F, [], 0.0, 64
    batches = replayed_batches(options["steps"])
    for i, (step, (x, y)) in enumerate(zip(result["steps"], batches, strict=True)):
        rate = LR * options["decay"] ** i
        own = replace(plan, learning_rate=rate).step_ratio[1]
        shift = min(own, shift) if options["momentum"] else own
        exact = math.ldexp(rate / plan.expected_batch_size, shift)
        step = {when: [np.array(p) for p in values] for when, values in step.items()}
        found = gradients(step["before"], x, y, plan, activation, options["kind"])
        ratio = math.ldexp(max(1, round(exact)), -shift) * found.inputs
        each = [factor.reshape(-1, 1) * found.values for factor in factors(found, plan)]
        low = (np.minimum(*each) - found.errors).sum(axis=0)
        high = (np.maximum(*each) + found.errors).sum(axis=0)
        noise = noise_of(step, plan, source) if plan.private else 0.0
        before, after = (np.concatenate([p.ravel() for p in step[k]]) for k in ("before", "after"))
        moved = before - after - carried
        carried = options["momentum"] * (before - after)
        assert (ratio * (low + noise) - ulp <= moved).all()
        assert (moved <= ratio * (high + noise) + ulp).all()
        # Softmax rounds each exponential by as much as 2^-10 of their sum.
        tight = 0.1 if options["kind"] == "softmax" else 0.05
        assert (high - low).max() < tight * np.abs(low).max()
        clipped.append(float((factors(found, plan)[1] < 1.0).mean()))
    last = [step["after"] for step in result["steps"]][
        -max(1, round(options["average"] * options["steps"])) :
    ]
    for *column, found in zip(*last, result["end"], strict=True):
        np.testing.assert_allclose(found, np.mean(column, axis=0), atol=2 * ulp, rtol=2.0**-20)
    assert (max(clipped) > 0) == options["private"]
    assert result["rounds"] == COSTS[case]
    if COSTS[case] == COSTS["linear"]:
        assert result["sent"] == LINEAR_SENT
    assert result["graphs"] == 0, "traced after the first step"
    assert result["outside"] == 0
    if options["private"]:
        failure = failure_bound(SERVERS * sum(p.size for p in parameters) * options["steps"])
        spent = epsilon(
            noise_multiplier=NOISE,
            sample_rate=RATE,
            steps=options["steps"],
            delta=1e-5,
            overflow_probability=OVERFLOW_PROBABILITY + failure,
        )
        assert result["epsilon"] == pytest.approx(spent, rel=1e-9)


@pytest.mark.parametrize("scale", [3.0, 400.0, 2.0**46])
def test_draws_in_a_graph_have_the_distribution_and_a_wrong_scale_is_found(tfe_process, scale):
    """50,000 draws: each test fails by chance with probability 1e-9."""
    count = 50_000
    runs = np.array(tfe_process.run(f"{TASKS}:gaussians", scale=scale, count=count))
    for run in runs:
        assert bins_statistic(run, scale) < BINS_LIMIT < bins_statistic(run, 1.05 * scale)
    difference = (runs[0] - runs[1]) / scale / math.sqrt(2)
    assert abs(np.mean(difference**2) - 1.0) < 6.2 * math.sqrt(2 / count)


def test_no_draw_has_more_digits_than_the_bound_counts():
    assert len(digits(2.0**62 / 40 * 0.999)) <= MAX_DIGITS
    assert failure_bound(1) == MAX_DIGITS * 2.0**-54


def test_owners_sample_each_record_with_the_rate(tfe_process):
    """Each record's count and their sum are binomial; a rate 3 % larger is rejected."""
    count, rate, runs = 2000, 0.3, 150
    often, sizes = tfe_process.run(
        f"{TASKS}:samples", count=count, rate=rate, rows=count, runs=runs
    )
    assert count_p_value(sum(sizes), count * runs, rate) > ALARM
    assert count_p_value(sum(sizes), count * runs, 1.03 * rate) < ALARM
    assert count * min(count_p_value(n, runs, rate) for n in often) > ALARM
    assert len(set(sizes)) > 20


def test_a_sample_that_does_not_fit_is_cut_at_random(tfe_process):
    """Of 40 records 10 fit at rate 1: each is drawn with probability 1/4."""
    runs = 200
    often, sizes = tfe_process.run(f"{TASKS}:samples", count=40, rate=1.0, rows=10, runs=runs)
    assert set(sizes) == {10}
    assert 40 * min(count_p_value(n, runs, 0.25) for n in often) > ALARM


def test_more_rows_than_there_are_records_are_padded(tfe_process):
    """Equal pieces may take a few more."""
    often, sizes = tfe_process.run(f"{TASKS}:samples", count=10, rate=1.0, rows=13, runs=2)
    assert (often, sizes) == ([2] * 10, [10, 10])


@pytest.mark.parametrize("rows", [9, 11])
def test_a_person_is_drawn_with_all_records_or_with_none(tfe_process, rows):
    """Rows need not be a whole number of persons', nor as few as all have."""
    who = [7, 7, 4, 9, 7, 4]
    drawn = tfe_process.run(f"{TASKS}:samples_of_people", who=who, most=3, rows=rows, runs=200)
    people = {number: {i for i, one in enumerate(who) if one == number} for number in who}
    seen = set()
    for places in map(set, drawn):
        there = [number for number, own in people.items() if own <= places]
        assert places == set().union(*(people[number] for number in there))
        seen.add(tuple(there))
    assert len(seen) == 8  # misses one of them with probability below 8 (7/8)^200 < 2.1e-11


def test_owners_share_the_overflow_of_a_step(tfe_process):
    """Capacities are whole numbers: owners are as large as lets two of them exceed the bound."""
    rate, overflow = 0.2, 1e-9
    count = next(
        n
        for n in range(50, 500)
        if stats.binom.sf(capacity(n, rate, overflow), n, rate) > overflow / 2
    )
    rows = tfe_process.run(f"{TASKS}:rows_of_owners", count=count, rate=rate, overflow=overflow)
    assert len(rows) == SERVERS
    assert sum(stats.binom.sf(r, count, rate) for r in rows) <= overflow
