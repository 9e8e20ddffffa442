"""The wheel and the sources install into empty environments, and do there what is promised."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doors.environments import EXTRAS, Environment, build, installed
from tests.test_install import PROJECT, SHIPPED
from tests.test_readme import README, blocks, free_ports

PROJECTS = Path(__file__).parent / "projects"
OPERATOR = next(block for block in blocks(README, "sh") if "pea dealer" in block)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module", params=EXTRAS)
def environment(built, request) -> Iterator[tuple[str, Environment]]:
    with installed(built, EXTRAS[request.param], f"[{request.param}]") as one:
        yield request.param, one


def test_the_wheel_holds_our_packages_only(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0] for name in names}
    metadata = {top for top in tops if top.endswith(".dist-info")}
    assert len(metadata) == 1
    assert tops - metadata == SHIPPED | {"benchmarks"}
    assert [n for n in names if n.startswith("benchmarks/")] == ["benchmarks/__main__.py"]
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {f"{package}/py.typed" for package in SHIPPED} <= {*names}
    assert not [name for name in names if "__pycache__" in name]


def test_the_sources_hold_what_a_clone_has(built):
    """Tests and documents too, but nothing that was made in the tree."""
    (sources,) = built.glob("*.tar.gz")
    with tarfile.open(sources) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert {"CITATION.cff", "Makefile", "docs/index.md", "tests/parts.py"} <= {*names}
    assert not [n for n in names if re.search(r"\.venv|__pycache__|_cache/|^(build|dist)/", n)]


def test_what_is_installed_fits_together_and_comes_from_there(environment):
    extra, env = environment
    env.type("pip check")
    for package in SHIPPED:
        told = env.type(f"python -c 'import {package}; print({package}.__file__)'")
        assert Path(told.strip()).is_relative_to(env.folder)
    command = "pea train" if extra == "crypten" else "pea fl"
    assert "Train one model" in env.type(f"{command} --help")


def test_blocks_of_the_readme_run_in_an_empty_folder(environment):
    extra, env = environment
    needs = [
        ("tfe" if "tfe_ext" in code else "fl" if "import fl" in code else "crypten", code)
        for code in blocks(README, "python")
    ]
    codes = [code for need, code in needs if need == extra]
    assert codes
    for code in codes:
        (env.folder / "empty" / "block.py").write_text(code)
        assert env.type("python block.py").strip()


def test_the_operators_commands_run_in_an_empty_folder(environment):
    extra, env = environment
    if extra != "crypten":
        pytest.skip("CrypTen's parties need its extra")
    script = OPERATOR.replace("2950$i", "${ports[i]}")
    printed = env.type(f"ports=({' '.join(free_ports(4))})\n{script}")
    assert "accuracy" in printed
    assert "all runs together" in printed


def test_what_another_extra_has_is_named_with_what_to_type(environment):
    extra, env = environment
    command = "pea fl" if extra == "crypten" else "pea train --epsilon 2 --delta 1e-5"
    told = env.type(f"{command} 2>&1 || true")
    assert f"[{'fl' if extra == 'crypten' else 'crypten'}]" in told


def test_federated_learning_needs_its_extra_only(environment):
    extra, env = environment
    if extra != "fl":
        pytest.skip("it is about what [fl] leaves out")
    env.type("pea fl --aggregator masked --clients 4 --model logistic --rounds 1 --json run.json")
    laplace = "import fl; fl.LocalDP(epsilon=1.0, noise='laplace')"
    assert "[laplace]" in env.type(f'python -c "{laplace}" 2>&1 || true')


def checked(env: Environment, project: str) -> str:
    """Returns what mypy says of a user's project, which has PEA installed and no clone."""
    folder = env.folder / "empty" / project
    shutil.copytree(PROJECTS / project, folder)
    options = ["--strict", "--config-file=", "--python-executable", str(env.python)]
    return subprocess.run(
        [sys.executable, "-m", "mypy", *options, "."],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def test_types_are_seen_in_a_users_project(environment):
    """Every line that expects an error of mypy has it, and no other line has one."""
    extra, env = environment
    if extra != "crypten":
        pytest.skip("both have the same types")
    said = checked(env, "typed")
    found = re.findall(r"^(\S+):(\d+): error: .*\[([a-z-]+)\]$", said, flags=re.MULTILINE)
    expected = [
        (path.name, str(number), error[1])
        for path in sorted((PROJECTS / "typed").glob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (error := re.search(r"# error: ([a-z-]+)$", line))
    ]
    assert len(expected) > 10
    assert sorted(set(found)) == sorted(expected), said


def interpreter(version: str) -> str:
    """Returns a Python of a version, from the path or from pyenv; skips if there is none."""
    managed = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for python in [*map(str, managed), shutil.which(f"python{version}")]:
        if python:
            return python
    pytest.skip(f"Python {version} is not on this machine")


SUPPORTED = re.findall(r"Python :: (3\.\d+)", str(PROJECT["classifiers"]))
OTHERS = [one for one in SUPPORTED if one != "{}.{}".format(*sys.version_info)]


@pytest.mark.parametrize("version", OTHERS)
def test_another_python_trains(built, version):
    with installed(built, "*.whl", python=interpreter(version)) as env:
        printed = env.type("pea train --backend clear --epsilon 2 --delta 1e-5 2>&1")
        assert re.search(r"accuracy +0\.[89]", printed)
        assert "Traceback" not in printed
