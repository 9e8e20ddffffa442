"""Extractors with options, and side by side: still functions of one record each."""

import numpy as np
import pytest

from extensions.data.datasets import Split
from extensions.data.features import Cache, Extractor, extract, find, tflite
from extensions.data.features.combined import side_by_side, with_option
from extensions.data.features.images import resized
from tests.helpers.public_data import EXTRACTORS
from tests.helpers.refused import refused

DRAWS = np.random.default_rng(8)
IMAGES = DRAWS.integers(0, 256, (5, 6, 4, 3), dtype=np.uint8)
TEXTS = np.array(["a fine film", "a dull one", "", "x"], dtype=object)
MODEL = "mobilenet_v1_0.25_128_quant.tflite"
POOLED = "MobilenetV1/Logits/AvgPool_1a/AvgPool"


def made(function, **fields) -> Extractor:
    given = {"name": "made", "kinds": ("images",), "identity": {"seed": "1"}}
    return Extractor(function=function, **given | fields)


def left(x):
    """Brightness of an image's first column of pixels, less that of all, and the record's last."""
    reals = x.astype(np.float32).reshape(len(x), x.shape[1], -1)
    return np.stack([reals[:, :, :3].sum((1, 2)) - 2000.0, reals[:, -1, -1]], axis=1)


def rows_of(x, extractor: Extractor) -> np.ndarray:
    y = np.zeros(len(x), dtype=np.int64)
    return extract(Split(train_x=x, train_y=y, test_x=x[:1], test_y=y[:1]), extractor).train_x


def test_mirror_is_the_mean_of_both_sides():
    found = with_option(made(left), "mirror")
    assert (found.name, found.kinds, found.identity) == ("made,mirror", ("images",), {"seed": "1"})
    expected = (left(IMAGES) + left(IMAGES[:, :, ::-1])) / 2
    np.testing.assert_allclose(found.function(IMAGES), expected, rtol=1e-6)
    np.testing.assert_allclose(found.function(IMAGES[:, :, ::-1]), expected, rtol=1e-6)
    assert abs(left(IMAGES) - expected).max() > 1.0


def test_roots_keep_the_sign():
    rows = np.array([[4.0, -9.0, 0.0, 0.25]])
    found = with_option(made(lambda x: rows, kinds=("texts",)), "sqrt")
    np.testing.assert_array_equal(found.function(TEXTS[:1]), [[2.0, -3.0, 0.0, 0.5]])
    assert found.kinds == ("texts",)


def test_options_are_applied_in_their_order():
    both = [left(side) for side in (IMAGES, IMAGES[:, :, ::-1])]
    roots = [np.sign(side) * np.sqrt(abs(side)) for side in both]
    mean = sum(both) / 2
    expected = {
        ("mirror", "sqrt"): np.sign(mean) * np.sqrt(abs(mean)),
        ("sqrt", "mirror"): sum(roots) / 2,
    }
    for options, rows in expected.items():
        extractor = made(left)
        for option in options:
            extractor = with_option(extractor, option)
        assert extractor.name == ",".join(["made", *options])
        np.testing.assert_allclose(extractor.function(IMAGES), rows, rtol=1e-5)


def test_bicubic_gives_images_in_the_extractors_size():
    image = pytest.importorskip("PIL.Image")
    seen: list[np.ndarray] = []

    def function(x):
        seen.append(resized(x, 9, 7))
        return np.ones((len(x), 2))

    with_option(made(function, size=(9, 7)), "bicubic").function(IMAGES)
    expected = image.fromarray(IMAGES[3]).resize((7, 9), image.Resampling.BICUBIC)
    np.testing.assert_array_equal(seen[0][3], np.asarray(expected))
    assert (seen[0] != resized(IMAGES, 9, 7)).any()


def test_parts_side_by_side_have_equal_norms():
    narrow = made(lambda x: x.reshape(len(x), -1)[:, :8], name="narrow", batch=16)
    wide = made(lambda x: 99.0 * x.reshape(len(x), -1)[:, 8:], name="wide", checks_rows=True)
    both = side_by_side([narrow, wide])
    assert (both.name, both.batch, both.checks_rows) == ("narrow+wide", 16, True)
    np.testing.assert_allclose(np.linalg.norm(both.function(IMAGES), axis=1), 1.0, rtol=1e-6)
    rows = rows_of(IMAGES, both)
    assert rows.shape == (5, 72)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-12)
    for part, columns in ((narrow, slice(0, 8)), (wide, slice(8, None))):
        own = rows_of(IMAGES, part)
        np.testing.assert_allclose(rows[:, columns], own / np.sqrt(2), atol=1e-7)
    for place in range(len(IMAGES)):
        np.testing.assert_array_equal(rows_of(IMAGES[place : place + 1], both)[0], rows[place])


