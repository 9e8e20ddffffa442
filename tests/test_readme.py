"""What the README and the guide show runs as it stands; tables, links and names are right."""

import json
import math
import os
import re
import shlex
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from benchmarks import page
from benchmarks.__main__ import Benchmarks
from tests.helpers.commands import pea
from tests.helpers.paths import ROOT
from tests.helpers.patience import PATIENCE
from tests.mutants.__main__ import copy_tree
from tests.tfe_ext.test_compat import needs_tensorflow

README = (ROOT / "README.md").read_text()
PAGES = sorted((ROOT / "docs").rglob("*.md"))
GUIDE = "\n".join(path.read_text() for path in PAGES if "tutorials" not in path.parts)
LINKED = sorted([*ROOT.glob("*.md"), *PAGES])
BIN = Path(sys.executable).parent


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def block(words: str, language: str = "python") -> str:
    """Returns the documents' one block that has these words."""
    (found,) = [code for code in blocks(GUIDE, language) if words in code]
    return found


def run(command: list[str], folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, **env},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def typed(line: str) -> None:
    """Runs a line with a command of ours in this process, where all is imported."""
    name, *arguments = shlex.split(line, comments=True)
    if name == "pea":
        passed(pea(*arguments))
    else:
        assert [name, *arguments[:2]] == ["python", "-m", "benchmarks"]
        Benchmarks.call("benchmarks", *arguments[2:])


