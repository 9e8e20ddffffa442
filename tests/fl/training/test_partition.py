"""Partitions: every record has one client, every client has records; models of the papers."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from torch.utils.data import Dataset, TensorDataset

import fl
from extensions.errors import ArgumentError
from tests.helpers.refused import refused
from tests.helpers.strategies import PROPERTY


def numbered(records: int, classes: int = 10) -> tuple[np.ndarray, np.ndarray]:
    labels = np.random.default_rng(records).integers(0, classes, records)
    return np.arange(records, dtype=np.float64), labels


def dealt(parts: list[TensorDataset]) -> list[int]:
    return sorted(int(number) for part in parts for number in part.tensors[0])


@PROPERTY
@given(
    st.sampled_from(["iid", "shards", "dirichlet", "quantity"]),
    st.integers(1, 20),
    st.integers(40, 300),
    st.integers(0, 2**32),
)
def test_every_record_has_one_client_and_every_client_has_records(scheme, n, records, seed):
    x, y = numbered(records)
    try:
        parts = fl.partition((x, y), n, scheme, alpha=50.0, seed=seed)
    except ArgumentError:
        assume(scheme not in ("dirichlet", "quantity"))
        raise
    assert dealt(parts) == list(range(records))
    for part in parts:
        rows, labels = part.tensors
        assert len(rows) > 0
        np.testing.assert_array_equal(labels, y[rows.long().numpy()])


@pytest.mark.parametrize("scheme", ["iid", "shards"])
def test_even_schemes_deal_equal_numbers(scheme):
    sizes = [len(part) for part in fl.partition(numbered(1000), 50, scheme)]
    assert sizes == [20] * 50


def test_shards_give_most_clients_few_classes():
    x, y = numbered(2000)
    classes = [len(part.tensors[1].unique()) for part in fl.partition((x, y), 50, "shards")]
    assert max(classes) <= 4
    assert np.mean(classes) < 2.5
    assert min(len(part.tensors[1].unique()) for part in fl.partition((x, y), 50)) > 4


def test_a_smaller_alpha_is_more_uneven():
    def evenness(alpha: float) -> float:
        parts = fl.partition(numbered(5000), 10, "dirichlet", alpha=alpha, seed=3)
        shares = [np.bincount(part.tensors[1], minlength=10) / len(part) for part in parts]
        return float(np.mean(np.max(shares, axis=1)))

    assert evenness(0.1) > 1.5 * evenness(1.0) > 1.5 * evenness(100.0)


def test_the_seed_decides():
    one, same, other = (
        [part.tensors[0].tolist() for part in fl.partition(numbered(100), 5, "shards", seed=seed)]
        for seed in (1, 1, 2)
    )
    assert one == same != other


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("clients", "alpha", "least"), [(100, 0.1, 1), (20, 0.1, 10), (50, 0.3, 5)]
)
def test_dirichlet_is_drawn_anew_until_every_client_has_its_fewest_records(
    clients, alpha, least, seed
):
    digits = load_digits(return_X_y=True)
    parts, again = (
        fl.partition(digits, clients, "dirichlet", alpha=alpha, min_size=least, seed=seed)
        for _ in range(2)
    )
    sizes = [len(part) for part in parts]
    assert min(sizes) >= least
    assert sum(sizes) == len(digits[1])
    for part, same in zip(parts, again, strict=True):
        assert torch.equal(part.tensors[0], same.tensors[0])


def test_a_first_draw_that_is_enough_is_the_partition():
    """As it was before there were others."""
    x, y = numbered(500)
    draws, wanted = np.random.default_rng(7), [[] for _ in range(4)]
    for label in range(10):
        rows = draws.permutation(np.flatnonzero(y == label))
        ends = np.rint(np.cumsum(draws.dirichlet(np.full(4, 1.0)))[:-1] * len(rows))
        for own, dealt_out in zip(wanted, np.split(rows, ends.astype(int)), strict=True):
            own.extend(dealt_out.tolist())
    parts = fl.partition((x, y), 4, "dirichlet", alpha=1.0, min_size=20, seed=7)
    assert [part.tensors[0].int().tolist() for part in parts] == [sorted(own) for own in wanted]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"min_size": 0}, "min_size"),
        ({"min_size": 1.5}, "min_size"),
        ({"min_size": 21}, "min_size"),
        ({"min_size": 2, "scheme": "iid"}, "min_size"),
        ({"min_size": 20}, "alpha"),
    ],
)
def test_fewest_records_that_cannot_be_are_refused(given, named):
    records = np.arange(40.0), np.zeros(40, dtype=int)
    with pytest.raises(ArgumentError) as caught:
        fl.partition(records, 2, **{"scheme": "dirichlet", "alpha": 0.001, **given})
    assert caught.value.argument == named


def test_client_without_records_is_an_error_that_names_it():
    with refused("alpha", "range", value=0.001):
        fl.partition(numbered(40), 20, "dirichlet", alpha=0.001)


@pytest.mark.parametrize(
    ("n", "scheme", "expected"),
    [
        (0, "iid", ("n", "range", 0)),
        (41, "iid", ("n", "range", 41)),
        (21, "shards", ("n", "range", 21)),
        (2, "even", ("scheme", "choice", "even")),
    ],
)
def test_impossible_partition_is_refused(n, scheme, expected):
    with refused(*expected):
        fl.partition(numbered(40), n, scheme)


class Squares(Dataset[tuple[float, int]]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> tuple[float, int]:
        return float(index**2), index % 2


def test_data_set_of_items_is_read():
    (part,) = fl.partition(Squares(), 1)
    assert part.tensors[0].tolist() == [0, 1, 4, 9, 16, 25]
    assert part.tensors[1].tolist() == [0, 1, 0, 1, 0, 1]


def test_records_without_labels_are_refused():
    with refused("dataset", "shape", "3 records, 2 labels"):
        fl.partition((np.zeros(3), np.zeros(2)), 1)


@pytest.mark.parametrize("scheme", ["shards", "dirichlet"])
def test_labels_that_name_no_classes_are_dealt_out_evenly_alone(scheme):
    """Rows of numbers have no order: every client got the same record."""
    rows = (np.zeros((8, 2)), np.arange(8.0)[:, None])
    with refused("scheme", "choice", scheme):
        fl.partition(rows, 2, scheme)
    assert sorted(len(part) for part in fl.partition(rows, 2)) == [4, 4]


@pytest.mark.parametrize(
    ("make", "parameters"),
    [(fl.models.mlp, 199_210), (fl.models.cnn, 1_663_370), (fl.models.cnn_mnist, 21_840)],
)
def test_models_have_the_papers_numbers_of_parameters(make, parameters):
    model = make()
    assert sum(entry.numel() for entry in model.parameters()) == parameters
    assert model(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_quantities_are_uneven_and_classes_are_not():
    x, y = numbered(6000)
    parts = fl.partition((x, y), 10, "quantity", alpha=0.5, min_size=50, seed=1)
    sizes = [len(part) for part in parts]
    assert min(sizes) >= 50
    assert max(sizes) > 4 * min(sizes)
    largest = parts[int(np.argmax(sizes))].tensors[1]
    assert np.bincount(largest, minlength=10).min() > 0.05 * len(largest)


def test_noise_grows_from_client_to_client():
    x = np.zeros((4000, 3))
    parts = fl.partition((x, np.zeros(4000, int)), 4, noise=2.0)
    found = [float(part.tensors[0].var()) for part in parts]
    np.testing.assert_allclose(found, [0.5, 1.0, 1.5, 2.0], rtol=0.12)
    again = fl.partition((x, np.zeros(4000, int)), 4, noise=2.0)
    torch.testing.assert_close(parts[3].tensors[0], again[3].tensors[0], rtol=0, atol=0)


def test_records_go_to_their_users():
    x, y = numbered(7)
    users = ["b", "a", "b", "c", "a", "b", "b"]
    found = fl.partition_by((x, y), users, min_size=2)
    assert {user: part.tensors[0].tolist() for user, part in found.items()} == {
        "a": [1.0, 4.0],
        "b": [0.0, 2.0, 5.0, 6.0],
    }
    assert list(found) == ["a", "b"]


@pytest.mark.parametrize(
    ("call", "argument", "code"),
    [
        (lambda x, y: fl.partition_by((x, y), ["a"] * 6), "users", "shape"),
        (lambda x, y: fl.partition_by((x, y), range(7), min_size=2), "min_size", "value"),
        (lambda x, y: fl.partition((x, y), 2, noise=-1.0), "noise", "range"),
        (lambda x, y: fl.partition((x.astype(int), y), 2, noise=1.0), "noise", "conflict"),
        (lambda x, y: fl.partition((x, y), 2, "shards", min_size=2), "min_size", "conflict"),
    ],
)
def test_what_cannot_be_dealt_out_is_told(call, argument, code):
    with pytest.raises(ArgumentError) as error:
        call(*numbered(7))
    assert (error.value.argument, error.value.code) == (argument, code)
