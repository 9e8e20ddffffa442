"""Arrays of others' .npz files: nothing runs, and nothing is allocated for what is only claimed."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from extensions.data.datasets import read_party_file
from extensions.data.datasets.cifar10 import _read_labels
from extensions.data.datasets.files import read_classes
from extensions.data.datasets.sources import read_unlabelled
from extensions.errors import ArgumentError
from extensions.layers.models.start_file import with_digest
from extensions.npz import MOST_BYTES, read_npz
from extensions.runs.model import read_opened, read_shares
from tests.helpers.bombs import LARGE, array, claiming, peak, zipped


class Shell:
    """Unpickled it would run a command."""

    def __reduce__(self):
        return os.system, ("touch pickled",)


BOMBS = {
    "a terabyte": {"x": claiming((1 << 37,))},
    "more than there are addresses": {"x": claiming((1 << 62, 1 << 62))},
    "negative sizes": {"x": claiming((-(1 << 20), -(1 << 20)))},
    "many of nothing": {"x": claiming((1 << 40,), "<U0", b"")},
    "less than it holds": {"x": claiming((2,))},
    "objects": {"x": array(np.array([Shell()], dtype=object))},
    "no array": {"x": b"touch pickled"},
    "a header that ends early": {"x": claiming((8,))[:20]},
}


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("name", BOMBS)
def test_what_an_array_claims_is_compared_before_memory_is_taken(
    name, compressed, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    kind = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    path = zipped(tmp_path / "a.npz", kind, **BOMBS[name], good=array([1.0]))

    def read() -> None:
        with pytest.raises(ValueError, match="no .npz file"):
            read_npz(path)

    assert peak(read) < LARGE
    assert not (tmp_path / "pickled").exists()
    assert read_npz(path, ["good", "absent"])["good"].tolist() == [1.0]


def test_a_small_file_does_not_unpack_to_a_large_one(tmp_path):
    content = array(np.zeros(MOST_BYTES // 8 + 1))
    path = zipped(tmp_path / "zeros.npz", zipfile.ZIP_DEFLATED, x=content)
    assert path.stat().st_size < MOST_BYTES // 500

    def read() -> None:
        with pytest.raises(ValueError, match="numpy.savez"):
            read_npz(path)

    assert peak(read) < MOST_BYTES // 2
    stored = zipped(tmp_path / "stored.npz", x=content)
    assert len(read_npz(stored)["x"]) == MOST_BYTES // 8 + 1


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_to_compress_are_none_of_numpys(kind, tmp_path):
    with pytest.raises(ValueError, match="otherwise"):
        read_npz(zipped(tmp_path / "a.npz", kind, x=array([1.0])))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read_as_it_was(save, tmp_path):
    given = {
        "reals": np.arange(12.0).reshape(3, 4).T,
        "none": np.zeros((0, 3)),
        "one": np.array("a text"),
        "texts": np.array(["a", "", "Ünïcode"]),
        "bytes": np.arange(4, dtype=np.uint8),
    }
    save(tmp_path / "a.npz", **given)
    found = read_npz(tmp_path / "a.npz")
    assert found.keys() == given.keys()
    for name, each in given.items():
        assert found[name].dtype == each.dtype
        np.testing.assert_array_equal(found[name], each)


READERS = {
    "labels of strips": (lambda path: _read_labels(path, "y_test"), "y_test"),
    "model": (read_opened, "weight_0"),
    "shares": (read_shares, "weight_0"),
    "start": (lambda path: with_digest(str(path)), "weight_0"),
    "features": (read_party_file, "train_x"),
    "new records": (lambda path: read_unlabelled(path, columns=(), text=None, schema=None), "x"),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("bomb", ["a terabyte", "objects", "zeros"])
def test_every_file_of_arrays_is_read_so(reader, bomb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    read, name = READERS[reader]
    zeros = {"x": array(np.zeros(MOST_BYTES // 8 + 1))}
    (content,) = (zeros if bomb == "zeros" else BOMBS[bomb]).values()
    path = zipped(tmp_path / "a.npz", zipfile.ZIP_DEFLATED, **{name: content})

    def refused() -> None:
        with pytest.raises(ArgumentError) as caught:
            read(path)
        assert path.name in str(caught.value)

    assert peak(refused) < MOST_BYTES // 2
    assert not (tmp_path / "pickled").exists()


def test_a_number_of_classes_that_cannot_be_read_is_none(tmp_path: Path):
    assert read_classes(zipped(tmp_path / "a.npz", classes=claiming((1 << 37,)))) is None
    assert read_classes(zipped(tmp_path / "b.npz", classes=array(3))) == 3