def passed(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


def test_tables_are_the_recorded_results():
    assert README.count("<!-- table:") == len(page.SLOT.findall(README)) > 0
    assert page.with_tables(README) == README
    assert page.RESULTS.read_text() == page.text()


def anchors(text: str) -> set[str]:
    """Returns the fragments by which links reach the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    found = {re.sub(r"[^\w\s-]", "", heading).lower().replace(" ", "-") for heading in headings}
    found |= set(re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE))
    return found | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("document", LINKED, ids=lambda path: path.name)
def test_what_a_document_links_to_exists(document):
    for link in re.findall(r"\]\(([^)]+)\)", document.read_text()):
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text()), link


def test_the_readme_is_short_and_leads_to_all_documents():
    assert len(README.splitlines()) <= 120
    found, left = set(), [ROOT / "README.md"]
    while left:
        found.add(one := left.pop())
        linked = re.findall(r"\]\(([^)#\s]+\.md)", one.read_text())
        near = {(one.parent / name).resolve() for name in linked if "://" not in name}
        left += near - found
    assert set(LINKED) <= found


def test_every_benchmark_is_named_in_the_guide():
    for name in Benchmarks.own:
        assert f"`{name}" in GUIDE or f"benchmarks {name}" in GUIDE


def test_crypten_block_runs(tmp_path):
    code = blocks(README, "python")[1]
    printed = passed(run([sys.executable, "-c", code], tmp_path))
    assert printed.count("tensor(") == code.count("print")
    assert_roots(code, printed)


def assert_roots(code: str, printed: str) -> None:
    """The first numbers printed are of inputs that the ring has exactly, and keep what is said."""
    shown, roots = (
        [float(one) for one in re.split("[, ]+", re.search(r"\[([\d., ]+)\]", text)[1].strip())]
        for text in (code, printed)
    )
    assert all((value * 2**16).is_integer() for value in shown)
    for value, root in zip(shown, roots, strict=True):
        assert 0.99 < root * math.sqrt(value) < 1 + 1e-3 * value, printed  # of four digits


@needs_tensorflow
def test_aby3_blocks_run(tfe_process):
    code = blocks(README, "python")[2] + block("def next_roots")
    printed = tfe_process.run("tests.helpers.tfe_tasks.command:executed", code=code)
    assert printed.count("[") >= code.count("print")
    assert_roots(blocks(README, "python")[2], printed)


@pytest.mark.parametrize(
    "code",
    [
        blocks(README, "python")[0],
        blocks(README, "python")[3],
        *[block for block in blocks(GUIDE, "python") if "PrivateClassifier" in block],
        *[block for block in blocks(GUIDE, "python") if "calibrate_noise" in block],
        *[block for block in blocks(GUIDE, "python") if "crypten_ext.defaults" in block],
        *[block for block in blocks(GUIDE, "python") if "ClearRing" in block],
        *[block for block in blocks(GUIDE, "python") if "fl.datasets" in block],
    ],
    ids=lambda code: " ".join(code.split()[:4]),
)
def test_python_block_runs(tmp_path, monkeypatch, code):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "<block>", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize(
    "script",
    [
        "crypten_primitives.py",
        "plaintext_protocol.py",
        pytest.param("aby3_session.py", marks=[needs_tensorflow, pytest.mark.long]),
    ],
)
def test_example_runs_in_one_process(tmp_path, script):
    assert passed(run([sys.executable, str(ROOT / "examples" / script)], tmp_path))


def test_training_loop_of_the_guide_is_that_of_the_example():
    def squeezed(code: str) -> str:
        return re.sub(r"\s|#.*", "", code).replace(",)", ")")

    shown = squeezed(block("crypten_ext.nn.Linear(64, 10).encrypt()"))
    example = squeezed((ROOT / "examples" / "crypten_script.py").read_text())
    assert shown.partition("forxb")[0] in example
    assert "optimizer.zero_grad()loss(model(xb),yb).backward()optimizer.step()" in shown
    assert "optimizer.zero_grad()loss(model(xb),yb).backward()optimizer.step()" in example


@pytest.mark.long
def test_a_cnn_of_the_guide_is_trained_as_shown(pools):
    """With two steps of its sixty."""
    (block,) = [block for block in blocks(GUIDE, "python") if "torch.nn.Conv2d" in block]
    task = "tests.helpers.party_tasks.defaults:trained"
    code = block.replace('"steps": 60', '"steps": 2')
    for shapes, spent in pools.run(3, task, code=code, records=60):
        assert sorted(shapes) == [[8], [8, 1, 3, 3], [10], [10, 128]]
        assert 1.999 < spent <= 2.0


def test_training_on_aby3_of_the_guide_is_that_of_the_example():
    assert block("ExponentialDecay(10.0") in (ROOT / "examples" / "aby3_session.py").read_text()


def test_federated_training_of_the_guide_runs_as_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = [block for block in blocks(GUIDE, "python") if "FederatedAveraging" in block]
    shown: dict[str, Any] = {}
    exec(block, shown)
    assert shown["run"].history.accuracy == 1.0
    assert len((tmp_path / "rounds.csv").read_text().splitlines()) == 6


@pytest.mark.long
def test_script_runs_under_a_standard_launcher(tmp_path):
    (block,) = [block for block in blocks(GUIDE, "sh") if "torchrun" in block]
    (port,) = free_ports(1)
    command = block.replace("29400", port).replace("examples/", f"{ROOT}/examples/")
    result = run(["bash", "-c", f"{command} wait"], tmp_path)
    assert "epsilon = " in passed(result)
    assert "InsecureWarning" not in result.stderr


def free_ports(count):
    with ExitStack() as stack:
        every = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [str(one.getsockname()[1]) for one in every]


def test_operator_commands_run(tmp_path):
    """By TLS alone: each host has a key of its own, and the parties' report is one."""
    (block,) = [block for block in blocks(README, "sh") if "pea dealer" in block]
    assert "pea keys" in block
    assert "tcp://" not in block
    port, ports = "2950$i", " ".join(free_ports(4))
    assert port in block
    script = f"ports=({ports})\n" + block.replace(port, "${ports[i]}")
    output = passed(run(["bash", "-c", script], tmp_path))
    assert output.count(" bytes of corrections") == 1
    first, *others = [(tmp_path / f"out-{rank}").read_text() for rank in range(3)]
    assert first in output
    accuracy, epsilon = (
        [re.search(rf"{name}\D+([0-9.]+)", text)[1] for text in (first, *others)]
        for name in ("accuracy", "epsilon")
    )
    assert len({*accuracy}) == len({*epsilon}) == 1
    assert float(accuracy[0]) > 0.3
    assert f"epsilon {epsilon[0]} at delta = 1e-05, all runs together" in output


@pytest.mark.long
def test_three_terminals(tmp_path):
    (block,) = [block for block in blocks(GUIDE, "sh") if "pea party" in block]
    split, *commands = [line for line in block.splitlines() if line.startswith("pea ")]
    passed(run(["bash", "-c", split], tmp_path))
    short = [f"{line} --steps 2" if line.startswith("pea party") else line for line in commands]
    script = "".join(f"{command} & pids+=($!); " for command in short)
    script += 'for pid in "${pids[@]}"; do wait $pid || exit 1; done'
    for port, free in zip(("29500", "29400"), free_ports(2), strict=True):
        script = script.replace(port, free)
    output = passed(run(["bash", "-c", script], tmp_path, GLOO_SOCKET_IFNAME="lo"))
    assert output.count("accuracy") == 2
    assert output.count(" bytes of corrections") == 1


@pytest.mark.long
def test_a_dealer_beforehand(tmp_path):
    (block,) = [block for block in blocks(GUIDE, "sh") if "pea prepare" in block]
    script = "".join(f"{line} --steps 2 && " for line in block.strip().splitlines()) + "true"
    output = passed(run(["bash", "-c", script], tmp_path, XDG_STATE_HOME=str(tmp_path)))
    assert output.count("accuracy") == 1


def test_a_model_is_used(tmp_path, monkeypatch):
    pytest.importorskip("onnx")
    (block,) = [block for block in blocks(GUIDE, "sh") if "pea export" in block]
    monkeypatch.chdir(tmp_path)
    for command in block.strip().splitlines():
        typed(command.replace("pea train", "pea train --backend clear --steps 5"))
    assert (tmp_path / "predictions.csv").read_text().startswith("record,prediction,")
    assert (tmp_path / "model.onnx").exists()


@pytest.mark.long
def test_shares_are_used(tmp_path, monkeypatch):
    (block,) = [block for block in blocks(GUIDE, "sh") if "pea open" in block]
    monkeypatch.chdir(tmp_path)
    typed("pea split --data digits --parties 2 --features none --out images")
    for command in block.strip().splitlines():
        typed(command.replace("pea train", "pea train --steps 2"))
    assert (tmp_path / "model" / "model.npz").exists()


def test_federated_commands_run(tmp_path, monkeypatch):
    (block,) = [block for block in blocks(GUIDE, "sh") if "pea fl --aggregator masked" in block]
    commands = [line for line in block.splitlines() if "MNIST" not in line]
    assert len(commands) == 3
    monkeypatch.chdir(tmp_path)
    for command in commands:
        typed(f"{command.replace('--rounds 20', '')} --rounds 2")
    assert (tmp_path / "run.json").exists()


def test_researcher_commands_run(tmp_path, monkeypatch):
    (block,) = [block for block in blocks(GUIDE, "sh") if "benchmarks list" in block]
    wanted = ("--backend clear", "pea fl", "benchmarks list")
    commands = [line for line in block.splitlines() if any(word in line for word in wanted)]
    assert len(commands) == 3
    monkeypatch.chdir(tmp_path)
    for command in commands:
        short = command.replace("pea fl", "pea fl --rounds 2")
        short = short.replace("pea train", "pea train --steps 5")
        typed(short)


@pytest.mark.long
@needs_tensorflow
def test_researcher_commands_run_as_typed(tmp_path):
    """In a copy of the tree, where they write results and documents."""
    (block,) = [block for block in blocks(GUIDE, "sh") if "benchmarks list" in block]
    copy_tree(tmp_path)
    for line in block.splitlines():
        assert passed(run(["bash", "-c", line], tmp_path, PYTHONPATH=str(tmp_path))), line
    assert "accuracy" in json.loads((tmp_path / "run.json").read_text())
