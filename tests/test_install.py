"""The project installs as promised: our names win, the commands exist; tests/doors installs it."""

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.helpers.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))
SHIPPED = {"extensions", "crypten_ext", "tfe_ext", "fl"}
TARGETS = ("demo", "test", "test-all", "check", "clean")


def make(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs make as a user would, even where make itself started the tests."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with nothing but what set-up reads."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_checkout_only_packages_are_not_shipped():
    assert {"benchmarks", "tests"} <= set(PACKAGES) - SHIPPED


@pytest.mark.parametrize("arguments", [(), ("list",), ("network", "--profile", "wan")])
def test_benchmarks_that_are_installed_say_that_they_need_a_clone(tmp_path, arguments):
    """CrypTen installs a package of that name, which then has our module in it."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    ((source, target),) = wheel["targets"]["wheel"]["force-include"].items()
    installed = tmp_path / target
    installed.parent.mkdir()
    shutil.copy(ROOT / source, installed)
    (installed.parent / "__init__.py").touch()
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout) == (1, "")
    (line,) = run.stderr.splitlines()
    assert "Clone it" in line


@pytest.mark.parametrize("package", PACKAGES)
def test_our_package_wins_over_the_hosts_in_the_tests(package):
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert Path(str(spec.origin)) == ROOT / package / "__init__.py"


@pytest.mark.parametrize("package", PACKAGES)
def test_our_package_wins_over_the_hosts_from_the_checkout(package):
    code = f"import importlib.util as u; print(u.find_spec({package!r}).origin)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert Path(run.stdout.strip()) == ROOT / package / "__init__.py"


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_extra_resolves_by_name(extra):
    for line in EXTRAS[extra]:
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate():
            continue
        if requirement.name == PROJECT["name"]:
            assert requirement.extras <= set(EXTRAS)
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"{requirement.name} is not installed: type pip install -e '.[{extra}]'")
        assert requirement.specifier.contains(version, prereleases=True), (line, version)


def test_metadata_names_nobody_and_no_place_that_there_is_not():
    assert PROJECT["authors"] == [{"name": "PEA contributors"}]
    assert "maintainers" not in PROJECT
    assert "urls" not in PROJECT


@pytest.mark.parametrize("package", sorted(SHIPPED))
def test_our_types_are_told(package):
    assert (ROOT / package / "py.typed").read_bytes() == b""


def imported(folder: Path, package: str) -> subprocess.CompletedProcess[str]:
    """Returns what a script says that imports a package, beside what else is in its folder."""
    script = folder / "script.py"
    script.write_text(f"import {package}\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("package", sorted(SHIPPED - {"extensions"}))
@pytest.mark.parametrize(
    "name", ["extensions/__init__.py", "extensions/errors.py", "extensions.py"]
)
def test_what_hides_our_package_is_named(tmp_path, package, name):
    """And none of it runs."""
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    for path in {file, file.parent / "__init__.py"} - {tmp_path / "__init__.py"}:
        path.write_text("print('theirs')\n__version__ = '0'\n")
    run = imported(tmp_path, package)
    assert run.returncode == 1
    assert not run.stdout
    place = file if file.parent == tmp_path else file.parent
    assert re.match(rf"ImportError: {re.escape(str(place))} ", run.stderr.splitlines()[-1])


def test_a_folder_of_scripts_hides_nothing(tmp_path):
    """Without an __init__.py it is no package as ours is."""
    (tmp_path / "extensions").mkdir()
    run = imported(tmp_path, "fl")
    assert run.returncode == 0, run.stderr


def test_entry_points_lead_to_modules():
    groups = PROJECT["entry-points"]
    targets = [*PROJECT["scripts"].values(), *groups["pea.backends"].values()]
    targets += groups["pea.commands"].values()
    for target in targets:
        module = target.partition(":")[0]
        assert importlib.util.find_spec(module) is not None, module


def test_pythons_are_the_same_in_metadata_and_makefile():
    claimed = SpecifierSet(PROJECT["requires-python"])
    pythons = [f"3.{minor}" for minor in range(8, 20) if f"3.{minor}.1" in claimed]
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert named == pythons
    assert f"VERSIONS := {' '.join(pythons)}\n" in (ROOT / "Makefile").read_text()
    assert platform.python_version() in claimed


@pytest.mark.parametrize("target", TARGETS)
def test_make_target_exists(checkout, target):
    run = make("--dry-run", target, cwd=checkout)
    assert run.returncode == 0, run.stderr
    assert run.stdout


def test_make_sets_up_again_when_the_requirements_change(checkout):
    python, stamp = checkout / ".venv/bin/python", checkout / ".venv/dev.stamp"
    python.parent.mkdir(parents=True)
    python.touch()
    stamp.touch()
    pyproject = checkout / "pyproject.toml"
    later = pyproject.stat().st_mtime + 10
    os.utime(stamp, (later, later))
    assert "pip" not in make("--dry-run", "test", cwd=checkout).stdout
    os.utime(pyproject, (later + 10, later + 10))
    assert re.search(r"pip .*install .*\.\[all,dev\]", make("-n", "test", cwd=checkout).stdout)


@pytest.mark.parametrize("name", ["python3", "python3.12", "python3.13"])
def test_make_finds_a_python_that_fits(checkout, monkeypatch, name):
    """An interpreter that does not fit, or fails, is passed over."""
    folder = checkout / "bin"
    folder.mkdir()
    for each in ("python3", "python3.11", "python3.12", "python3.13"):
        python = folder / each
        python.write_text(f"#!/bin/sh\nexit {int(each != name)}\n")
        python.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    run = make("--dry-run", "test", cwd=checkout)
    assert f"\n{name} -m venv .venv" in run.stdout, run


def test_make_refuses_another_python(checkout):
    other = checkout / "python3.9"
    other.write_text("#!/bin/sh\necho 'Python 3.9.1'\nexit 1\n")
    other.chmod(0o755)
    run = make("test", f"PYTHON={other}", cwd=checkout)
    assert run.returncode != 0
    assert "must be one of Python 3.11 3.12 3.13, but is Python 3.9.1" in run.stderr
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize(
    ("recipe", "passes"),
    [
        ("echo '===== 2 failed, 3 passed in 1.00s ====='; exit 1", False),
        ("echo '===== no tests ran in 0.01s ====='; exit 5", False),
        ("echo '===== 7 deselected in 0.01s ====='", False),
        ("echo '===== 9 skipped in 0.01s ====='", False),
        ("true", False),
        ("echo '===== 31 passed, 2 skipped in 61.20s (0:01:01) ====='", True),
    ],
)
def test_ci_passes_only_if_a_test_passed(tmp_path, recipe, passes):
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "Makefile").write_text(f"check:\n\t@echo checked\ntest:\n\t@{recipe}\n")
    outside_make = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    run = subprocess.run(
        [tmp_path / ".ci/run"],
        cwd="/",
        env=outside_make,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode == 0) == passes, run
    assert run.stdout.startswith("checked\n")
    if passes:
        assert run.stdout.splitlines()[-1].startswith("===== 31 passed")
