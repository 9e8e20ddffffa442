"""Files for operators: containers and units that run what the page of three hospitals types."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.paths import ROOT

FOLDER = ROOT / "examples" / "deployment"
TUTORIAL = (ROOT / "docs" / "tutorials" / "three_hospitals.md").read_text()
ROLES = {"party": "party", "dealer": "dealer", "player": "players"}
"""By service, the command."""


def typed(role: str) -> str:
    """The tutorial's command of the role, without `pea`; its test types it."""
    (command,) = {
        line.partition(" ")[2]
        for line in TUTORIAL.splitlines()
        if line.startswith(f"pea {ROLES[role]} ") and not line.endswith(" --resume")
    }
    return re.sub(r"\$(\w+)", r"${\1}", command)


def unit(role: str) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str
    parser.read(FOLDER / f"pea-{role}.service")
    return parser["Service"]


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]


@pytest.mark.parametrize("role", ROLES)
def test_a_container_runs_what_the_page_types_and_may_do_nothing_else(services, role):
    service = services[role]
    assert service["command"] == typed(role)
    port = 7001 if role == "player" else 7000
    assert service["ports"] == [f"{port}:{port}"]
    assert service["tmpfs"] == ["/tmp"]
    assert service["volumes"] == ["${FOLDER:-.}:/data"]
    assert service["init"] is True
    assert {"mem_limit", "pids_limit"} <= set(service)
    assert service.get("restart") == (None if role == "party" else "unless-stopped")
    assert service["user"] == "10001:10001"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "network_mode", "cap_add", "devices", "pid"} & set(service)


def test_the_image_is_of_a_user_without_rights_and_has_no_files_of_an_operator():
    lines = [
        line.split(maxsplit=1)
        for line in (FOLDER / "Dockerfile").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    names = [name for name, _ in lines]
    assert names == ["FROM", "RUN", "COPY", "RUN", "USER", "WORKDIR", "ENTRYPOINT"]
    assert dict(lines)["USER"] == "10001"
    assert dict(lines)["ENTRYPOINT"] == '["pea"]'
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    patterns = [line for line in ignored if line and not line.startswith("#")]
    assert patterns[0] == "*"
    for pattern in patterns[1:]:
        kept = pattern.removeprefix("!")
        assert pattern.startswith("**/") or list(ROOT.glob(kept)) or kept == "LICENSE*", pattern


@pytest.mark.parametrize("role", ROLES)
def test_a_unit_runs_what_the_page_types_and_may_write_in_its_folder_alone(role):
    service = unit(role)
    assert service["ExecStart"] == f"/opt/pea/bin/pea {typed(role)}"
    assert service["User"] == "pea"
    assert service["ProtectSystem"] == "strict"
    assert service["ReadWritePaths"] == service["WorkingDirectory"] == "/srv/pea"
    assert service["CapabilityBoundingSet"] == ""
    assert service["NoNewPrivileges"] == "yes"
    assert service["Environment"] == "HOME=/srv/pea"
    restart = {"party": None, "dealer": "on-failure", "player": "always"}
    assert service.get("Restart") == restart[role]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("role", ROLES)
def test_systemd_takes_the_unit(tmp_path: Path, role):
    text = (FOLDER / f"pea-{role}.service").read_text()
    path = tmp_path / f"pea-{role}.service"
    path.write_text(text.replace("/opt/pea/bin/pea", str(Path(sys.executable).parent / "pea")))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert path.name not in done.stderr
