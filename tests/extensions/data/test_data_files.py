"""Files of records that are damaged, incomplete or do not belong together are refused by name."""

import gzip
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from extensions.checks import LABELS
from extensions.data.datasets import load, load_own, read_party_file, write_private
from extensions.data.datasets.mnist import MNIST_FILES
from extensions.data.datasets.records import standard_rows
from extensions.data.origin import Origin, own_records
from tests.extensions.runs.test_config_data import small_split
from tests.helpers.mnist_files import idx
from tests.helpers.refused import refused


def damaged(path: Path, kind: str) -> Path:
    good = small_split().arrays
    match kind:
        case "missing":
            return path
        case "empty":
            path.touch()
        case "text":
            path.write_text("1,2,3\n")
        case "cut":
            write_private(path, **good)
            path.write_bytes(path.read_bytes()[:-100])
        case "one array":
            with path.open("wb") as file:
                np.save(file, good["train_x"])
        case "no labels":
            write_private(path, **{k: v for k, v in good.items() if k != "train_y"})
        case "objects":
            np.savez(path, **{**good, "train_y": np.array([None] * 11)})
        case "words":
            write_private(path, **{**good, "train_y": np.array(["a"] * 11)})
        case "lengths":
            write_private(path, **{**good, "test_y": good["test_y"][1:]})
        case "widths":
            write_private(path, **{**good, "test_x": good["test_x"][:, 1:]})
        case "labels in a column":
            write_private(path, **{**good, "train_y": good["train_y"][:, None]})
        case "one-hot labels":
            write_private(path, **{**good, "test_y": np.eye(3)[good["test_y"]]})
        case "persons rounded":
            write_private(path, **{**good, "train_units": np.arange(11.0)})
        case "persons of others":
            write_private(path, **{**good, "train_units": np.arange(10)})
        case "vector":
            write_private(path, **{**good, "train_x": good["train_y"]})
    return path


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        *product(
            ["file"], ["missing", "empty", "text", "cut", "one array", "no labels", "objects"]
        ),
        *product(["shape"], ["words", "lengths", "widths", "vector", "persons rounded"]),
        *product(["shape"], ["persons of others", "labels in a column", "one-hot labels"]),
    ],
)
def test_a_party_file_that_is_none_is_refused(kind, code, tmp_path):
    path = damaged(tmp_path / "records.npz", kind)
    with refused("records", code, str(path)):
        read_party_file(path)


@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("read", [read_party_file, lambda path: load_own([path], 0)[0]])
def test_a_file_without_rows_to_train_on_is_refused_and_none_need_be_held_out(part, read, tmp_path):
    arrays = {"train_x": np.zeros((4, 2)), "test_x": np.zeros((3, 2))}
    labels = {name[:-1] + "y": np.zeros(len(rows)) for name, rows in arrays.items()}
    own = {name: a[:0] if name.startswith(part) else a for name, a in (arrays | labels).items()}
    path = write_private(tmp_path / "records.npz", **own)
    if part == "test":
        assert (read(path).train_x.shape, read(path).test_x.shape) == ((4, 2), (0, 2))
        return
    with refused("records", "data", f"{tmp_path}/records.npz: train_x"):
        read(path)


@pytest.mark.parametrize("label", [LABELS, 999_999_999, 2**62, np.uint64(2**64 - 1), 1e300])
@pytest.mark.parametrize("part", ["train", "test"])
def test_a_label_that_numbers_no_class_is_refused_unless_there_are_so_many(part, label, tmp_path):
    def file(name: str, value: float) -> Path:
        arrays = small_split().arrays
        y = arrays[f"{part}_y"].astype(np.asarray(value).dtype)
        y[2] = value
        return write_private(tmp_path / name, **arrays | {f"{part}_y": y})

    bad, good = file("bad.npz", label), file("good.npz", LABELS - 1)
    with refused("labels", "value", "one beyond all classes"):
        load_own([good, bad], 0)
    assert load_own([good], 0)[0].classes == LABELS
    with refused("labels", "value", "one beyond all classes"):
        own_records(bad, Origin(), 9)
    if label == LABELS:
        assert own_records(bad, Origin(), 5000).classes == 5000


@pytest.fixture
def mnist(tmp_path) -> Path:
    draws = np.random.default_rng(2)
    for (images, labels), size in zip(MNIST_FILES.values(), (9, 5), strict=True):
        pixels = draws.integers(0, 256, (size, 2, 3), dtype=np.uint8)
        (tmp_path / images).write_bytes(gzip.compress(idx(pixels)))
        (tmp_path / labels).write_bytes(gzip.compress(idx(np.arange(size, dtype=np.uint8) % 10)))
    return tmp_path


def test_mnist_is_read_from_its_files(mnist):
    data = load("mnist", mnist, 0)
    assert data.train_x.shape == (9, 6)
    assert data.test_x.shape == (5, 6)
    np.testing.assert_array_equal(data.test_y, np.arange(5))
    assert sorted(data.train_y) == list(range(9))
    pixels = gzip.decompress((mnist / MNIST_FILES["train"][0]).read_bytes())[16:]
    rows = standard_rows(np.frombuffer(pixels, dtype=np.uint8).reshape(9, 6))
    np.testing.assert_array_equal(data.train_x[np.argsort(data.train_y)], rows)


TEST_IMAGES = MNIST_FILES["test"][0]
DAMAGE: dict[str, bytes] = {
    "not gzip": b"<html>not found</html>",
    "empty": b"",
    "cut gzip": gzip.compress(idx(np.zeros((5, 2, 3), np.uint8)))[:-12],
    "no header": gzip.compress(b"\x00\x00"),
    "labels instead": gzip.compress(idx(np.zeros(5, np.uint8))),
    "other magic": gzip.compress(idx(np.zeros((5, 2, 3), np.uint8), magic=0x0D03)),
    "cut pixels": gzip.compress(idx(np.zeros((5, 2, 3), np.uint8))[:-1]),
    "more pixels": gzip.compress(idx(np.zeros((5, 2, 3), np.uint8)) + b"\x00"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_mnist_file_is_named(mnist, kind):
    (mnist / TEST_IMAGES).write_bytes(DAMAGE[kind])
    with refused("data_dir", "file", value="t10k-images-idx3-ubyte.gz"):
        load("mnist", mnist, 0)


def test_mnist_files_that_are_missing_or_do_not_belong_together_are_refused(mnist, no_public_data):
    with refused("data_dir", "file", None):
        load("mnist", None, 0)
    (mnist / TEST_IMAGES).write_bytes(gzip.compress(idx(np.zeros((4, 2, 3), np.uint8))))
    with refused("data_dir", "file", str(mnist)):
        load("mnist", mnist, 0)
    (mnist / TEST_IMAGES).unlink()
    with refused("data_dir", "file", str(mnist)):
        load("mnist", mnist, 0)
