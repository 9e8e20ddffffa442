"""Data sets in their usual files, and tables of one's own: read exactly, or refused by name."""

import gzip
import hashlib
import json
import lzma
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from extensions.data.datasets import (
    Columns,
    classes_in,
    find_folder,
    load,
    load_own,
    load_raw,
    split_among,
    write_records,
)
from extensions.data.datasets.cifar10 import BATCHES, BINARY
from extensions.data.datasets.download import Published, fetch
from extensions.data.datasets.folders import VARIABLE
from extensions.data.datasets.mnist import MNIST_FILES
from extensions.errors import MissingExtraError
from tests.extensions.runs.test_config_data import small_split
from tests.helpers.mnist_files import idx
from tests.helpers.public_data import public_data
from tests.helpers.refused import refused

DRAWS = np.random.default_rng(11)


def test_digits_are_those_of_scikit_learn():
    x, y = load_digits(return_X_y=True)
    split = load_raw("digits", None, 5)
    order = np.random.default_rng(5).permutation(1797)
    both = np.concatenate([split.test_x, split.train_x])
    np.testing.assert_array_equal(both, x[order].reshape(-1, 8, 8) * (255 / 16))
    np.testing.assert_array_equal(np.concatenate([split.test_y, split.train_y]), y[order])
    assert len(split.test_y) == 359


def test_mnist_may_be_unpacked(tmp_path):
    pixels = DRAWS.integers(0, 256, (2, 4, 3, 3), dtype=np.uint8)
    for (images, labels), part in zip(MNIST_FILES.values(), pixels, strict=True):
        (tmp_path / images.removesuffix(".gz")).write_bytes(idx(part))
        (tmp_path / labels).write_bytes(gzip.compress(idx(np.arange(4, dtype=np.uint8))))
    split = load_raw("mnist", tmp_path, 0)
    np.testing.assert_array_equal(split.test_x, pixels[1])
    np.testing.assert_array_equal(split.train_x[np.argsort(split.train_y)], pixels[0])


@pytest.fixture
def batches(tmp_path) -> Path:
    folder = tmp_path / BINARY
    folder.mkdir()
    for names in BATCHES.values():
        for name in names:
            records = DRAWS.integers(0, 256, (3, 3073), dtype=np.uint8)
            records[:, 0] %= 10
            (folder / name).write_bytes(records.tobytes())
    return tmp_path


def test_cifar10_is_read_from_its_binary_version(batches):
    for folder in (batches, batches / BINARY):
        source = load_raw("cifar10", folder, 4)
        assert (source.classes, source.kind) == (10, "images")
        assert source.train_x.shape == (15, 32, 32, 3)
    raw = np.frombuffer((batches / BINARY / "test_batch.bin").read_bytes(), np.uint8).reshape(3, -1)
    np.testing.assert_array_equal(source.test_y, raw[:, 0])
    # Red, green and blue planes, row by row, as its authors describe the file.
    np.testing.assert_array_equal(source.test_x[1, 2, :, 1], raw[1, 1 + 1024 + 64 :][:32])


@pytest.mark.parametrize("damage", ["missing", "cut", "label", "empty"])
def test_a_damaged_batch_is_named(batches, damage):
    path = batches / BINARY / "data_batch_3.bin"
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(
            {"cut": content[:-1], "label": b"\x0a" + content[1:], "empty": b""}[damage]
        )
    with refused("data_dir", "file"):
        load_raw("cifar10", batches, 0)


def test_the_pickled_version_of_cifar10_is_refused(tmp_path, no_public_data):
    (tmp_path / "cifar-10-batches-py").mkdir()
    with refused("data_dir", "file", str(tmp_path)):
        load_raw("cifar10", tmp_path, 0)
    with refused("data_dir", "file", None):
        load_raw("cifar10", None, 0)


