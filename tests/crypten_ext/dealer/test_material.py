"""Prepared tuples: right, for their owner only, for one run only, and all parties' or nobody's."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crypten_ext.dealer import Material, prepare
from crypten_ext.dealer.client import Client
from crypten_ext.dealer.material import _HEADER_AT, LENGTH, Header
from crypten_ext.dealer.requests import Request
from crypten_ext.processes.launch import Parties, PartyFailedError
from crypten_ext.run.preparation import whole_run
from extensions.data.datasets import write_private
from extensions.errors import MaterialError, PeaError
from extensions.runs.config import TrainConfig
from tests.conftest import Pools
from tests.helpers.bombs import LARGE, peak
from tests.helpers.claims import claim
from tests.helpers.commands import pea, report_of
from tests.helpers.refused import refused

pytestmark = pytest.mark.usefixtures("imported")

REQUESTS = [
    Request.of("square", (4,)),
    Request.of("binary", (3, 1), (4,)),
    Request.of("square", (4,)),
]
TASK = "tests.helpers.party_tasks.dealer:"


@pytest.fixture(autouse=True)
def own_list(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


def files(folder: Path, parties: int = 3, **settings: object) -> list[Path]:
    return prepare(folder, parties, REQUESTS, settings)


def deal(path: Path, requests: list[Request] = REQUESTS) -> list[list[torch.Tensor]]:
    client = Client.prepared(Material(path))
    try:
        return [client.deal(request) for request in requests]
    finally:
        client.close()


# --- what is in them ----------------------------------------------------------------------------


@pytest.mark.parametrize("parties", [1, 2, 5])
def test_the_parties_shares_fulfil_the_relations(tmp_path: Path, parties: int):
    first, both, third = zip(*map(deal, files(tmp_path, parties)), strict=True)
    for shares in (first, third):
        r, square = (torch.stack(words).sum(0) for words in zip(*shares, strict=True))
        assert torch.equal(r * r, square)
    a, b, c = both[0]
    for share in both[1:]:
        a, b, c = a ^ share[0], b ^ share[1], c ^ share[2]
    assert torch.equal(a & b, c)
    words = [w for shares in (first, third) for share in shares for w in share[0].tolist()]
    assert len(set(words)) == len(words)


def test_a_file_and_its_folder_are_for_the_owner_alone(tmp_path: Path):
    for path in files(tmp_path / "new"):
        assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    path.chmod(0o640)
    with refused("material", "file", f"{tmp_path}/new/party-2.material, which others may read"):
        Material(path)


def test_each_file_holds_a_third_of_the_corrections(tmp_path: Path):
    """Of two tuples with a word over, one goes to party 2 and one to party 0."""
    sizes = [path.stat().st_size for path in files(tmp_path)]
    assert sizes[0] == sizes[2] == sizes[1] + 8


def test_existing_files_are_kept(tmp_path: Path):
    before = [path.read_bytes() for path in files(tmp_path)]
    with refused("out", "file", str(tmp_path / "party-0.material")):
        files(tmp_path)
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == before


def test_nothing_is_left_of_a_preparation_that_fails(tmp_path: Path):
    def fail(done: int) -> None:
        raise RuntimeError(str(done))

    with pytest.raises(RuntimeError, match="^1$"):
        prepare(tmp_path, 2, REQUESTS, {}, fail)
    assert list(tmp_path.iterdir()) == []


# --- once ---------------------------------------------------------------------------------------


def test_a_used_file_is_refused_and_holds_neither_key_nor_words(tmp_path: Path):
    path = files(tmp_path)[-1]
    before = path.read_bytes()
    material = Material(path)
    material.finish()
    header = json.dumps({"run": material.header.run})[1:-1].encode()
    deal(path)
    after = path.read_bytes()
    assert after.count(bytes(32)) == 1
    assert len(after) < len(before) - 8 * 20
    assert header in after
    with pytest.raises(MaterialError, match="was used before"):
        Material(path)


@claim("A copy of a used file is rejected.")
def test_a_copy_of_a_used_file_is_refused(tmp_path: Path):
    path = files(tmp_path)[0]
    copy = shutil.copy(path, tmp_path / "copy")
    deal(path)
    with pytest.raises(MaterialError, match="copy was used before"):
        Material(Path(copy))


@pytest.mark.parametrize("state", ["state", "./state", "~/.state"])
def test_a_copy_is_refused_in_another_working_folder(tmp_path: Path, monkeypatch, state: str):
    """Of a relative state folder each working folder has one of its own: it is ignored."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", state)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    path = files(tmp_path / "prepared")[0]
    copy = Path(shutil.copy(path, tmp_path / "two" / "copy"))
    monkeypatch.chdir(tmp_path / "one")
    deal(path)
    monkeypatch.chdir(tmp_path / "two")
    with pytest.raises(MaterialError):
        Material(copy)


