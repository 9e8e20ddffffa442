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
        "--features": ("nothing", "module:nothing", "hashed", "hog,turned", "hog+hashed"),
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
        "--features": ("nothing", "module:nothing", "hog:0", "hashed", "raw,turned", "hog+hashed"),
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
        "--unit": ("nothing", "side"),
        "--exclude": ("nothing", "side"),
        "--out": ("given/own.csv", "given/own.npz/schema.toml", "given"),
        "--config": ("nowhere.toml", "given"),
    },
    together=[
        ({"--from": "given/ragged.csv"}, ("records",)),
    ],
    aliases={"--from": ("records",)},
)

_NO_MODEL = ("nowhere.npz", "given", "given/own.npz", "given/own.csv", "given/empty.npz")

_OPENED = {"--shares": None, "--model": "given/model.npz"}
_HERE = {"--rank": "0", "--rendezvous": "tcp://127.0.0.1:29513", "--provider": "tfp"}
_COMPUTING = {
    "--backend": ("spdz", "clear"),
    "--provider": ("nobody",),
    "--timeout": ("0", "-1"),
    "--rank": ANY,
    "--rendezvous": ("tcp://127.0.0.1:29513",),
    "--join-timeout": ("5",),
    "--dealer": ("127.0.0.1:29514",),
    "--key": ("given/own.npz",),
}
"""Refused with a folder of all shares, or with an opened model."""
_MET = [
    ("--rank", ("-1",)),
    ("--rendezvous", ("here", "tcp://127.0.0.1:99999", "http://127.0.0.1:29513")),
    ("--join-timeout", ("0", "-1")),
    ("--dealer", ("127.0.0.1:99999",)),
    ("--key", ("given/own.npz",)),
]
_NO_SHARES = ("nowhere", "given", "given/own.npz", "given/own.csv", "given/model.npz")
_USED = {
    "--features": ("nothing", "module:nothing", "hog", "tflite:nowhere.tflite"),
    "--weights": ("nowhere.pt",),
    "--no-feature-cache": ANY,
    "--config": ("nowhere.toml", "given"),
}
_TOLD = {"--rendezvous": ("rank, rendezvous",)}
_TOLD |= {"--join-timeout": ("rank, rendezvous",), "--dealer": ("rank, rendezvous",)}
_TOLD |= {"--key": ("rank, rendezvous",)}


def _met(**base: str | None) -> list[tuple[dict[str, str | None], tuple[str, ...]]]:
    """What one party alone gives wrong, where its share is good."""
    alone = {**base, **_HERE}
    return [
        ({**alone, flag: value}, (flag, flag.lstrip("-").replace("-", "_")))
        for flag, values in _MET
        for value in values
    ]


PREDICT = Table(
    base={"--shares": "given/shares", "--records": "given/own.npz", "--out": "predicted.csv"},
    ranges={
        **_USED,
        **_COMPUTING,
        "--model": ("given/model.npz",),
        "--shares": _NO_SHARES,
        "--owner": ("2", "-1"),
        "--records": ("nowhere.npz", "given", "given/own.toml"),
        "--out": ("given", "given/own.npz/predicted.csv"),
        "--text": ("words",),
        "--id": ("name",),
    },
    together=[
        *(({**_OPENED, "--model": path}, ("model",)) for path in _NO_MODEL),
        ({"--shares": None}, ("model, shares",)),
        ({"--records": None}, ("records, out",)),
        ({**_OPENED, "--out": None}, ("records, out",)),
        (_HERE, ("rank, rendezvous",)),
        ({"--rank": "0"}, ("key",)),
        ({"--shares": "given/shares/party-0.npz"}, ("rank, rendezvous",)),
        *_met(**{"--shares": "given/shares/party-0.npz"}),
    ],
    aliases={**_TOLD, "--model": ("model, shares",)},
)

EVALUATE = Table(
    base={"--shares": "given/shares", "--data-for-party": "0=given/own.npz", "--budget": "none"},
    ranges={
        **_USED,
        **_COMPUTING,
        "--shares": _NO_SHARES,
        "--data-for-party": ("own.npz", "2=own.npz", "-1=own.npz", "x=own.npz"),
        "--records": ("given/own.npz",),
        "--label": ("side",),
        "--text": ("words",),
        "--noisy": ANY,
        "--count-noise": ("0", "-1", "inf"),
        "--budget": ANY,
        "--verbose": ANY,
        "--json": ("given", "given/own.npz/report.json"),
    },
    together=[
        ({"--data-for-party": "0=nowhere.npz"}, ("records",)),
        ({"--data-for-party": "0=given/empty.npz"}, ("records",)),
        ({"--data-for-party": "0=given/wide.npz"}, ("records", "features", "columns")),
        *_met(
            **{
                **{"--shares": "given/shares/party-0.npz", "--records": "given/own.npz"},
                "--data-for-party": None,
            }
        ),
    ],
    aliases={**_TOLD, "--data-for-party": ("own", "data_for_party", "records")},
)

OPEN = Table(
    base={"--shares": "given/shares", "--out": "opened"},
    ranges={
        **_COMPUTING,
        "--shares": _NO_SHARES,
        "--data-for-party": ("own.npz", "2=own.npz", "-1=own.npz", "x=own.npz"),
        "--records": ("given/own.npz",),
        "--out": ("given/own.npz", "given/own.npz/folder"),
        "--budget": ("given",),
        "--config": ("nowhere.toml", "given"),
    },
    together=_met(**{"--shares": "given/shares/party-0.npz"}),
    aliases={**_TOLD, "--data-for-party": ("own", "data_for_party")},
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