def test_cifar10_is_read_from_strips(tmp_path):
    image = pytest.importorskip("PIL.Image")
    pixels = DRAWS.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    for name, part in (("train_0", pixels[:2]), ("train_1", pixels[2:4]), ("test_0", pixels[4:])):
        strip = image.fromarray(part.reshape(64, 32, 3))
        strip.save(tmp_path / f"{name}.webp", lossless=True, exact=True)
    np.savez(tmp_path / "labels.npz", y_train=np.arange(4), y_test=np.arange(2))
    split = load_raw("cifar10", tmp_path, 0)
    np.testing.assert_array_equal(split.train_x[np.argsort(split.train_y)], pixels[:4])
    np.testing.assert_array_equal(split.test_x, pixels[4:])
    (tmp_path / "train_1.webp").write_bytes(b"nothing")
    with refused("data_dir", "file", value="train_1.webp"):
        load_raw("cifar10", tmp_path, 0)
    (tmp_path / "train_1.webp").unlink()
    with refused("data_dir", "file", str(tmp_path)):
        load_raw("cifar10", tmp_path, 0)
    (tmp_path / "labels.npz").write_bytes(b"nothing")
    with refused("data_dir", "file", value="labels.npz"):
        load_raw("cifar10", tmp_path, 0)


REVIEWS = [
    ("train", 0, "Dull."),
    ("train", 1, "Fine — «fine»!"),
    ("test", 1, "So\nso"),
    ("test", 0, ""),
]


def reviews_as_lines(folder: Path) -> None:
    lines = [json.dumps({"split": s, "label": y, "text": t, "id": 3}) for s, y, t in REVIEWS]
    (folder / "imdb_reviews.jsonl.xz").write_bytes(lzma.compress("\n".join(lines).encode()))


def reviews_as_folder(folder: Path) -> None:
    for number, (part, label, text) in enumerate(REVIEWS):
        path = folder / "aclImdb" / part / ("neg", "pos")[label] / f"{number}_7.txt"
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8", newline="")


@pytest.mark.parametrize("write", [reviews_as_lines, reviews_as_folder])
def test_imdb_is_read_from_lines_and_from_its_folder(write, tmp_path):
    write(tmp_path)
    source = load_raw("imdb", tmp_path, 0)
    assert (source.classes, source.kind) == (2, "texts")
    for part in ("train", "test"):
        pairs = set(
            zip(
                getattr(source, f"{part}_x"),
                getattr(source, f"{part}_y").tolist(),
                strict=True,
            )
        )
        assert pairs == {(text, label) for own, label, text in REVIEWS if own == part}


@pytest.mark.parametrize(
    "line", ['{"split": "train"}', '{"split": "x", "label": 1, "text": ""}', "3"]
)
def test_a_damaged_line_of_reviews_is_numbered(line, tmp_path):
    reviews_as_lines(tmp_path)
    path = tmp_path / "imdb_reviews.jsonl.xz"
    lines = lzma.decompress(path.read_bytes()).decode()
    path.write_bytes(lzma.compress(f"{lines}\n{line}\n".encode()))
    with refused("data_dir", "data", "imdb_reviews.jsonl.xz, line 5"):
        load_raw("imdb", tmp_path, 0)
    path.write_bytes(path.read_bytes()[:-20])
    with refused("data_dir", "data", "imdb_reviews.jsonl.xz, line 5"):
        load_raw("imdb", tmp_path, 0)


def test_a_folder_without_reviews_is_refused(tmp_path, no_public_data):
    for folder in (None, tmp_path):
        with refused("data_dir", "file", folder and str(folder)):
            load_raw("imdb", folder, 0)
    (tmp_path / "train").mkdir()
    with refused("data_dir", "file"):
        load_raw("imdb", tmp_path, 0)
    (tmp_path / "train" / "neg").mkdir()
    (tmp_path / "train" / "neg" / "0_1.txt").write_bytes(b"\xff\xfe")
    with refused("data_dir", "file", str(tmp_path / "train/neg/0_1.txt")):
        load_raw("imdb", tmp_path, 0)


def test_texts_have_no_raw_features(tmp_path):
    reviews_as_lines(tmp_path)
    with refused("features", "value", value="raw"):
        load("imdb", tmp_path, 0)


TABLE = "age,label,weight\n30,cat,1.5\n41,dog,2\n-1e3,cat,0\n7,ant,.25\n8,dog,4\n"