@pytest.mark.parametrize("copied", [False, True])
def test_of_two_users_at_once_one_is_refused(tmp_path: Path, copied: bool):
    path = files(tmp_path)[0]
    other = Path(shutil.copy(path, tmp_path / "copy")) if copied else path
    one, two = Material(path), Material(other)
    one.begin()
    with pytest.raises(MaterialError, match="was used before"):
        two.begin()
    one.finish(), two.finish()


def test_a_file_that_was_opened_only_can_still_be_used(tmp_path: Path):
    path = files(tmp_path)[0]
    Material(path).finish()
    assert len(deal(path)) == len(REQUESTS)


# --- another run, or damage ---------------------------------------------------------------------


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([Request.of("square", (5,))], r"another tuple \(number 0\)"),
        ([REQUESTS[0], REQUESTS[2]], r"another tuple \(number 1\)"),
        ([*REQUESTS, REQUESTS[0]], "more than the 3 tuples that were prepared"),
    ],
)
def test_another_run_is_refused_at_every_party(tmp_path: Path, rank: int, requests, message: str):
    path = files(tmp_path)[rank]
    with pytest.raises(MaterialError, match=message):
        deal(path, requests)


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("where", [30, -100, -1], ids=["key", "frame", "last byte"])
def test_a_flipped_bit_is_found(tmp_path: Path, rank: int, where: int):
    path = files(tmp_path)[rank]
    content = bytearray(path.read_bytes())
    content[where] ^= 1
    path.write_bytes(content)
    with pytest.raises(MaterialError, match="is damaged"):
        deal(path)


@pytest.mark.parametrize("kept", [0, 10, 40, 60, 100])
def test_a_file_cut_in_its_header_is_refused(tmp_path: Path, kept: int):
    path = files(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:kept])
    with refused("material", "file", str(path)):
        Material(path)


@pytest.mark.parametrize(
    "header",
    [
        "[" * 100_000,
        "[]",
        '{"run": "a"}',
        '{"run": "a", "rank": "0", "parties": 3, "tuples": 3, "settings": {}}',
        '{"run": "a", "rank": 0, "parties": 3, "tuples": 3, "settings": []}',
    ],
)
def test_a_header_that_is_none_is_refused_by_one_error(tmp_path: Path, header: str):
    path = files(tmp_path)[0]
    before = path.read_bytes()[:_HEADER_AT]
    path.write_bytes(before + LENGTH.pack(len(header)) + header.encode())
    with refused("material", "file", str(path)):
        Material(path)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_frame_takes_no_more_memory_than_the_file_has_bytes(tmp_path: Path, rank: int):
    path = files(tmp_path)[rank]
    content = bytearray(path.read_bytes())
    material = Material(path)
    material.finish()
    at = material._frames_at
    content[at : at + LENGTH.size] = LENGTH.pack(2**32 - 1)
    path.write_bytes(content)

    def refused() -> None:
        with pytest.raises(MaterialError, match="is damaged"):
            deal(path)

    assert peak(refused) < LARGE


def test_a_file_cut_among_its_frames_ends_the_run(tmp_path: Path):
    path = files(tmp_path)[2]
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(MaterialError, match="is damaged"):
        deal(path)


def test_a_missing_file_is_named(tmp_path: Path):
    with refused("material", "file", str(tmp_path / "nowhere")):
        Material(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("rank", "settings", "wrong"),
    [
        (1, {}, "the file of party 0"),
        (0, {"steps": 3}, "prepared for steps = 2"),
        (0, {"steps": 2, "records": 5}, ""),
    ],
)
def test_a_header_knows_its_run(rank: int, settings: dict[str, int], wrong: str):
    header = Header(run="", rank=0, parties=2, tuples=1, settings={"steps": 2, "lr": 1.0})
    if not wrong:
        header.check(rank, settings)
        return
    with refused("material", "file", value=wrong):
        header.check(rank, settings)


def test_a_rehearsal_becomes_a_whole_run():
    a, b, c, d = (Request.of("square", (size,)) for size in range(4))
    assert whole_run([[a], [b, c], [b, c], [b, c, d]], 5) == [a, *[b, c] * 5, d]
    assert whole_run([[a], [b], [c, d]], 2) == [a, b, c, d]
    for unlike in ([[a], [b], [c], [b]], [[a], [b], [b], [c]]):
        with pytest.raises(PeaError, match="ask for different tuples"):
            whole_run(unlike, 5)


# --- all parties' files -------------------------------------------------------------------------


def test_files_of_different_runs_are_refused_and_not_used(tmp_path: Path):
    one, other = files(tmp_path / "one", 2), files(tmp_path / "other", 2)
    with (
        Parties(2) as parties,
        refused("material", "file"),
    ):
        parties.run(TASK + "use_material", per_party=[{"path": one[0]}, {"path": other[1]}])
    with Parties(2) as parties:
        squares = parties.run(TASK + "use_material", per_party=[{"path": p} for p in one])
    assert squares == [[0.0, 1.0, 4.0, 9.0]] * 2


