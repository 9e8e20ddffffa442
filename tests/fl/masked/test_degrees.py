"""Degrees and thresholds of sparse graphs are the least with which nothing goes wrong."""

import itertools
import math
from math import comb, log2

import numpy as np
import pytest
from scipy.stats import hypergeom

import fl
from fl.masked.sparse import degrees
from fl.masked.sparse.degrees import Degree, rare_below, rare_from, ways
from tests.helpers.refused import refused


def staying(clients: int) -> int:
    return math.floor(clients * 2 / 3) + 1


def degree(clients: int, corrupt: float, dropping: float) -> Degree | None:
    graph = fl.SparseGraph(corrupt=corrupt, dropping=dropping)
    return graph.degree(clients, clients, graph.corrupted(clients), staying(clients))


def failures(clients: int, corrupt: int, lost: int, k: int, t: int) -> tuple[float, float]:
    """Returns the probabilities of t corrupt neighbours, and of fewer than t present ones."""
    exposed = (clients - corrupt) * hypergeom.sf(t - 1, clients - 1, corrupt, k)
    failed = clients * hypergeom.cdf(t - 1, clients - 1, clients - 1 - lost, k)
    return float(exposed), float(failed)


def test_tails_count_the_draws():
    numbers = ways(10, 4, 3)
    draws = [sum(x < 4 for x in draw) for draw in itertools.combinations(range(10), 3)]
    assert numbers == [draws.count(x) for x in range(4)]
    for most in range(sum(numbers) + 2):
        low, high = rare_below(numbers, most), rare_from(numbers, most)
        assert sum(numbers[:low]) <= most
        assert low == 4 or sum(numbers[: low + 1]) > most
        assert sum(numbers[high:]) <= most
        assert high == 0 or sum(numbers[high - 1 :]) > most


@pytest.mark.parametrize(
    ("clients", "corrupt", "dropping"), [(1000, 0.1, 0.3), (1000, 0.2, 0.3), (300, 0.1, 0.2)]
)
def test_degree_is_the_least_that_is_safe_and_its_sums_are_of_nearly_all(
    clients, corrupt, dropping
):
    found = degree(clients, corrupt, dropping)
    corrupted = round(corrupt * clients)
    exposed, failed = failures(
        clients, corrupted, round(dropping * clients), found.neighbours, found.needed
    )
    assert exposed <= 2.0**-41
    assert failed <= 2.0**-20
    lost = round(dropping * clients)
    for fewer in range(found.neighbours - 20, found.neighbours):
        tails = [failures(clients, corrupted, lost, fewer, t) for t in range(fewer)]
        within = [t for t, (shown, gone) in enumerate(tails) if shown <= 2**-41 and gone <= 2**-20]
        spare = within[-1] - within[0] + 1 if within else 0
        assert not spare or not degrees._large(fewer, clients, corrupted, staying(clients), spare)


@pytest.mark.parametrize("clients", [4, 6, 12])
def test_all_have_keys_with_all_where_few_would_save_less_than_a_third(clients):
    assert degree(clients, 0.2, 0.3) is None


def test_sparse_graphs_save_a_third():
    sparse = {n: found for n in range(20, 200, 7) if (found := degree(n, 0.1, 0.2))}
    assert len(sparse) > 10
    for clients, found in sparse.items():
        others = clients - 1
        drawn = 1 - found.neighbours / others
        assert 1 - drawn**2 <= 2 / 3


@pytest.mark.parametrize(
    ("size", "within", "stay"), [(2, 0, 8), (2, 1, 8), (3, 1, 8), (3, 1, 6), (4, 1, 8)]
)
def test_bounds_of_sets_whose_sum_comes_out_hold_in_random_graphs(size, within, stay):
    """12 clients, of which 1 is corrupt, draw 3 each; one set stands for all of its size.

    20,000 graphs: 5 standard errors are allowed.
    """
    clients, corrupt, k, graphs = 12, 1, 3, 20_000
    honest, missed = clients - corrupt, stay - corrupt - size
    order = np.random.default_rng(size + 10 * within).random((graphs, size, clients))
    order[:, range(size), range(size)] = 2.0
    drawn = order <= np.sort(order, axis=2)[:, :, k - 1 : k]
    inside = drawn[:, :, :size].sum(axis=2).min(axis=1) >= within
    free = honest - size - drawn[:, :, size:honest].any(axis=1).sum(axis=1)
    found = np.mean(inside & (free >= missed))
    least = found - 5 * math.sqrt(found / graphs)
    assert least > 0
    for bound in degrees._logs(size, k, clients, corrupt, stay, within):
        assert log2(comb(honest, size) * least) <= bound


def test_arguments_out_of_range_are_refused():
    for name in ("corrupt", "dropping"):
        for value in (-0.1, 0.5, math.nan):
            with refused(name, "range", value):
                fl.SparseGraph(**{name: value})
    with refused("dropping", "range", value=0.4):
        degree(1000, 0.1, 0.4)
