"""An error about an owner's records names file, record or column, and never a value of a cell."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from extensions.data.origin import Origin, own_records
from extensions.data.schema import Category, Number, Schema, Target, Unit, to_toml
from extensions.errors import ArgumentError
from extensions.privacy.sampling import check_records
from tests.helpers.commands import pea

TEXT, NUMBER = "patient-4711", 471147.25
SECRETS = (TEXT, "4711", "471147")
SCHEMA = Schema(
    target=Target(column="risk", classes=("low", "high")),
    columns=(
        Number(name="age", low=0, high=120),
        Category(name="city", categories=("Ulm", "Bern")),
    ),
    unit=Unit(column="person", rows=2),
    basis="public",
)
NAMES = ("person", "age", "city", "risk")
GOOD = ("p1", "40", "Ulm", "low")
PLAYERS = {f"server{i}": f"127.0.0.1:2345{i}" for i in range(3)}
BAD = {
    "a label": {"risk": TEXT},
    "a label that is a number": {"risk": str(NUMBER)},
    "a number": {"age": TEXT},
    "a number beyond its range": {"age": str(NUMBER)},
    "a category": {"city": TEXT},
    "a person": {"person": "4.71147E+17"},
}


def table(path: Path, changes: dict[str, str], names=NAMES) -> Path:
    rows = [dict(zip(NAMES, GOOD, strict=True)) for _ in range(9)]
    rows[3] |= {"risk": "high"}
    rows[5] |= changes
    lines = [",".join(row[name] for name in names) for row in rows]
    path.write_text("\n".join([",".join(names), *lines, ""]))
    return path


def untold(error: str) -> None:
    assert not [one for one in SECRETS if one in error]


@pytest.mark.parametrize("bad", BAD)
def test_by_a_schema(bad, tmp_path):
    (tmp_path / "schema.toml").write_text(to_toml(SCHEMA))
    own = table(tmp_path / "own.csv", BAD[bad])
    with pytest.raises(ArgumentError) as caught:
        own_records(own, Origin(schema=tmp_path / "schema.toml"), None)
    untold(str(caught.value))
    assert "record 6" in str(caught.value)


@pytest.mark.parametrize("bad", ["a label", "a label that is a number", "a number"])
@pytest.mark.parametrize("command", ["party", "players", "features"])
def test_by_names_of_classes(bad, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = table(tmp_path / "own.csv", BAD[bad], ("age", "risk"))
    options = ("--records", own, "--label", "risk", "--class-names", "low,high")
    if command == "party":
        options += ("--rank", 0, "--world-size", 2, "--rendezvous", "file:///nowhere/met")
        options += ("--noise-multiplier", 1.0, "--delta", 1e-5, "--provider", "tfp")
    elif command == "players":
        if importlib.util.find_spec("tf_encrypted") is None:
            pytest.skip("no players here")
        Path("players.json").write_text(json.dumps(PLAYERS))
        options += ("--players", "players.json", "--player", "server0")
    else:
        options += ("--features", "raw", "--out", "features.npz")
    done = pea(command, *options)
    assert done.returncode == 1
    assert "record 6" in done.stderr
    untold(done.stderr)


LARGE = np.array([[0.5], [NUMBER]])
ARRAYS = {
    "a class": ([[0.5], [0.5]], [0, 4711]),
    "no class": ([[0.5], [0.5]], [0, 0.4711]),
    "a text": ([[0.5], [0.5]], ["0", TEXT]),
    "a target": ([[0.5], [0.5]], [[0.0, 1.0], [0.0, 4711.0]]),
    "a long row": (LARGE, [0, 1]),
    "a number beyond the ring": (LARGE * 1e12, [0, 1]),
}


@pytest.mark.parametrize("bad", ARRAYS)
def test_arrays(bad):
    x, y = ARRAYS[bad]
    with pytest.raises(ArgumentError) as caught:
        check_records(x, np.asarray(y), frac_bits=20, classes=2, max_feature_norm=1.0)
    untold(str(caught.value))


@pytest.mark.parametrize("label", [4711, 471147.25])
@pytest.mark.parametrize("part", ["train_y", "test_y"])
def test_files_of_arrays(part, label, tmp_path):
    arrays = {"train_x": np.ones((8, 2)), "test_x": np.ones((8, 2))}
    arrays |= dict.fromkeys(("train_y", "test_y"), np.arange(8.0) % 2)
    arrays[part] = np.where(np.arange(8) == 3, label, arrays[part])
    np.savez(tmp_path / "own.npz", **arrays)
    with pytest.raises(ArgumentError) as caught:
        own_records(tmp_path / "own.npz", Origin(), 2)
    untold(str(caught.value))
