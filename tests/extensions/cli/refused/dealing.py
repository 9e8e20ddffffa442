"""`pea prepare`, `pea dealer`, `pea players`, `pea keys` and `pea federation`."""

from tests.extensions.cli.refused.running import TRAIN
from tests.extensions.cli.refused.table import ANY, Table

_BY_HAND = {"--provider": "parties", "--rendezvous": "tcp://127.0.0.1:29511"}
_COUNTS = {"--records": "9,9", "--held-out": "3,3", "--columns": "4"}

PREPARE = Table(
    base={
        **{"--out": "material", "--parties": "2", "--steps": "2"},
        **{"--noise-multiplier": "1", "--delta": "1e-5", "--records": "9,9"},
        **{"--held-out": "3,3", "--columns": "4"},
    },
    ranges={
        **{
            flag: values
            for flag, values in TRAIN.ranges.items()
            if flag
            not in (
                *("--backend", "--provider", "--evaluate", "--insecure-fixed-randomness"),
                *("--method", "--open"),
                *(
                    "--data-for-party",
                    "--download",
                    "--label",
                    "--text",
                    "--schema",
                    "--class-names",
                ),
                *("--partition", "--seed-data", "--no-feature-cache", "--save", "--timeout"),
                *("--transport", "--federation", "--key"),
                "--again",
                *("--material", "--players", "--checkpoint", "--checkpoint-every", "--resume"),
                *(
                    "--budget",
                    "--json",
                    "--verbose",
                    "--data",
                    "--data-dir",
                    "--features",
                    "--weights",
                ),
            )
        },
        "--out": ("given/own.npz", "given/own.npz/folder"),
        "--provider": ("nobody", "ttp", "tfp"),
        "--rank": ("0",),
        "--rendezvous": ("tcp://127.0.0.1:29511",),
        "--join-timeout": ("0", "-1"),
        "--key": ("nowhere.pem",),
        "--parties": ("0", "1", "65"),
        "--classes": ("0", "1", "-1"),
        "--data": ("digits",),
        "--data-dir": ("nowhere",),
        "--features": ("nothing", "module:nothing"),
        "--weights": ("nowhere.pt",),
        "--schema": ("nowhere.toml",),
        "--records": ("many", "9", "9,9,9", "0,9", "9,-1", "9;9", "9.5,9"),
        "--held-out": ("many", "3", "-1,3"),
        "--columns": ("0", "-1", "999999999"),
    },
    together=[
        ({"--provider": "parties", "--rank": "0"}, ("key",)),
        ({**_BY_HAND, "--rank": "2"}, ("rank",)),
        ({**_BY_HAND, "--rank": "-1"}, ("rank",)),
        ({**_BY_HAND, "--rank": "0", "--rendezvous": "here"}, ("rendezvous",)),
        ({**_BY_HAND, "--rank": "0", "--key": "nowhere.pem"}, ("key",)),
        ({"--records": None}, ("held_out", "columns", "records")),
        ({"--held-out": None}, ("records",)),
        ({"--columns": None}, ("records",)),
        ({**dict.fromkeys(_COUNTS), "--data": "csv:given/own.csv"}, ("data",)),
        ({**dict.fromkeys(_COUNTS), "--data": "parquet:nowhere.parquet"}, ("data",)),
        ({**dict.fromkeys(_COUNTS), "--data": "iris"}, ("data",)),
        ({**dict.fromkeys(_COUNTS), "--data": "npz:nowhere.npz"}, ("records",)),
        ({**dict.fromkeys(_COUNTS), "--features": "nothing"}, ("features",)),
        ({"--epochs": "1"}, ("steps, epochs",)),
        ({"--no-dp": ""}, ("noise_multiplier",)),
        ({"--delta": None}, ("delta",)),
        ({"--noise-multiplier": None}, ("epsilon, noise_multiplier",)),
    ],
    aliases={**TRAIN.aliases, "--held-out": ("records, held_out",), "--columns": ("features",)},
)