def table(folder: Path, text: str = TABLE, name: str = "own.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_table_is_read_with_its_classes_by_name(tmp_path):
    path = table(tmp_path, "\ufeff" + TABLE)
    source = load_raw(f"csv:{path}", None, 1, columns=Columns(label="label"))
    assert classes_in(source.recipe) == ("ant", "cat", "dog")
    assert source.classes == 3
    split = source
    assert (len(split.train_x), len(split.test_x)) == (4, 1)
    rows = np.concatenate([split.train_x, split.test_x]).tolist()
    labels = [classes_in(source.recipe)[y] for y in np.concatenate([split.train_y, split.test_y])]
    assert {(*row, label) for row, label in zip(rows, labels, strict=True)} == {
        (30.0, 1.5, "cat"),
        (41.0, 2.0, "dog"),
        (-1000.0, 0.0, "cat"),
        (7.0, 0.25, "ant"),
        (8.0, 4.0, "dog"),
    }
    given = load_raw(
        f"csv:{path}", None, 1, columns=Columns(label="label"), names=("dog", "cat", "ant", "owl")
    )
    assert (given.classes, classes_in(given.recipe)[0]) == (4, "dog")
    np.testing.assert_array_equal(given.train_y, np.array([2, 1, 0])[split.train_y])


def test_numbers_as_labels_are_ordered_by_size(tmp_path):
    path = table(tmp_path, "x,y\n1,10\n2,9\n3,-1\n4,10\n")
    own = load_raw(f"csv:{path}", None, 0, columns=Columns(label="y"))
    assert classes_in(own.recipe) == ("-1", "9", "10")


def test_a_table_may_hold_texts(tmp_path):
    path = table(tmp_path, 'id,words,y\n1,"good, very",1\n2,bad,0\n3,"so\nso",1\n')
    split = load_raw(f"csv:{path}", None, 0, columns=Columns(label="y", text="words"))
    assert split.kind == "texts"
    assert {*split.train_x, *split.test_x} == {"good, very", "bad", "so\nso"}


BAD_TABLES = {
    "missing value": (TABLE.replace("41", ""), "data", "own.csv, record 2, column age"),
    "not available": (TABLE.replace("41", "N/A"), "data", "own.csv, record 2, column age"),
    "missing label": (TABLE.replace("ant", " "), "data", "own.csv, record 4, column label"),
    "word": (TABLE.replace(".25", "few"), "data", "own.csv, record 4, column weight"),
    "infinity": (TABLE.replace(".25", "inf"), "data", "own.csv, record 4, column weight"),
    "short row": (TABLE.replace(",2\n", "\n"), "data", "own.csv, line 3, column 1"),
    "long row": (TABLE.replace(",2\n", ",2,3\n"), "data", "own.csv, line 3, column 1"),
    "no rows": ("age,label\n", "file", "own.csv"),
    "one column": ("label\na\nb\nc\n", "file", "own.csv"),
    "empty": ("", "file", "own.csv"),
    "same name": ("label,x,x\na,1,2\n", "data", "own.csv, column 3, x"),
    "few rows": ("label,x\na,1\nb,2\n", "data", "own.csv, 2 records"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_table_is_refused_with_row_and_column(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, *expected = BAD_TABLES[case]
    path = table(Path(), text)
    with refused("records", *expected):
        load_raw(f"csv:{path}", None, 0, columns=Columns(label="label"))


def test_columns_that_are_not_there_are_named(tmp_path):
    path = table(tmp_path)
    for columns, name in (
        (Columns(label=None), "label"),
        (Columns(label="y"), "label"),
        (Columns(label="label", text="words"), "text"),
    ):
        with refused(name, "choice", value=getattr(columns, name)):
            load_raw(f"csv:{path}", None, 0, columns=columns)
    with refused("labels", "data", "own.csv, record 4, column label") as caught:
        load_raw(f"csv:{path}", None, 0, columns=Columns(label="label"), names=("cat", "dog"))
    assert "'ant'" not in str(caught.value)
    with refused("records", "file", value="nowhere.csv"):
        load_raw("csv:nowhere.csv", None, 0)
    latin = tmp_path / "latin.csv"
    latin.write_bytes("a,b\nÄ,1\n".encode("latin-1"))
    with refused("records", "data", "latin.csv, line 2, column 1"):
        load_raw(f"csv:{latin}", None, 0, columns=Columns(label="a"))


def test_a_file_of_another_form_is_named():
    with refused("data", "file", value="csv:own.txt"):
        load_raw("csv:own.txt", None, 0)


@pytest.mark.parametrize("name", ["csv", "xls:a.xls", "npz", "MNIST"])
def test_an_unknown_form_of_data_is_named(name):
    with refused("data", "choice", value=name):
        load_raw(name, None, 0)


def test_parquet_is_read_like_csv(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    values = {"age": [30, 41, -1000, 7, 8], "label": ["cat", "dog", "cat", "ant", "dog"]}
    values["weight"] = [1.5, 2.0, 0.0, 0.25, 4.0]
    path = tmp_path / "own.parquet"
    parquet.write_table(pyarrow.table(values), path)
    columns = Columns(label="label")
    ours = load_raw(f"parquet:{path}", None, 0, columns=columns)
    theirs = load_raw(f"csv:{table(tmp_path)}", None, 0, columns=columns)
    for name, value in vars(ours).items():
        np.testing.assert_array_equal(value, getattr(theirs, name))
    values["weight"][3] = None
    parquet.write_table(pyarrow.table(values), path)
    with refused("records", "data", "own.parquet, record 4, column weight"):
        load_raw(f"parquet:{path}", None, 0, columns=columns)
    path.write_bytes(b"PAR1")
    with refused("records", "file", str(path)):
        load_raw(f"parquet:{path}", None, 0, columns=columns)


@pytest.mark.parametrize(
    "lists", [[[1.0, 2.0]] * 5, [[1.0]] * 5, [[1.0], [2.0, 3.0], [], [4.0], []]]
)
@pytest.mark.parametrize("beside", [{}, {"age": [30, 41, -1000, 7, 8]}])
def test_lists_in_a_parquet_file_are_no_numbers(lists, beside, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "own.parquet"
    values = {**beside, "lists": lists, "label": ["cat", "dog", "cat", "ant", "dog"]}
    parquet.write_table(pyarrow.table(values), path)
    with refused("records", "data", value="own.parquet, record 1, column lists"):
        load_raw(f"parquet:{path}", None, 0, columns=Columns(label="label"))


def test_parquet_needs_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"'\.\[parquet\]'"):
        load_raw(f"parquet:{table(tmp_path, name='own.parquet')}", None, 0)


def test_files_of_several_owners_share_their_classes(tmp_path):
    first = table(tmp_path)
    second = table(tmp_path, "age,label,weight\n1,owl,1\n2,bee,2\n3,owl,3\n", "other.csv")
    sources = load_own([first, second], 0, columns=Columns(label="label"))
    assert {classes_in(source.recipe) for source in sources} == {
        ("ant", "bee", "cat", "dog", "owl")
    }
    assert {source.classes for source in sources} == {5}
    narrow = table(tmp_path, "age,label\n1,owl\n2,bee\n3,owl\n", "narrow.csv")
    with refused("records", "data", "narrow.csv, which lacks column weight"):
        load_own([first, narrow], 0, columns=Columns(label="label"))
    arrays = write_records(small_split(), tmp_path / "own.npz")
    (source,) = load_own([arrays], 0)
    assert (source.classes, classes_in(source.recipe)) == (3, ())


@pytest.mark.parametrize("parties", [1, 2, 5])
def test_shards_hold_few_classes_and_lose_no_record(parties):
    labels = np.random.default_rng(3).permutation(np.repeat(np.arange(10), 20))
    whole = small_split(train=200, test=11)
    whole.train_y[:] = labels
    whole.train_x[:, 0] = np.arange(200)
    parts = split_among(whole, parties, "shards", seed=1)
    rows = np.concatenate([part.train_x[:, 0] for part in parts])
    assert sorted(rows) == list(range(200))
    for part in parts:
        np.testing.assert_array_equal(part.train_y, labels[part.train_x[:, 0].astype(int)])
        assert len(part.train_y) == 200 // parties
        # A run of 200 / (2 parties) records out of classes of 20 touches so many classes at most.
        assert len(set(part.train_y)) <= 2 * (10 // (2 * parties) + 1)
    again = split_among(whole, parties, "shards", seed=1)
    other = split_among(whole, parties, "shards", seed=2)
    np.testing.assert_array_equal(again[0].train_x, parts[0].train_x)
    if parties == 5:
        assert not np.array_equal(other[0].train_x, parts[0].train_x)
    held_out = [len(part.test_y) for part in parts]
    assert max(held_out) - min(held_out) <= 1


def test_an_unknown_partition_or_too_many_shards_are_refused():
    with refused("partition", "choice", value="dirichlet"):
        split_among(small_split(), 2, "dirichlet")
    with refused("parties", "range", value=7):
        split_among(small_split(train=11), 7, "shards")


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def test_a_download_is_kept_only_with_its_digest(server, tmp_path):
    served, address = server
    (served / "file.bin").write_bytes(b"content" * 1000)
    digest = f"sha256:{hashlib.sha256(b'content' * 1000).hexdigest()}"
    folder = tmp_path / "new" / "folder"
    with refused("download", "file", f"{address}/file.bin"):
        fetch(Published(f"{address}/file.bin", "sha256:" + "0" * 64), folder)
    assert list(folder.iterdir()) == []
    path = fetch(Published(f"{address}/file.bin", digest), folder)
    assert path.read_bytes() == b"content" * 1000
    (served / "file.bin").unlink()
    assert fetch(Published(f"{address}/file.bin", digest), folder) == path
    with refused("download", "value", value=f"{address}/other.bin") as caught:
        fetch(Published(f"{address}/other.bin", digest), folder)
    assert caught.value.__cause__.fp.closed, "its socket is not left to the collector"
    with refused("download", "value", value="http://127.0.0.1:9/third.bin"):
        fetch(Published("http://127.0.0.1:9/third.bin", digest), folder)
    assert list(folder.iterdir()) == [path]


def test_a_downloaded_archive_is_unpacked_and_read(server, tmp_path, batches, monkeypatch):
    served, address = server
    with tarfile.open(served / "cifar.tar.gz", "w:gz") as archive:
        archive.add(batches / BINARY, BINARY)
    digest = hashlib.md5((served / "cifar.tar.gz").read_bytes(), usedforsecurity=False).hexdigest()
    monkeypatch.setattr(
        "extensions.data.datasets.cifar10.ARCHIVE",
        Published(f"{address}/cifar.tar.gz", f"md5:{digest}"),
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    downloaded = load_raw("cifar10", None, 0, download=True)
    local = load_raw("cifar10", batches, 0)
    np.testing.assert_array_equal(downloaded.train_x, local.train_x)
    assert (tmp_path / "cache" / "pea" / "data" / "cifar10" / BINARY).is_dir()


def test_the_real_reviews_are_all_there():
    split = load_raw("imdb", public_data("imdb"), 0)
    assert (len(split.train_x), len(split.test_x)) == (25_000, 25_000)
    assert (split.train_y.sum(), split.test_y.sum()) == (12_500, 12_500)


def test_a_public_data_set_is_found_by_option_variable_or_cache(tmp_path, monkeypatch):
    """In this order; what is downloaded goes to the cache."""
    cached = tmp_path / "cache" / "pea" / "data" / "mnist"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)

    def found(given: Path | None = None, *, download: bool = False) -> Path:
        return find_folder("mnist", given, download=download, files="its files")

    with refused("data_dir", "file", None):
        found()
    assert found(download=True) == cached
    cached.mkdir(parents=True)
    assert found() == cached
    monkeypatch.setenv(VARIABLE, str(tmp_path / "public"))
    assert found() == cached
    (tmp_path / "public" / "mnist").mkdir(parents=True)
    assert found() == tmp_path / "public" / "mnist"
    assert found(download=True) == cached
    assert found(tmp_path / "own", download=True) == tmp_path / "own"
