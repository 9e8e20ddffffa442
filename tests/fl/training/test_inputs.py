"""Records, labels and models as users have them: taken, or refused before anything is sent."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

import fl
from extensions.errors import ArgumentError
from fl.clients import LocalSGD
from fl.weights import get_weights
from tests.fl.training.test_federated import FEW
from tests.helpers.refused import refused

X, Y = FEW[0].astype(np.float32), FEW[1]
ALL = range(6)


def clients(x: Any = X, y: Any = Y) -> list[tuple[Any, Any]]:
    return [(x[k::6], y[k::6]) for k in ALL]


def linear(outputs: int = 10) -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(64, outputs)


def of(**settings: Any) -> fl.FederatedAveraging:
    given = {"model": linear(), "clients": clients(), "aggregator": fl.PlainAggregator()}
    return fl.FederatedAveraging(**{**given, "client_fraction": 1.0, "local_epochs": 1, **settings})


def ran(test: Any = None, **settings: Any) -> fl.FederatedAveraging:
    run = of(**settings)
    run.fit(1, test, progress=False)
    assert run.history[0].included == tuple(ALL)
    return run


class Column:
    """A table or a column of another library."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.columns = range(values.shape[-1])

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, name: int) -> np.ndarray:
        return self.values[:, name]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.values

    def to_numpy(self) -> np.ndarray:
        return self.values


def of_objects(values: np.ndarray) -> np.ndarray:
    return np.array(values.tolist(), dtype=object)


