"""`pea split`, `pea features` and `pea budget`."""

from tests.extensions.cli.refused.running import TRAIN
from tests.extensions.cli.refused.table import ANY, Table

_OF_FILES = {
    flag: TRAIN.ranges[flag]
    for flag in (
        "--schema",
        "--class-names",
        "--seed-data",
        "--weights",
        "--max-feature-norm",
        "--config",
    )
}
_ARRAYS = {"--records": "given/own.npz", "--label": None, "--class-names": None, "--classes": "2"}
_BROKEN = ("nowhere.npz", "given", "given/own.toml", "given/empty.npz", "given/nan.npz")
_TABLES = ("letters", "missing", "ragged")
_TABLE = {"--data": "csv:given/own.csv", "--label": "side"}

SPLIT = Table(
    base={"--out": "parts", "--parties": "2"},
    ranges={
        **_OF_FILES,
        **{flag: TRAIN.ranges[flag] for flag in ("--label", "--text", "--data", "--data-dir")},
        "--out": ("given/own.npz", "given/own.npz/folder"),
        "--parties": ("0", "-1", "65", "400"),
        "--download": ANY,
        "--partition": ("even",),
        "--no-feature-cache": ANY,
        "--features": ("nothing", "module:nothing", "hashed"),
    },
    together=[
        ({"--data": "csv:given/own.csv"}, ("label",)),
        ({**_TABLE, "--text": "side"}, ("text",)),
        ({**_TABLE, "--features": "hog:4"}, ("features", "records")),
        ({"--data": "npz:given/empty.npz"}, ("records",)),
        ({"--data": "npz:given/nan.npz"}, ("records",)),
        ({"--data": "csv:given/words.csv", "--label": "side", "--text": "words"}, ("features",)),
        (
            {"--partition": "shards", "--parties": "64", "--data": "npz:given/tiny.npz"},
            ("parties",),
        ),
    ],
    aliases=TRAIN.aliases,
)

FEATURES = Table(
    base={
        "--records": "given/own.csv",
        "--out": "own.npz",
        "--label": "side",
        "--features": "raw",
        "--class-names": "left,right",
    },
    ranges={
        **_OF_FILES,
        "--records": (*("nowhere.csv", "given/empty.csv", "given/header.csv"),),
        "--out": ("given/own.npz/features.npz", "given"),
        "--label": ("nothing",),
        "--text": ("side", "nothing"),
        "--class-names": ("a", "a,a"),
        "--schema": ANY,
        "--no-feature-cache": ANY,
        "--features": ("nothing", "module:nothing", "hog:0", "hashed"),
        "--classes": ("0", "1", "-1"),
    },
    together=[
        ({"--label": None}, ("label",)),
        *(({**_ARRAYS, "--records": path}, ("records",)) for path in _BROKEN),
        *(({"--records": f"given/{name}.csv"}, ("records",)) for name in _TABLES),
        ({"--class-names": "a,b"}, ("labels",)),
        ({"--schema": "nowhere.toml"}, ("label",)),
        ({"--schema": "nowhere.toml", "--label": None, "--class-names": None}, ("schema",)),
        ({"--records": "given/own.npz"}, ("label",)),
        ({**_ARRAYS, "--features": "hog:4"}, ("features",)),
    ],
    aliases={**TRAIN.aliases, "--class-names": ("names", "labels"), "--features": ("records",)},
)

BUDGET = Table(
    base={"records": "given/own.npz", "--cap": "1", "--delta": "1e-5"},
    ranges={
        "records": ("nowhere.npz", "given/own.csv.budget.json"),
        "--cap": ("0", "-1", "inf"),
        "--delta": ("0", "1", "-1", "2"),
        "--except-held-out": ANY,
        "--free": ("nothing",),
        "--json": ("given", "given/own.npz/report.json"),
        "--config": ("nowhere.toml", "given"),
    },
    together=[
        ({"--delta": None}, ("delta",)),
        ({"--cap": None, "--except-held-out": ""}, ("except_held_out",)),
    ],
)

SCHEMA = Table(
    base={"--from": "given/own.csv", "--target": "side"},
    ranges={
        "--from": ("nowhere.csv", "given/own.npz", "given", "given/empty.csv"),
        "--target": ("nothing",),
        "--unit": ("nothing",),
        "--out": ("given/own.csv", "given/own.npz/schema.toml", "given"),
        "--config": ("nowhere.toml", "given"),
    },
    together=[
        ({"--from": "given/ragged.csv"}, ("records",)),
        ({"--unit": "side"}, ("columns",)),
    ],
    aliases={"--from": ("records",)},
)

_NO_MODEL = ("nowhere.npz", "given", "given/own.npz", "given/own.csv", "given/empty.npz")

PREDICT = Table(
    base={"--model": "given/model.npz", "--records": "given/own.npz", "--out": "predicted.csv"},
    ranges={
        "--model": _NO_MODEL,
        "--records": ("nowhere.npz", "given", "given/own.toml"),
        "--out": ("given", "given/own.npz/predicted.csv"),
        "--text": ANY,
        "--weights": ("nowhere.pt",),
        "--no-feature-cache": ANY,
        "--config": ("nowhere.toml", "given"),
    },
)

EXPORT = Table(
    base={"--model": "given/model.npz", "--to": "npz", "--out": "exported.npz"},
    ranges={
        "--model": _NO_MODEL,
        "--to": ("tflite", "Torch"),
        "--out": ("given", "given/own.npz/model.npz"),
        "--config": ("nowhere.toml", "given"),
    },
)
