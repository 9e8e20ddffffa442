"""What any option of any command must not be is refused in one line, before anything happens."""

import json
import re
import socket
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from extensions.transport import Federation, Member, make
from tests.extensions.cli.refused import running
from tests.extensions.cli.refused.cases import (
    AFTER_TRAIN,
    GROUPS,
    TABLES,
    Case,
    cases_of,
    commands,
    params_of,
    repeated_of,
)
from tests.helpers.commands import pea
from tests.helpers.paths import ROOT

CASES = {name: cases_of(name) for name in TABLES}


def on_host(case: Case) -> bool:
    """Whether torch may say that the case is wrong: federated learning is made of it."""
    return case.arguments[0] == "fl"


def told(asked: list[list[Any]]) -> list[dict[str, Any]]:
    """Returns what came of arguments and the text of a file of options each, in one process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.extensions.cli.refused"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


@pytest.fixture(scope="module")
def results() -> dict[str, list[dict[str, Any]]]:
    """What came of all cases, in one process; those that import a framework are the last."""
    order = [(name, at) for name in TABLES for at in range(len(CASES[name]))]
    order.sort(key=lambda each: on_host(CASES[each[0]][each[1]]))
    asked = [[CASES[name][at].arguments, CASES[name][at].toml] for name, at in order]
    answers = dict(zip(order, told(asked), strict=True))
    return {name: [answers[name, at] for at in range(len(CASES[name]))] for name in TABLES}


def test_there_are_cases_for_every_option_of_every_command():
    assert TABLES.keys() | GROUPS == commands()
    for name, table in TABLES.items():
        flags = {parameter.opts[0] for parameter in params_of(name)}
        assert set(table.ranges) == flags, name
    assert sum(map(len, CASES.values())) >= 400


@pytest.mark.parametrize("name", TABLES)
def test_a_refusal_is_one_line_that_says_what_to_type(name, results):
    assert_refused(CASES[name], results[name])


@pytest.mark.parametrize("value", ["true", "True", "1", "yes", "false", "FALSE", "0", "no", "off"])
@pytest.mark.parametrize("typed", [["--whiten={}"], ["--whiten", "{}"]])
def test_a_flag_with_a_value_is_typed_alone_or_left_out(typed, value):
    done = pea("train", "--no-dp", *(word.format(value) for word in typed), "--steps", 1)
    assert done.returncode == 2
    meant = value.lower() in ("true", "1", "yes")
    assert done.stderr.endswith("Type: --whiten.\n" if meant else "Leave --whiten out.\n")


@pytest.mark.parametrize("name", ["", "pencil", *TABLES])
def test_help_shows_no_type_for_flags(name):
    done = pea(*name.split(), "--help")
    assert "--help" in done.stdout
    assert not re.search("bool", done.stdout, re.IGNORECASE)


@pytest.mark.long
def test_options_of_train_are_refused_likewise():
    cases = [case for name in AFTER_TRAIN for case in repeated_of(name)]
    assert len(cases) >= 1000
    assert_refused(cases, told([[case.arguments, case.toml] for case in cases]))


_OF_A_TABLE = "must be a .csv or .parquet file, as --schema is given."
_ADDED = ("federation", "new.toml", "--add", "b", "--fingerprint", "cd" * 32)
_RAGGED = (
    "records = 'ragged.csv, line 3, column 1': must be a row of 2 cells, as many as the header "
    "has, not 1."
)
_ADDRESS = (
    "must be HOST:PORT with a port in 1..65535, and an IPv6 address in brackets. "
    "Type: --address TEXT."
)
_TOGETHER = "must be given with --add and --fingerprint."


def party(**changes: str | None) -> tuple[str, ...]:
    """Returns the arguments of a party with some changed."""
    typed = {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    return ("party", *running.PARTY.typed(typed))


def by_schema(records: str) -> tuple[str, ...]:
    return party(records=records, schema="given/own.toml", classes=None)


SAID = {
    party(world_size="0"): "world_size = 0: must be in 2..64. Type: --world-size 2.",
    party(world_size="1"): "world_size = 1: must be in 2..64. Type: --world-size 2.",
    party(world_size="1000"): "world_size = 1000: must be in 2..64. Type: --world-size 2.",
    party(records="given/single.csv", classes=None, class_names="left,right", label="side"): (
        "records = 'single.csv, 1 records': must be at least 3, so that a fifth "
        "can be held out. Type: --records PATH."
    ),
    ("schema", "--from", "given/ragged.csv", "--target", "side"): _RAGGED,
    party(records="given/ragged.csv", classes=None, class_names="a,b", label="side"): _RAGGED,
    by_schema("."): f"records = '.': {_OF_A_TABLE}",
    by_schema("given/own.toml"): f"records = 'given/own.toml': {_OF_A_TABLE}",
    by_schema("given/own.txt"): f"records = 'given/own.txt': {_OF_A_TABLE}",
    by_schema("given/own.npz"): f"records = 'given/own.npz': {_OF_A_TABLE}",
    party(records="v/OWN.CSV", classes=None, class_names="a,b", label="side"): (
        "records = 'v/OWN.CSV': must be an existing file. Type: --records PATH."
    ),
    (*_ADDED,): f"address = '': {_ADDRESS}",
    (*_ADDED, "--address", "127.0.0.1"): f"address = '127.0.0.1': {_ADDRESS}",
    ("federation", "given/federation.toml", "--key", "given/open.pem"): (
        "key = 'given/open.pem': must be a file of mode 0600. Type: chmod 600 given/open.pem"
    ),
    ("federation", "given/federation.toml", "--role", "dealer"): f"role = 'dealer': {_TOGETHER}",
    ("federation", "given/federation.toml", "--role", "party"): f"role = 'party': {_TOGETHER}",
    ("federation", "given/federation.toml", "--address", "127.0.0.1:1"): (
        f"address = '127.0.0.1:1': {_TOGETHER}"
    ),
}


def test_what_is_said_to_be_typed_is_what_is_wrong():
    answers = told([[list(arguments), ""] for arguments in SAID])
    for (arguments, line), answer in zip(SAID.items(), answers, strict=True):
        assert answer["err"] == f"pea: {line}\n", arguments
        assert answer["status"] == 1


def test_a_port_in_use_is_told_as_one(tmp_path):
    made = {name: make(name, tmp_path / f"{name}.pem") for name in ("dealer", "a", "b")}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        places = {"dealer": address, "a": "127.0.0.1:8", "b": "127.0.0.1:9"}
        members = [
            Member(
                name=name,
                role="dealer" if name == "dealer" else "party",
                address=places[name],
                fingerprint=own.fingerprint,
            )
            for name, own in made.items()
        ]
        Federation(members).write(tmp_path / "f.toml")
        done = pea("dealer", "--federation", tmp_path / "f.toml", "--key", tmp_path / "dealer.pem")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"pea: address = '{address}': must be a free port. ")
    told = "End what listens there, or give this member another port in every host's file: "
    assert f"{told}`pea federation`. [Errno " in last


def assert_refused(cases: list[Case], results: list[dict[str, Any]]) -> None:
    wrong = []
    for case, result in zip(cases, results, strict=True):
        if said := complaint(case, result):
            wrong.append((said, " ".join(case.arguments), case.toml, result["err"][-1500:]))
    assert not wrong, "\n".join(f"{said}: {rest}" for said, *rest in wrong)


def complaint(case: Case, result: dict[str, Any]) -> str:
    """Returns what is wrong with a refusal; nothing if it is as it should be."""
    line, *more = result["err"].splitlines() or [""]
    head, _, rest = line.removeprefix("pea: ").partition(": must be ")
    told = [part.strip() for part in head.partition(" = ")[0].split(", ")]
    if result["status"] not in (1, 2):
        return f"status {result['status']}"
    if more or result["out"]:
        return "more than a line"
    if not line.startswith("pea: ") or not rest:
        return "another form"
    named = {*told, head.partition(" = ")[0]}
    if not named & {*case.names} and not any(head.startswith(name) for name in case.names):
        return f"does not name {case.names}"
    if not repeats(head, case.value):
        return f"does not repeat {case.value}"
    marks = ("--", "`pea", "Type: ", "Look at ", "pip install")
    placed = re.search(r", (line|record|row|column) ", head)
    if not placed and not any(mark in rest for mark in marks):
        return "does not say what to type"
    if result["written"] or result["reached"]:
        return f"wrote {result['written']}, reached {result['reached']}"
    return ""


def repeats(head: str, value: str) -> bool:
    """Whether a line has the value that was typed, or what was read of it."""
    words = re.findall(r"[^\s',()=:]+", head)
    with suppress(ValueError):
        return str(float(value)) in {str(float(word)) for word in words if is_number(word)}
    return value in head or {*re.split("[,:]", value)[-2:]} - {"csv", "npz"} <= {*words}


def is_number(word: str) -> bool:
    with suppress(ValueError):
        return str(float(word)) != ""
    return False


@pytest.mark.parametrize("name", sorted({*TABLES} - {"fl"}))
def test_a_refusal_needs_no_framework(name, results):
    pairs = zip(CASES[name], results[name], strict=True)
    assert not [result["frameworks"] for case, result in pairs if not on_host(case)][-1]


def test_help_needs_no_framework():
    names = sorted({*TABLES} - {"fl"})
    answers = told([[["--help"], ""], *([[name, "--help"], ""] for name in names)])
    assert [answer["status"] for answer in answers] == [0] * len(answers)
    assert all("--config" in answer["out"] for answer in answers[1:])
    assert answers[-1]["frameworks"] == []


def test_seconds_are_recorded(results, record_testsuite_property):
    spent = Counter({name: sum(each["seconds"] for each in all_) for name, all_ in results.items()})
    record_testsuite_property("processor seconds of refusals", dict(spent))
    assert spent.total() > 0
