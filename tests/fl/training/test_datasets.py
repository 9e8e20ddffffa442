"""Data sets as people have them, read into records of clients: all values, or an error with place.

Polars and Hugging Face's `datasets` are the real packages, of the extra `dev`.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

import fl
from fl.datasets import LETTERS, from_leaf, shakespeare, tensors
from tests.helpers.refused import refused

X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
Y = np.arange(40) % 2
NAMES = ["a", "b", "c"]


def frame() -> pd.DataFrame:
    return pd.DataFrame(X, columns=NAMES).assign(income=Y)


def polars() -> Any:
    return pytest.importorskip("polars").from_pandas(frame())


def hugging_face(**columns: list[Any]) -> Any:
    return pytest.importorskip("datasets").Dataset.from_dict(columns)


class Named(Dataset[Any]):
    """Items by the names of their parts."""

    def __len__(self) -> int:
        return len(Y)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"pixels": X[index], "income": int(Y[index])}


def pairs() -> TensorDataset:
    return TensorDataset(torch.tensor(X), torch.tensor(Y))


SOURCES = {
    "pandas": frame,
    "objects of pandas": lambda: frame().astype(object),
    "polars": polars,
    "hugging face": lambda: hugging_face(x=X.tolist(), income=Y.tolist()),
    "hugging face, in columns": lambda: hugging_face(
        **{name: X[:, k].tolist() for k, name in enumerate(NAMES)}, income=Y.tolist()
    ),
    "hugging face, as tensors": lambda: hugging_face(x=X.tolist(), income=Y.tolist()).with_format(
        "torch"
    ),
    "hugging face, transformed": lambda: hugging_face(
        half=(X / 2).tolist(), y=Y.tolist()
    ).with_transform(lambda rows: {"x": 2 * np.array(rows["half"]), "income": np.array(rows["y"])}),
    "named parts": Named,
    "pairs": pairs,
    "a loader of pairs": lambda: DataLoader(pairs(), batch_size=7),
    "a loader of named parts": lambda: DataLoader(Named(), batch_size=7),
    "a part": lambda: Subset(pairs(), range(40)),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_same_records_and_a_run_takes_them(name):
    found = tensors(SOURCES[name](), "income")
    x, y = found.tensors
    torch.testing.assert_close(x, torch.tensor(X))
    assert x.dtype == torch.float32
    assert y.tolist() == Y.tolist()
    run = fl.FederatedAveraging(
        model=nn.Linear(3, 2),
        clients=fl.partition(found, 4),
        aggregator=fl.PlainAggregator(),
        client_fraction=1.0,
    )
    assert run.fit(1, found, progress=False)[0].included == (0, 1, 2, 3)


def test_columns_are_chosen_and_integers_stay_integers():
    data = pd.DataFrame({"a": [1, 2], "b": [True, False], "c": [0.5, 1.5], "y": [0, 1]})
    x, _ = tensors(data, "y", ["b", "a"]).tensors
    assert (x.tolist(), x.dtype) == ([[1, 1], [0, 2]], torch.int64)
    x, y = tensors(data, "c", ["a"]).tensors
    assert (x.tolist(), y.tolist()) == ([[1], [2]], [0.5, 1.5])
    x, _ = tensors(data, "y").tensors
    assert x.tolist() == [[1.0, 1.0, 0.5], [2.0, 0.0, 1.5]]


def test_rows_of_integers_and_of_numbers_are_one_type():
    mixed = [([0, 1], 0), ([0.5, 1], 1)]
    x, _ = tensors(mixed).tensors
    assert x.tolist() == [[0.0, 1.0], [0.5, 1.0]]


def test_images_are_channels_of_numbers_up_to_one():
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4) * 10
    grey = [(image.fromarray(each), k) for k, each in enumerate(pixels)]
    x, _ = tensors(grey).tensors
    torch.testing.assert_close(x, torch.tensor(pixels, dtype=torch.float32)[:, None] / 255)
    x, _ = tensors(hugging_face(image=[one for one, _ in grey], label=[0, 1])).tensors
    torch.testing.assert_close(x, torch.tensor(pixels, dtype=torch.float32)[:, None] / 255)
    colours = np.stack([pixels, pixels + 1, pixels + 2], axis=-1)
    x, _ = tensors([(image.fromarray(each), 0) for each in colours]).tensors
    expected = torch.tensor(colours.transpose(0, 3, 1, 2), dtype=torch.float32) / 255
    torch.testing.assert_close(x, expected)
    palette = image.fromarray(colours[1]).quantize(200)
    assert tensors([(palette, 0)]).tensors[0].shape == (1, 3, 3, 4)
    with refused("column 'records', row 0", "data"):
        tensors([(image.new("I;16", (2, 2)), 0)])


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        while True:
            yield X[0], 0


@pytest.mark.parametrize(
    ("make", "argument", "code", "value"),
    [
        (lambda: tensors(frame(), "salary"), "label", "choice", ["salary"]),
        (lambda: tensors(polars(), "salary"), "label", "choice", ["salary"]),
        (lambda: tensors(frame(), "income", ["d"]), "features", "choice", ["d"]),
        (lambda: tensors(frame()[["income"]], "income"), "features", "choice", []),
        (lambda: tensors(frame()[:0], "income"), "data", "shape", "0 records, 0 labels"),
        (
            lambda: tensors(frame().replace({"b": {X[4, 1]: np.nan}}), "income"),
            "column 'b', row 4",
            "data",
            np.nan,
        ),
        (
            lambda: tensors(frame().replace({"b": {X[4, 1]: np.inf}}), "income"),
            "column 'b', row 4",
            "data",
            np.inf,
        ),
        (
            lambda: tensors(frame().assign(a=["1"] * 39 + ["x"]), "income"),
            "column 'a', row 0",
            "data",
            "1",
        ),
        (
            lambda: tensors(frame().assign(a=[*range(39), None]).astype(object), "income"),
            "column 'a', row 39",
            "data",
            np.nan,
        ),
        (
            lambda: tensors(frame().assign(income=["yes", "no"] * 20), "income"),
            "column 'income', row 0",
            "data",
            "yes",
        ),
        (
            lambda: tensors(hugging_face(x=[[1.0], [1.0, 2.0]], label=[0, 1])),
            "column 'x', row 1",
            "data",
            "[1.0, 2.0]",
        ),
        (
            lambda: tensors(hugging_face(x=[1.0, None], label=[0, 1])),
            "column 'x', row 1",
            "data",
            "None",
        ),
        (
            lambda: tensors(hugging_face(x=[[1.0]], z=[1], label=[0])),
            "features",
            "choice",
            ["x", "z"],
        ),
        (lambda: tensors(Endless()), "data", "type", "Endless"),
        (lambda: tensors(DataLoader(Endless())), "data", "type", "DataLoader"),
        (lambda: tensors(DataLoader(TensorDataset(torch.tensor(X)))), "data", "type", "DataLoader"),
        (lambda: tensors(torch.tensor(X)), "data", "type", "Tensor"),
        (lambda: tensors(None), "data", "type", "NoneType"),
    ],
)
def test_what_is_wrong_is_told_by_column_row_and_value(make, argument, code, value):
    with refused(argument, code, value):
        make()


def test_missing_values_of_polars_are_told_by_row():
    data = pytest.importorskip("polars").DataFrame({"a": [1, None, 3], "label": [0, 1, 0]})
    with refused("column 'a', row 1", "data", np.nan):
        tensors(data)


# LEAF.


def user(records: int, start: int = 0) -> dict[str, Any]:
    x = (np.arange(records * 4).reshape(records, 4) + start) / 100
    return {"x": x.tolist(), "y": [(start + k) % 3 for k in range(records)]}


def written(folder: Path, name: str = "all_data_0.json", **users: dict[str, Any]) -> Path:
    content = {
        "users": list(users),
        "num_samples": [len(each["y"]) for each in users.values()],
        "user_data": users,
    }
    file = folder / name
    file.write_text(json.dumps(content))
    return file


def test_leafs_folders_are_read_by_user_and_trained(tmp_path):
    written(tmp_path, "all_data_0.json", f2_1=user(6, 5), f0_4=user(3))
    written(tmp_path, "all_data_1.json", f1_9=user(4, 9))
    (tmp_path / "README.md").write_text("no data")
    found = from_leaf(tmp_path)
    assert list(found) == ["f0_4", "f1_9", "f2_1"]
    for name, (records, start) in {"f0_4": (3, 0), "f1_9": (4, 9), "f2_1": (6, 5)}.items():
        x, y = found[name].tensors
        np.testing.assert_allclose(x, user(records, start)["x"], rtol=1e-6)
        assert (x.dtype, y.tolist()) == (torch.float32, user(records, start)["y"])
    run = fl.FederatedAveraging(
        model=nn.Linear(4, 3),
        clients=list(found.values()),
        aggregator=fl.MaskedAggregator(),
        client_fraction=1.0,
    )
    own = dict(enumerate(from_leaf(str(tmp_path)).values()))
    report = run.fit(1, own_tests=own, progress=False)[0]
    assert (report.included, set(report.of_clients)) == ((0, 1, 2), {0, 1, 2})


def changed(**changes: Any) -> dict[str, Any]:
    return {**user(3), **changes}


@pytest.mark.parametrize(
    ("bad", "row", "value"),
    [
        (changed(x=[[1.0, 2.0], [3.0], [4.0, 5.0]]), 1, "[3.0]"),
        (changed(x=[[1.0], [float("nan")], [2.0]]), 1, np.nan),
        (changed(x=["a cat", "sat", "down"]), 0, "a cat"),
        (changed(y=[0, None, 1]), 1, "None"),
        (changed(x={"0": 1, "1": 2, "2": 3}), 0, "0"),
    ],
)
def test_what_is_no_number_of_a_user_is_told_by_file_user_and_row(tmp_path, bad, row, value):
    file = written(tmp_path, good=user(2), bad=bad)
    with refused(f"{file}, user bad, row {row}", "data", value):
        from_leaf(tmp_path)


@pytest.mark.parametrize("bad", [changed(x=user(2)["x"]), changed(x=user(4)["x"]), {"y": [1]}])
def test_a_ragged_user_is_told_by_file(tmp_path, bad):
    file = written(tmp_path, good=user(2), bad=bad)
    with refused("file", "file", str(file)):
        from_leaf(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["users"].append("ghost"),
        lambda content: content["user_data"].pop("one"),
        lambda content: content["user_data"].update(ghost=user(2)),
        lambda content: content.update(num_samples=[3]),
        lambda content: content.pop("users"),
        lambda content: content["user_data"].update(one=[1, 2]),
        lambda content: content["user_data"]["one"].update(x=None),
    ],
)
def test_files_that_are_not_leafs_are_told(tmp_path, change):
    file = written(tmp_path, one=user(2))
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    with refused("file", "file", str(file)):
        from_leaf(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", '"users"', "\xff"])
def test_texts_that_are_no_such_json_are_told(tmp_path, text):
    file = tmp_path / "x.json"
    file.write_text(text, encoding="latin-1")
    with refused("file", "file", str(file)):
        from_leaf(tmp_path)


def test_no_user_is_in_two_files_and_a_folder_has_some(tmp_path):
    with refused("folder", "file", str(tmp_path)):
        from_leaf(tmp_path)
    written(tmp_path, "a.json", one=user(2))
    file = written(tmp_path, "b.json", one=user(2))
    with refused("file", "file", str(file)):
        from_leaf(tmp_path)


# Shakespeare. The layout, and what LEAF's scripts of 2019 make of this text.

PLAYS = """The Complete Works of William Shakespeare