@pytest.mark.parametrize(
    ("settings", "longest", "refused"),
    [
        ({}, 1.5, r"of norm at most max_feature_norm = 1"),
        (
            {"model": "mlp:4", "steps": 100_000, "lr": 1e3},
            1.0,
            r"^learning_rate must be such that",
        ),
    ],
    ids=["a row that is too long", "steps without proven bounds"],
)
def test_a_run_that_cannot_begin_uses_no_file(
    tmp_path: Path, pools: Pools, settings: dict[str, Any], longest: float, refused: str
):
    parts = []
    for rank, norm in enumerate((1.0, longest)):
        rows = np.zeros((4, 3))
        rows[:, rank] = norm
        half = {"x": rows, "y": np.arange(4) % 2}
        arrays = {f"{part}_{k}": v for part in ("train", "test") for k, v in half.items()}
        parts.append(write_private(tmp_path / f"records-{rank}.npz", **arrays))
    prepared = files(tmp_path / "m", 2)
    config = TrainConfig(
        **{"parties": 2, "classes": 2, "noise_multiplier": 1.0, "delta": 1e-5, **settings}
    )
    answers = pools.run(
        2,
        TASK + "refusal",
        config=config,
        per_party=[
            {"records": own, "material": file} for own, file in zip(parts, prepared, strict=True)
        ],
    )
    assert re.search(refused, answers[1])
    assert settings or "refused by party 1" in answers[0]
    for path in prepared:
        Material(path).finish()


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0, 0], "(refused by party 1|the file of party 0)"),
        pytest.param([0, 2], "(refused by party 1|prepared for 3 parties)", marks=pytest.mark.long),
    ],
)
def test_a_party_with_another_file_ends_the_run_before_any_is_used(tmp_path, given, message):
    two, three = files(tmp_path / "two", 2), files(tmp_path / "three", 3)
    paths = [{0: two[0], 1: two[1], 2: three[1]}[which] for which in given]
    with Parties(2) as parties, pytest.raises(PartyFailedError, match=message):
        parties.run(TASK + "use_material", per_party=[{"path": path} for path in paths])
    for path in (*two, *three):
        Material(path).finish()


# --- the command --------------------------------------------------------------------------------

RUN = ("--noise-multiplier", 1.0, "--delta", 1e-5, "--steps", 4, "--parties", 2)


@pytest.mark.long
def test_a_prepared_run_needs_no_dealer_and_happens_once(tmp_path: Path):
    made = pea("prepare", *RUN, "--out", tmp_path / "m")
    assert made.returncode == 0, made.stderr
    assert made.stdout.count(".material") == 2
    train = ("train", *RUN, "--material", tmp_path / "m", "--json", tmp_path / "run.json")
    done = pea(*train)
    assert done.returncode == 0, done.stderr
    report = report_of(tmp_path / "run.json")
    assert report["provider"] == "dealer"
    assert report["rounds"] == 1 + 4 * 18
    assert report["dealt_bytes"] == [0, 0]
    again = pea(*train)
    assert again.returncode == 1
    assert "party-0.material was used before" in again.stderr
    assert "Traceback" not in again.stderr


SIZES = ("--held-out", "5,5", "--columns", 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("prepare", "--records", "5,x", *SIZES), "--records must be 2 whole numbers"),
        (("prepare", "--records", "5,5"), "--records needs --held-out and --columns."),
        (
            ("prepare", "--records", "5", "--held-out", "5", "--columns", 3),
            "--records must be 2 whole numbers of at least 1, one a party, not '5'.",
        ),
        (
            ("prepare", "--records", "5,5", "--held-out", "5,5"),
            "--records needs --columns.",
        ),
        (
            ("train", "--provider", "tfp", "--material", "here"),
            "--provider must be one of dealer, parties, not 'tfp'",
        ),
        (
            ("train", "--material", "nowhere"),
            "--material must be a file of `pea prepare`, not 'nowhere/party-0.material'",
        ),
    ],
)
def test_bad_arguments_are_named(tmp_path: Path, arguments, message: str):
    out = ("--out", tmp_path) if arguments[0] == "prepare" else ()
    done = pea(*arguments, *RUN, *out)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        (*RUN, "--model", "mlp:5"),
        ("--no-dp", *RUN[4:]),
        (*RUN[:4], "--steps", 1, *RUN[6:]),
        (*RUN, "--loss", "softmax"),
        (*RUN, "--dealer-noise"),
        (*RUN, "--loss", "least-squares", "--momentum", 0.5, "--average", 0.5),
    ],
    ids=[
        "hidden",
        "not private",
        "one step",
        "softmax",
        "noise of the dealer",
        "momentum and a mean",
    ],
)
def test_other_runs_can_be_prepared(tmp_path: Path, options):
    for command in (("prepare", "--out"), ("train", "--material")):
        done = pea(command[0], *options, command[1], tmp_path / "m")
        assert done.returncode == 0, done.stderr
