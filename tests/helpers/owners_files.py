"""Owners' files, good ones and bad ones of each kind, a model of the good ones, and its shares."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from extensions.ring.fixed_point import encode
from extensions.runs.model import SharedModel, path_of, read_opened, write_shares
from extensions.transport import Federation, Member, make
from tests.helpers.commands import call


def make_files(folder: Path) -> None:
    """Writes owners' files, a good one and bad ones of each kind."""
    folder.mkdir()
    draws = np.random.default_rng(0)

    def npz(name: str, rows: int, held_out: int, **changes: Any) -> None:
        arrays = {
            "train_x": draws.uniform(-0.2, 0.2, (rows, 3)),
            "train_y": np.arange(rows) % 2,
            "test_x": draws.uniform(-0.2, 0.2, (held_out, 3)),
            "test_y": np.arange(held_out) % 2,
        }
        np.savez(folder / name, **{k: v for k, v in {**arrays, **changes}.items() if v is not None})

    npz("own.npz", 30, 10)
    npz("empty.npz", 0, 0)
    npz("tiny.npz", 1, 1)
    npz("wide.npz", 30, 10, test_x=np.zeros((10, 4)))
    npz("nan.npz", 30, 10, train_x=np.full((30, 3), np.nan))
    npz("halves.npz", 30, 10, train_y=np.full(30, 0.5))
    npz("negative.npz", 30, 10, train_y=np.full(30, -1))
    npz("many.npz", 30, 10, train_y=np.arange(30))
    npz("lacking.npz", 30, 10, test_y=None)
    npz("one.npz", 30, 10, train_y=np.zeros(30, int), test_y=np.zeros(10, int))
    (folder / "own.toml.npz").write_text("no archive")
    (folder / "own.toml").write_text("steps = 2\n")
    (folder / "both.toml").write_text("id = ['id', 'a']\n")
    (folder / "formats.toml").write_text("id-format = ['text', 'date']\n")
    sides = ["left", "right"] * 10
    tables = {
        "own": [["a", "b", "side"], *([str(i), "1", side] for i, side in enumerate(sides))],
        "words": [["words", "side"], *(["some words", side] for side in sides)],
        "letters": [["a", "side"], *(["x", side] for side in sides)],
        "missing": [["a", "side"], *(["", side] for side in sides)],
        "single": [["a", "side"], ["1", "left"]],
        "one": [["a", "side"], *([str(i), "left"] for i in range(20))],
        "header": [["a", "side"]],
        "ragged": [["a", "side"], ["1", "left"], ["2"]],
        "persons": [["id", "a"], *([f"p{i}", "1"] for i in range(20))],
        "twice": [["id", "a"], ["p1", "1"], ["P1 ", "2"]],
        "numbers": [["id", "a"], ["1", "1"], ["1e5", "2"]],
        "empty": [],
    }
    for name, rows in tables.items():
        (folder / f"{name}.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    owners = [make(name, folder / f"{name}.pem") for name in ("bank", "telco")]
    listed = [
        Member(
            name=one.name, role="party", address=f"127.0.0.1:{7}{n}", fingerprint=one.fingerprint
        )
        for n, one in enumerate(owners)
    ]
    Federation(listed).write(folder / "owners.toml")
    (folder / "own.txt").write_text((folder / "own.csv").read_text())
    (folder / "open.pem").write_text("no key")
    (folder / "open.pem").chmod(0o644)
    member = {"name": "a", "role": "party", "address": "127.0.0.1:7", "fingerprint": "ab" * 32}
    stated = "".join(f"{name} = {value!r}\n" for name, value in member.items())
    (folder / "federation.toml").write_text(f"[[members]]\n{stated}")
    here = {f"server{i}": f"127.0.0.1:{29520 + i}" for i in range(3)}
    lists: dict[str, Any] = {
        "players": here,
        "two": {"server0": "127.0.0.1:29520", "server1": "127.0.0.1:29521"},
        "same": dict.fromkeys(here, "127.0.0.1:29520"),
        "ports": dict.fromkeys(here, "127.0.0.1:99999"),
        "elsewhere": here | {"server1": "192.0.2.7:29521"},
        "list": [],
    }
    for name, content in lists.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    (folder / "twice.json").write_text('{"server0": "a:1", "server0": "b:1"}')


def train_model(folder: Path) -> None:
    """Writes the opened model of a short run over the good file."""
    made = f"train --backend clear --parties 2 --steps 1 --no-dp --data npz:{folder}/own.npz"
    call(*made.split(), "--evaluate", "opened", "--save", folder / "saved")
    (folder / "saved" / "model.npz").rename(folder / "model.npz")


def share_model(folder: Path) -> None:
    """Writes shares of the opened model, one file a party."""
    opened = read_opened(folder / "model.npz")
    parts = [encode(part, opened.header.frac_bits) for pair in opened.parameters for part in pair]
    for rank, own in enumerate((parts, [np.zeros_like(part) for part in parts])):
        shared = SharedModel(header=opened.header, save=(1, 2), rank=rank, parts=own)
        write_shares(path_of(folder / "shares", rank), shared)