THE SONNETS

by William Shakespeare

                     1
  From fairest creatures we desire increase,

1595

THE TRAGEDY OF ROMEO AND JULIET

by William Shakespeare



Dramatis Personae

  Chorus.

ACT I. Scene I.

                Enter Romeo.

  Romeo. But soft! What light through yonder window breaks?
    It is the East, and Juliet is the sun!
    Arise, fair sun, and kill the envious moon,
  JULIET. O Romeo, Romeo! wherefore art thou Romeo?
    Deny thy father and refuse thy name!
  Rom. Ay me!
  ROMEO. Caf\u00e9.

THE COMEDY OF ERRORS

by William Shakespeare

ACT I. SCENE 1

Enter the DUKE

AEGEON. Proceed, Solinus, to procure my fall,
And by the doom of death end woes and all.
And more.
DUKE. Merchant of Syracuse, plead no more;
<<THIS ELECTRONIC VERSION>>
I am not partial
"""
ROMEO = (
    "But soft! What light through yonder window breaks? It is the East, and Juliet is the sun! "
    "Arise, fair sun, and kill the envious moon, Caf\u00e9. "
)
AEGEON = (
    "Proceed, Solinus, to procure my fall, And by the doom of death end woes and all. And more. "
)


def numbers(text: str) -> list[int]:
    return [80 if each == "\u00e9" else LETTERS.index(each) for each in text]


def test_roles_of_plays_predict_their_next_letter(tmp_path):
    file = tmp_path / "plays.txt"
    file.write_text(PLAYS)
    found = shakespeare(file, letters=20)
    assert list(found) == [
        "THE_COMEDY_OF_ERRORS_AEGEON",
        "THE_TRAGEDY_OF_ROMEO_AND_JULIET_ROMEO",
    ]
    for own, said in zip(found.values(), (AEGEON, ROMEO), strict=True):
        x, y = own.tensors
        assert x.shape == (len(said) - 20, 20)
        assert x.dtype == y.dtype == torch.int64
        for place in (0, 7, len(x) - 1):
            assert x[place].tolist() == numbers(said[place : place + 20])
        assert y.tolist() == numbers(said[20:])
        assert x.untyped_storage().nbytes() == 8 * len(said)


class NextLetter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(81, 8)
        self.last = nn.Linear(20 * 8, 81)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.letters(x).flatten(1))


def test_roles_are_clients_of_a_run(tmp_path):
    file = tmp_path / "plays.txt"
    file.write_text(PLAYS)
    run = fl.FederatedAveraging(
        model=NextLetter(),
        clients=list(shakespeare(file, 20).values()),
        aggregator=fl.PlainAggregator(),
        client_fraction=1.0,
        lr=0.5,
    )
    test = shakespeare(file, 20)["THE_COMEDY_OF_ERRORS_AEGEON"]
    history = run.fit(8, test, progress=False)
    assert history.accuracy > 0.5


@pytest.mark.parametrize(
    "text", ["", "To be, or not to be\n" * 100, PLAYS.replace("  ", "").split("THE COMEDY")[0]]
)
def test_a_text_without_roles_is_told_by_its_file(tmp_path, text):
    file = tmp_path / "empty.txt"
    file.write_text(text)
    with refused(str(file), "data", f"{len(text.splitlines())} lines"):
        shakespeare(file)


def test_the_length_of_a_record_is_checked(tmp_path):
    with refused("letters", "range", 0):
        shakespeare(tmp_path / "any.txt", letters=0)
