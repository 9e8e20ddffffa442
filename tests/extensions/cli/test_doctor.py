"""`pea doctor`: what works, what is insecure, and whether hosts reach each other."""

import json
import os
import re
import socket
from pathlib import Path

import pytest

from extensions.cli.doctor import frameworks, machine, others
from extensions.cli.doctor.frameworks import trial
from extensions.transport import Federation, Local, Member, make
from tests.extensions.cli.test_cli_parties import free_address
from tests.helpers.commands import Command, pea

FIELDS = {"area", "state", "text", "advice"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(path: str = "d.json") -> list[dict[str, str]]:
    report = json.loads(Path(path).read_text())
    assert report["failed"] == sum(one["state"] == "fails" for one in report["findings"])
    assert all({*one} == FIELDS for one in report["findings"])
    for one in report["findings"]:
        assert one["advice"] or one["state"] == "ok", one
    return report["findings"]


def test_a_look_fits_in_80_columns(folder):
    done = pea("doctor", "--quick", "--json", "d.json")
    assert done.returncode == 0, done.stdout
    assert all(len(line) <= 80 or os.sep in line for line in done.stdout.splitlines())
    areas = {one["area"] for one in found()}
    assert {"pea", "clock", "cores", "memory", "disk", "GPU", "ports", "extras", "files"} <= areas
    assert "nothing failed" in done.stdout


def test_what_is_insecure_is_told_with_what_to_type(folder):
    for name in ("north", "south"):
        make(name, folder / f"{name}.pem")
    (folder / "north.pem").chmod(0o640)
    (folder / "p.csv.budget.json").write_text("{}")
    (folder / "p.csv.budget.json").chmod(0o602)
    (folder / "run.toml").write_text(
        'transport = "gloo"\n[party]\nrendezvous = "tcp://h:1"\nprovider = "dealer"\n'
    )
    (folder / "broken.toml").write_text("not toml")
    told = [*machine.files_in(Path(""))]
    assert [one.advice for one in told if one.area == "files" and one.state == "insecure"] == [
        "Type: chmod 600 north.pem",
        "Type: chmod 600 p.csv.budget.json",
    ]
    assert "3 keys" in next(one.text for one in told if one.state == "ok")
    settings = [one.text for one in told if one.area == "settings"]
    assert settings == [
        'run.toml: transport = "gloo"',
        'run.toml: rendezvous = "tcp://h:1"',
    ]


def test_a_framework_that_works_does_a_step(folder):
    done = pea("doctor", "--try", "clear", "--json", "d.json")
    assert done.returncode == 0, done.stdout
    (one,) = [each for each in found() if each["area"] == "clear"]
    assert one["state"] == "ok"
    assert re.search(r"a step of 3 parties in [\d.]+ s; numpy \d", one["text"])


@pytest.mark.long
@pytest.mark.parametrize("name", ["crypten", "tfe", "fl"])
def test_each_framework_is_tried(name):
    first, *rest = trial(name, 600.0, asked=False)
    assert first.state == "ok", first
    assert all(one.state in ("ok", "note") for one in rest)
    assert any("ChaCha20" in one.text for one in rest) == (name == "tfe")


def test_a_framework_that_hangs_is_ended():
    (one,) = trial("clear", 0.05, asked=False)
    assert one.state == "fails"
    assert "not done after 0.05 s" in one.text
    assert "pea train" in one.advice


def test_a_framework_that_fails_is_told_with_its_reason(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(frameworks, "_TRAIN", ("train", "--no-dp", "--parties", "0", "--backend"))
    (one,) = trial("clear", 60.0, asked=False)
    assert one.state == "fails"
    assert "parties" in one.text


def test_a_framework_that_is_asked_for_and_missing_fails(monkeypatch):
    monkeypatch.setattr(frameworks, "_missing", lambda name: ["crypten"])
    assert [*trial("crypten", 1.0, asked=False)] == []
    (one,) = trial("crypten", 1.0, asked=True)
    assert one.state == "fails"
    assert one.advice.endswith(": pip install '.[crypten]'")


NAMES = ("north", "south", "lab")


@pytest.fixture
def hosts(folder: Path) -> dict[str, str]:
    """Three hosts' addresses; their keys and their federation are in the folder."""
    members = []
    for name in NAMES:
        own, address = make(name, folder / f"{name}.pem"), free_address()
        role = "dealer" if name == "lab" else "party"
        members.append(Member(name=name, role=role, address=address, fingerprint=own.fingerprint))
    Federation(members).write(folder / "federation.toml")
    return {one.name: one.address for one in members}


def doctor(name: str, seconds: int) -> Command:
    meeting = ("--federation", "federation.toml", "--key", f"{name}.pem", "--wait", seconds)
    return Command("doctor", "--quick", *meeting, "--json", f"{name}.json")


def told(name: str, area: str) -> list[dict[str, str]]:
    return [one for one in found(f"{name}.json") if one["area"] == area]


def test_hosts_reach_each_other_as_in_a_run(hosts):
    for command in [doctor(name, 60) for name in NAMES]:
        done = command.finish()
        assert done.returncode == 0, done.stdout
    reached = {name: [one["text"] for one in told(name, "hosts")] for name in NAMES}
    assert reached["lab"] == ["reached by north, south"]
    *_, north = reached["north"]
    assert north == "reached by south"
    assert len(reached["south"]) == 2  # it calls both, and nobody calls it
    assert all(re.search(r"its clock is [+-]\d+\.\d s from ours", one) for one in reached["south"])


def test_a_host_that_is_away_fails(hosts):
    done = doctor("south", 1).finish()
    assert done.returncode == 1
    away = told("south", "hosts")
    assert [one["state"] for one in away] == ["fails", "fails"]
    assert hosts["north"] in away[0]["text"]
    assert "pea doctor --federation federation.toml --key north.pem" in away[0]["advice"]


def test_a_host_that_does_not_come_fails(hosts):
    assert doctor("lab", 1).finish().returncode == 1
    (one, _) = told("lab", "hosts")
    assert f"did not reach {hosts['lab']} within 1 s" in one["text"]


def test_a_port_that_is_taken_fails(hosts):
    host, port = hosts["north"].split(":")
    file = Path("federation.toml")
    here = Local.read(file, Path("north.pem"))
    with socket.create_server((host, int(port))):
        key, said = others.meetings(here, file, 1.0)
    assert (key.state, said.area, said.state) == ("ok", "ports", "fails")
