"""A model's file never says what runs: the user names functions and files of one's own."""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from extensions.data.features import names_file, names_function
from extensions.errors import ArgumentError
from extensions.runs.model import Header, read_opened
from extensions.runs.model.recipe import GivenFeatures, as_in_training
from tests.helpers.arrays import arrays_of
from tests.helpers.commands import pea

TRAIN = ("train", "--backend", "clear", "--parties", 2, "--steps", 2, "--evaluate", "opened")
TRAIN = (*TRAIN, "--noise-multiplier", 1.0, "--delta", 1e-5)
HELPER = """
from pathlib import Path
Path("imported").touch()

def rows(x):
    Path("called").touch()
    return x.reshape(len(x), -1)
"""
MODULE = "helper_of_a_models_features"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / f"{MODULE}.py").write_text(HELPER)
    (tmp_path / "model.tflite").touch()
    np.savez(tmp_path / "new.npz", x=np.zeros((3, 8, 8)))
    yield tmp_path
    sys.modules.pop(MODULE, None)


def trained(*options: object) -> Path:
    done = pea(*TRAIN, *options, "--save", "model")
    assert done.returncode == 0, done.stderr
    return Path("model/model.npz")


def forged(features: str, facts: dict[str, str] | None = None) -> Path:
    """A model whose header names other features."""
    path = trained()
    arrays = arrays_of(path)
    header = json.loads(str(arrays["header"]))
    header["features"], header["facts"] = features, header["facts"] | (facts or {})
    np.savez(path, **arrays | {"header": np.array(json.dumps(header))})
    return path


def predicted(model: Path, *options: object):
    return pea("predict", "--model", model, "--records", "new.npz", "--out", "out.csv", *options)


@pytest.mark.parametrize(
    "features",
    [
        f"{MODULE}:rows",
        f"{MODULE}:rows,mirror",
        f"hog+{MODULE}:rows",
        f"{MODULE}:rows+hog",
        "os:system",
        "builtins:exec",
        "subprocess:getoutput",
        "tflite:/etc/passwd",
        "tflite:model.tflite",
        "hog+tflite:../model.tflite#tensor",
    ],
)
def test_what_a_file_names_is_neither_imported_nor_opened(features, folder, monkeypatch):
    model = forged(features)
    read, opened = Path.read_bytes, []
    monkeypatch.setattr(Path, "read_bytes", lambda path: opened.append(path.name) or read(path))
    done = predicted(model)
    assert done.returncode == 1
    assert done.stderr.startswith("pea: --features ")
    assert not {"passwd", "model.tflite"} & {*opened}
    assert not {*folder.glob("imported"), *folder.glob("called"), *folder.glob("out.csv")}


def test_not_even_with_the_right_digest(folder):
    facts = {f"features: source of {MODULE}": hashlib.sha256(HELPER.encode()).hexdigest()}
    assert predicted(forged(f"{MODULE}:rows", facts)).returncode == 1
    assert not (folder / "imported").exists()


def test_a_function_that_the_user_names_is_called_if_it_is_that_of_the_training(folder):
    model = trained("--features", f"{MODULE}:rows")
    for name in ("imported", "called"):
        (folder / name).unlink()
    sys.modules.pop(MODULE)
    assert predicted(model).returncode == 1
    assert not (folder / "imported").exists()
    done = predicted(model, "--features", f"{MODULE}:rows")
    assert done.returncode == 0, done.stderr
    assert (folder / "called").exists()


def test_it_is_not_called_if_its_source_is_another(folder):
    model = trained("--features", f"{MODULE}:rows")
    sys.modules.pop(MODULE)
    (folder / f"{MODULE}.py").write_text(HELPER + "# altered\n")
    (folder / "called").unlink()
    done = predicted(model, "--features", f"{MODULE}:rows")
    assert done.returncode == 1
    assert f"source of {MODULE}" in done.stderr
    assert not (folder / "called").exists()


@pytest.mark.parametrize("given", ["raw", "hog:9,4,2", f"{MODULE}:rows", f"{MODULE}:other"])
def test_other_features_than_the_models_are_refused(given, folder):
    model = forged("hog", {"kind": "images"})
    done = predicted(model, "--features", given)
    assert done.returncode == 1
    assert done.stderr.startswith("pea: --features ")
    assert not (folder / "called").exists()


def test_shares_name_nothing_that_runs_either(folder):
    header = read_opened(forged(f"{MODULE}:rows")).header
    with pytest.raises(ArgumentError) as caught:
        as_in_training(Header.of_json(header.to_json()), GivenFeatures())
    assert caught.value.argument == "features"
    assert not (folder / "imported").exists()


@pytest.mark.parametrize(
    ("features", "function", "file"),
    [
        ("raw", False, False),
        ("hog:9,4,2,mirror", False, False),
        ("backbone:resnet18", False, False),
        ("words:2048+wordllama,sqrt", False, False),
        ("tflite:a+b.tflite,mirror", False, True),
        ("hog+tflite:a", False, True),
        ("a:b", True, False),
        ("hog+a.b:c,mirror", True, False),
        ("a:b+tflite:c", True, True),
        ("unknown", True, False),
    ],
)
def test_names_say_whether_they_run_something(features, function, file):
    assert names_function(features) is function
    assert names_file(features) is file


OPTIONS = {
    "features": f"{MODULE}:rows",
    "model": f"{MODULE}:rows",
}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("by", ["--config", "--again"])
def test_files_of_options_and_reports_name_no_function_either(option, by, folder):
    if by == "--config":
        (folder / "file").write_text(f'{option} = "{OPTIONS[option]}"\n')
    else:
        (folder / "file").write_text(json.dumps({"options": {option: OPTIONS[option]}}))
    done = pea(*TRAIN, by, "file")
    assert done.returncode == 1
    assert done.stderr.startswith(f"pea: {by} ")
    assert not (folder / "imported").exists()
    typed = pea(*TRAIN, by, "file", f"--{option}", {"features": "raw"}.get(option, "logistic"))
    assert typed.returncode == 0, typed.stderr
    assert not (folder / "imported").exists()


@pytest.mark.parametrize("query", [("predict", "--model"), ("predict", "--shares")])
def test_a_model_that_is_not_there_is_all_that_is_told(query, folder):
    for options in ((), ("--records", "new.npz", "--out", "out.csv"), ("--records", "new.npz")):
        done = pea(*query, "nope.npz", *options)
        assert done.returncode == 1
        assert done.stderr.startswith(f"pea: {query[1]} ")
        assert not any(word in done.stderr for word in ("records", "out,", "--out"))