def test_a_part_of_zeros_leaves_the_norm_to_the_others():
    nothing = made(lambda x: np.zeros((len(x), 3)), name="nothing")
    rows = rows_of(IMAGES, side_by_side([nothing, made(left)]))
    np.testing.assert_array_equal(rows[:, :3], np.zeros((5, 3)))
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-12)


def test_what_fixes_the_parts_fixes_all():
    first = made(left, identity={"pillow": "11", "model": "a"}, sources={"weights 1": "x"})
    second = made(left, identity={"pillow": "11", "model": "b"}, sources={"weights 1": "x"})
    both = side_by_side([first, second])
    assert both.identity == {"pillow": "11", "model of part 1": "a", "model of part 2": "b"}
    assert both.sources == {"weights 1": "x"}
    assert side_by_side([first, made(left, identity=None)]).identity is None


def test_options_and_parts_decide_over_the_file_of_features(tmp_path):
    names = ["raw", "raw,sqrt", "raw,mirror", "raw,mirror,sqrt", "raw,sqrt,mirror", "raw+raw,sqrt"]
    paths = {Cache(tmp_path).path(find(name), IMAGES) for name in names}
    assert len(paths) == len(names)


def test_names_are_taken_apart():
    both = find("hashed:64,sqrt+tests.helpers.extractors:lengths+hashed")
    assert both.name == "hashed:64,sqrt+tests.helpers.extractors:lengths+hashed"
    assert both.kinds == ("texts",)
    assert rows_of(TEXTS, both).shape == (4, 64 + 2 + 512)
    assert both.identity is None
    assert "source of tests.helpers.extractors" in both.sources


BAD = [
    ("hashed+nothing", "value", "hashed+nothing"),
    ("+hashed", "value", "+hashed"),
    ("hashed+", "value", "hashed+"),
    ("raw,turned", "choice", "raw,turned"),
    ("raw,", "value", "raw,"),
    ("raw,mirror,sqrt,mirror", "value", "raw,mirror,sqrt,mirror"),
    ("hashed,mirror", "value", "hashed,mirror"),
    ("raw,bicubic", "value", "raw,bicubic"),
    ("raw+hashed", "value", "raw+hashed"),
    ("raw,mirror+hashed:0", "range", "hashed:0"),
]


@pytest.mark.parametrize(("name", "code", "value"), BAD)
def test_what_cannot_be_combined_is_refused(name, code, value):
    with refused("features", code, value):
        find(name)


@pytest.mark.parametrize("name", ["raw+hashed", "backbone+backbone:resnet18", "backbones:one"])
def test_weights_are_for_one_backbone(name, tmp_path):
    with refused("weights", "conflict", str(tmp_path / "weights.pt")):
        find(name, tmp_path / "weights.pt")


def test_networks_in_threads_change_no_bit(monkeypatch):
    """Found by its name alone in the folder of public data, and by its path."""
    pytest.importorskip("ai_edge_litert")
    if not (EXTRACTORS / MODEL).is_file():
        pytest.skip("no model here")
    one, several = find(f"tflite:{MODEL}#{POOLED}"), find(f"tflite:{EXTRACTORS / MODEL}#{POOLED}")
    assert one.name == several.name == f"tflite:{MODEL}#{POOLED}"
    monkeypatch.setattr(tflite, "cores", lambda: 1)
    alone = one.function(IMAGES)
    monkeypatch.setattr(tflite, "cores", lambda: 3)
    np.testing.assert_array_equal(several.function(IMAGES), alone)
    np.testing.assert_array_equal(several.function(IMAGES[:2]), alone[:2])
    altered = find(f"tflite:{MODEL}#{POOLED},bicubic,mirror,sqrt").function(IMAGES)
    large = [resized(side, 128, 128, cubic=True) for side in (IMAGES, IMAGES[:, :, ::-1])]
    mean = sum(one.function(side) for side in large) / 2
    np.testing.assert_allclose(altered, np.sqrt(mean), rtol=1e-5)