PAIRS: dict[str, Callable[[], Any]] = {
    "tables": lambda: (pd.DataFrame(X), pd.Series(Y)),
    "table and list": lambda: (pd.DataFrame(X), Y.tolist()),
    "array and column": lambda: (X, pd.Series(Y, index=range(100, 100 + len(Y)))),
    "columns of objects": lambda: (pd.DataFrame(X).astype(object), pd.Series(Y).astype(object)),
    "columns that may be empty": lambda: (pd.DataFrame(X), pd.Series(Y).astype("Int64")),
    "categories": lambda: (pd.DataFrame(X), pd.Series(Y).astype("category")),
    "another library": lambda: (Column(X), Column(Y)),
    "lists": lambda: (X.tolist(), Y.tolist()),
    "objects": lambda: (of_objects(X), of_objects(Y)),
    "arrays of objects": lambda: (np.array([*X, None], dtype=object)[:-1], Y),
    "lists of tensors": lambda: (list(torch.tensor(X)), list(torch.tensor(Y))),
    "tensors that are trained": lambda: (torch.tensor(X, requires_grad=True), torch.tensor(Y)),
    "arrays that are read alone": lambda: tuple(
        np.frombuffer(v.tobytes(), v.dtype).reshape(v.shape) for v in (X, Y)
    ),
    "a list of pairs": lambda: list(zip(X, Y, strict=True)),
    "a list of lists": lambda: [(x.tolist(), int(y)) for x, y in zip(X, Y, strict=True)],
    "a part of a data set": lambda: Subset(
        TensorDataset(torch.tensor(X), torch.tensor(Y)), range(len(X))
    ),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_any_kind_are_taken_everywhere(name):
    pair = PAIRS[name]()
    for mine, plain in zip(fl.partition(pair, 6), fl.partition((X, Y), 6), strict=True):
        torch.testing.assert_close(mine.tensors, plain.tensors, check_dtype=False)
    run, plain = (ran(each, clients=[each] * 6) for each in (pair, (X, Y)))
    np.testing.assert_array_equal(get_weights(run.model), get_weights(plain.model))
    assert run.history.accuracy == plain.history.accuracy


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        yield X[0], Y[0]


class Named(Dataset[Any]):
    """Items by the names of their parts."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        return {"image": X[index], "label": Y[index]}


NO_PAIRS: dict[str, tuple[Callable[[], Any], str]] = {
    "a table without labels": (lambda: pd.DataFrame(X), "DataFrame"),
    "one that has fewer rows than columns": (lambda: pd.DataFrame(X[:2]), "DataFrame"),
    "a column": (lambda: pd.Series(Y), "Series"),
    "another library": (lambda: Column(X[:2]), "Column"),
    "a mapping": (lambda: {0: (X[0], Y[0]), 1: (X[1], Y[1])}, "dict"),
    "an array": (lambda: X, "ndarray"),
    "a tensor": (lambda: torch.tensor(X), "Tensor"),
    "batches": (lambda: DataLoader(TensorDataset(torch.tensor(X), torch.tensor(Y))), "DataLoader"),
    "a stream": (Endless, "Endless"),
    "names": (Named, "Named"),
    "nothing": (lambda: None, "NoneType"),
    "three": (lambda: (X, Y, Y), "tuple of ndarray, ndarray, ndarray"),
    "one": (lambda: (X,), "tuple of ndarray"),
    "texts": (lambda: (pd.DataFrame({"side": list("abc")}), Y[:3]), "tuple of DataFrame, ndarray"),
    "labels that are texts": (lambda: (X, Y.astype(str)), "tuple of ndarray, ndarray"),
    "dates": (
        lambda: (pd.DataFrame({"on": pd.date_range("2020", periods=3)}), Y[:3]),
        "tuple of DataFrame, ndarray",
    ),
    "a sparse tensor": (lambda: (torch.tensor(X).to_sparse(), Y), "tuple of Tensor, ndarray"),
    "uneven rows": (lambda: ([[1.0], [1.0, 2.0]], [0, 1]), "tuple of list, list"),
}


@pytest.mark.parametrize("name", NO_PAIRS)
def test_what_is_no_pair_of_numbers_is_refused_by_its_type(name):
    make, kind = NO_PAIRS[name]
    run = of()
    for argument, asked in (
        ("dataset", lambda: fl.partition(make(), 1)),
        ("client 2", lambda: of(clients=[FEW, FEW, make()])),
        ("test_set", lambda: run.fit(1, make(), progress=False)),
        ("own_tests[1]", lambda: run.fit(1, own_tests={1: make()}, progress=False)),
    ):
        if argument == "test_set" and name == "nothing":
            continue
        with pytest.raises(ArgumentError) as caught:
            asked()
        assert (caught.value.argument, caught.value.value) == (argument, kind)
    assert len(run.history) == 0


@pytest.mark.parametrize("given", [None, 3, pd.DataFrame(X), X, iter(()), {}])
def test_clients_that_are_no_list_of_data_sets_are_refused(given):
    with pytest.raises(ArgumentError) as caught:
        of(clients=given)
    assert caught.value.argument in ("clients", "client 0")


INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
LOSSES = {
    "function": functional.cross_entropy,
    "module": nn.CrossEntropyLoss(),
    "likelihood": functional.nll_loss,
    "margins": functional.multi_margin_loss,
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", INTEGERS)
def test_labels_of_any_integers_number_classes(loss, kind):
    y = (Y > 4 if kind == "bool" else Y).astype(kind)
    run = ran((X, y), clients=clients(X, y), loss=LOSSES[loss])
    plain = ran((X, y), clients=clients(X, y.astype("int64")), loss=LOSSES[loss])
    np.testing.assert_array_equal(get_weights(run.model), get_weights(plain.model))
    assert run.history.accuracy == plain.history.accuracy
    mixed = [(x, own.astype(INTEGERS[k])) for k, (x, own) in enumerate(clients())]
    ran((X, y), clients=mixed, loss=LOSSES[loss])


def squares(outputs: Tensor, labels: Tensor) -> Tensor:
    return ((outputs - labels) ** 2).mean()


def own_squares(outputs: Tensor, labels: Tensor) -> Tensor:
    return functional.mse_loss(outputs[:, 0], labels.float())


ELEMENTWISE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse_loss": functional.mse_loss,
    "MSELoss": nn.MSELoss(),
    "l1_loss": functional.l1_loss,
    "sum": nn.HuberLoss(reduction="sum"),
    "own": squares,
}
IMAGES = nn.Unflatten(1, (1, 8, 8))
FLAT = nn.Sequential(nn.Linear(64, 1), nn.Flatten(0))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("loss", ELEMENTWISE)
@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "int32", "uint8"])
def test_targets_are_paired_with_their_own_outputs_or_refused(loss, kind):
    """PyTorch makes (n, n) of (n, 1) and (n,): every output would go to the mean of all targets."""
    chosen, y = ELEMENTWISE[loss], Y.astype(kind)
    for model, targets in (
        (linear(1), y),
        (FLAT, y[:, None]),
        (FLAT, y[:, None, None]),
        (linear(1), y[:, None, None]),
        (linear(10), y),
    ):
        with pytest.raises(ArgumentError) as caught:
            of(model=model, clients=clients(X, targets), loss=chosen, batch_size=10)
        assert caught.value.argument == "labels of client 0"
    for model, targets in ((linear(1), y[:, None]), (FLAT, y)):
        if loss == "sum" and not kind.startswith("float"):  # which PyTorch does not differentiate
            with refused("labels of client 0", "data"):
                of(model=model, clients=clients(X, targets), loss=chosen)
            continue
        run = of(model=model, clients=clients(X, targets), loss=chosen, lr=1e-3, batch_size=None)
        with pytest.raises(ArgumentError) as caught:
            run.fit(1, (X, y if targets.ndim == 2 else y[:, None]), progress=False)
        assert caught.value.argument == "labels of test_set"
        run.fit(1, (X, targets), progress=False)
        assert run.history[0].included == tuple(ALL)


def test_targets_as_many_as_classes_are_no_classes():
    """(10, 10) and (10,) are broadcast without a word, where steps have ten records."""
    for loss in (functional.mse_loss, squares):
        with refused("labels of client 0", "data", "torch.int64 of shape (10,)"):
            of(loss=loss, batch_size=10)


def test_a_loss_that_pairs_them_itself_takes_whole_numbers():
    run = ran((X, Y), model=linear(1), loss=own_squares, lr=1e-3)
    assert run.history[0].loss > 0


def test_labels_that_a_loss_does_not_take_are_named_before_a_round():
    for loss in (
        functional.binary_cross_entropy_with_logits,
        nn.BCEWithLogitsLoss(),
        functional.kl_div,
    ):
        with pytest.raises(ArgumentError) as caught:
            of(loss=loss)
        assert caught.value.argument == "labels of client 0"
        assert "floating-point" in caught.value.hint
    y = (Y > 4).astype(np.float64)[:, None]
    ran((X, y), model=linear(1), clients=clients(X, y), loss=nn.BCEWithLogitsLoss())


def normed(**settings: Any) -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8, **settings), nn.Linear(8, 10))


UNEVEN = [(X[:n], Y[:n]) for n in (9, 8, 4, 2, 12, 5)]


@pytest.mark.parametrize("tracked", [True, False])
def test_last_steps_of_one_record_are_left_out_or_refused_with_batchnorm(tracked):
    given = {"model": normed(track_running_stats=tracked), "clients": UNEVEN, "batch_size": 4}
    with pytest.raises(ArgumentError) as caught:
        of(**given)
    assert "client 5" in caught.value.argument or "client 0" in caught.value.argument
    assert "drop_last" in caught.value.hint
    ran(FEW, **given, drop_last=True)
    ran(FEW, **{**given, "batch_size": None})
    one = [*UNEVEN[1:], (X[:1], Y[:1])]
    for size in (4, None):
        with refused("fewest records in a step of client 5", "range", value=1):
            of(**{**given, "clients": one, "batch_size": size}, drop_last=True)
    with refused("fewest records in a step of client 5", "range", value=1):
        of(**{**given, "batch_size": 1}, drop_last=True)


def test_models_without_batchnorm_take_steps_of_one_record():
    for model in (
        linear(),
        nn.Sequential(nn.Linear(64, 8), nn.GroupNorm(2, 8), nn.Dropout(), nn.Linear(8, 10)),
        nn.Sequential(IMAGES, nn.BatchNorm2d(1), nn.Flatten(), linear()),
    ):
        ran(FEW, model=model, clients=UNEVEN, batch_size=4)


def test_the_try_changes_neither_the_model_nor_the_callers_generator():
    model = nn.Sequential(IMAGES, nn.BatchNorm2d(1), nn.Dropout(), nn.Flatten(), linear())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    given = {"model": model, "clients": UNEVEN, "aggregator": fl.PlainAggregator()}
    torch.manual_seed(3)
    run = fl.FederatedAveraging(**given, batch_size=4, client_fraction=1.0)
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert torch.rand(1) == drawn
    for each in (model, run.model):
        assert all(torch.equal(each.state_dict()[name], value) for name, value in before.items())


def test_an_epoch_without_its_last_step_is_that_of_its_first_records():
    """In one step an epoch, whatever is left over: nine records, of which eight are drawn."""
    steps: list[int] = []

    def counted(outputs: Tensor, labels: Tensor) -> Tensor:
        steps.append(len(labels))
        return functional.cross_entropy(outputs, labels)

    for size, drop, wanted in (
        (4, True, [4, 4]),
        (4, False, [4, 4, 1]),
        (9, True, [9]),
        (20, True, [9]),
        (None, True, [9]),
        (3, True, [3, 3, 3]),
    ):
        sgd = LocalSGD(epochs=2, batch_size=size, lr=0.1, loss=counted, drop_last=drop)
        records = TensorDataset(torch.tensor(X[:9]), torch.tensor(Y[:9]))
        sgd(linear(), records, fl.ClientRound(number=1, client=0, seed=0))
        assert steps == wanted * 2
        assert min(wanted) == sgd.fewest(9)
        steps.clear()


def test_a_run_goes_on_with_its_last_steps_alone(tmp_path):
    of(drop_last=True).save(tmp_path / "run.npz")
    of(drop_last=True).load(tmp_path / "run.npz")
    with refused("drop_last", "conflict", value=True):
        of(train=lambda model, records, round: None, local_epochs=5, drop_last=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: [nn.LazyLinear(10)],
        lambda: [nn.Linear(64, 8), nn.LazyBatchNorm1d(), nn.LazyLinear(10)],
        lambda: [IMAGES, nn.LazyConv2d(2, 3), nn.Flatten(), nn.LazyLinear(10)],
    ],
)
@pytest.mark.parametrize("statistics", ["exchange", "keep"])
def test_lazy_layers_are_refused_until_they_know_their_shapes(make, statistics):
    model = nn.Sequential(*make())
    with pytest.raises(ArgumentError) as caught:
        of(model=model, statistics=statistics)
    assert caught.value.argument == "model"
    assert "model(x[:2])" in caught.value.hint
    model(torch.tensor(X[:2]))
    ran(FEW, model=model, statistics=statistics)


@pytest.mark.parametrize(
    "model",
    [
        normed(),
        normed(track_running_stats=False),
        normed(affine=False),
        nn.Sequential(IMAGES, nn.BatchNorm2d(1), nn.Flatten(), linear()),
        nn.Sequential(IMAGES, nn.SyncBatchNorm(1), nn.Flatten(), linear()),
        nn.Sequential(nn.Sequential(normed())),
    ],
    ids=lambda model: type(model[1] if len(model) > 1 else model[0]).__name__,
)
@pytest.mark.parametrize("statistics", ["exchange", "keep"])
def test_batchnorm_has_no_place_where_records_are_protected(model, statistics):
    mechanism = fl.RecordDP(
        noise_multiplier=1.0, max_grad_norm=1.0, steps=1, sample_rate=1.0, lr=0.1
    )
    with pytest.raises(ArgumentError) as caught:
        of(model=model, mechanism=mechanism, statistics=statistics, local_epochs=5)
    assert caught.value.argument == "model"
    assert "GroupNorm" in caught.value.hint