DEALER = Table(
    base={"--bind": "127.0.0.1:29512", "--parties": "2", "--join-timeout": "1"},
    ranges={
        "--bind": ("here", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:0", ":1", "192.0.2.7:29512"),
        "--parties": ("0", "1", "-1", "65"),
        "--join-timeout": ("0", "-1"),
        "--federation": ("nowhere.toml", "given/own.toml"),
        "--key": ("nowhere.pem",),
        "--runs": ("0", "2"),
        "--config": ("nowhere.toml", "given"),
    },
    together=[
        ({"--bind": None}, ("bind, parties",)),
        ({"--parties": None}, ("bind, parties",)),
        ({"--bind": None, "--parties": None, "--federation": "nowhere.toml"}, ("key",)),
        (
            {
                **{"--bind": None, "--parties": None, "--federation": "nowhere.toml"},
                **{"--key": "nowhere.pem", "--runs": "0"},
            },
            ("runs",),
        ),
        (
            {
                **{"--bind": None, "--parties": None, "--federation": "nowhere.toml"},
                "--key": "nowhere.pem",
            },
            ("key",),
        ),
    ],
)

_OF_RECORDS = (
    *("--label", "--text", "--class-names", "--schema", "--seed-data", "--features", "--weights"),
    *("--no-feature-cache", "--max-feature-norm", "--classes", "--budget"),
)
_OWN = {"--player": "server0", "--records": "given/own.npz"}

PLAYERS = Table(
    base={"--players": "given/players.json"},
    ranges={
        "--players": (
            *("nowhere.json", "given", "given/own.csv", "given/two.json", "given/same.json"),
            *("given/twice.json", "given/list.json"),
        ),
        "--player": ("nobody",),
        "--idle-timeout": ("0", "-1"),
        "--insecure-open-port": ANY,
        "--federation": ("nowhere.toml",),
        "--key": ("nowhere.pem",),
        "--config": ("nowhere.toml", "given/players.json"),
        "--records": ("nowhere.npz", "given/own.npz"),
        **dict.fromkeys(_OF_RECORDS, ANY),
    },
    together=[
        ({"--players": "given/ports.json"}, ("players['server0']",)),
        ({"--players": "given/elsewhere.json"}, ("player",)),
        (
            {"--players": "given/elsewhere.json", "--player": "server1"},
            ("players['server1']",),
        ),
        *(
            ({"--player": "server0", "--records": f"given/{name}", "--classes": "2"}, ("records",))
            for name in ("nowhere.npz", "empty.npz", "nan.npz", "wide.npz", "own.toml")
        ),
        ({**_OWN, "--records": "given/own.csv"}, ("classes",)),
        ({**_OWN, "--records": "given/own.csv", "--class-names": "left,right"}, ("label",)),
        (
            {**_OWN, "--records": "given/letters.csv", "--class-names": "left,right"}
            | {"--label": "side"},
            ("records",),
        ),
        ({**_OWN, "--classes": "1"}, ("classes",)),
        ({**_OWN, "--classes": "2", "--label": "side"}, ("label",)),
        ({**_OWN, "--classes": "2", "--weights": "given/own.npz"}, ("weights",)),
        ({**_OWN, "--classes": "2", "--features": "nothing"}, ("features",)),
        ({**_OWN, "--classes": "2", "--max-feature-norm": "0"}, ("max_feature_norm",)),
        ({**_OWN, "--player": None, "--records": "given"}, ("records",)),
        ({"--seed-data": "3"}, ("seed_data",)),
        ({"--federation": "given/own.toml", "--key": "nowhere.pem"}, ("federation", "key")),
    ],
    aliases={"--players": ("players['server0']", "player")},
)

_MARK = "ab" * 32

KEYS = Table(
    base={"--name": "hospital-a", "--out": "hospital-a.pem"},
    ranges={
        "--name": ("-a", "a b", "a" * 64),
        "--out": ("given", "given/own.npz", "given/own.npz/key.pem"),
        "--days": ("0", "-1"),
        "--config": ("nowhere.toml", "given"),
    },
)

FEDERATION = Table(
    base={
        **{"file": "federation.toml", "--add": "hospital-a", "--role": "party"},
        **{"--address": "127.0.0.1:7000", "--fingerprint": _MARK},
    },
    ranges={
        "file": ("given", "given/own.npz", "given/own.toml"),
        "--add": ("a b", "-a"),
        "--role": ("king",),
        "--address": ("here", "127.0.0.1:0", "0.0.0.0:7000", "[::]:7000"),
        "--fingerprint": ("ab", "x" * 64),
        "--key": ("nowhere.pem", "given/own.npz"),
        "--config": ("nowhere.toml", "given"),
    },
    together=[
        ({"--add": None}, ("fingerprint",)),
        ({"--fingerprint": None}, ("add",)),
        ({"--role": "client"}, ("address",)),
        ({"--address": None}, ("address",)),
        ({"--add": None, "--fingerprint": None}, ("role",)),
        ({"--add": None, "--fingerprint": None, "--role": None}, ("address",)),
        (
            {**dict.fromkeys(("--add", "--fingerprint", "--role", "--address"))},
            ("federation",),
        ),
    ],
    aliases={"file": ("federation",), "--add": ("name",)},
)
