"""The launcher of a run does what is done once, and without the host that its parties import."""

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crypten_ext.processes.launch import Parties
from crypten_ext.run import backend
from extensions.data.datasets import Split, write_records
from extensions.privacy import composition
from extensions.privacy.accounting import Ledger
from extensions.protocols.settings import TRAINING, account
from extensions.runs.budget.planned_cost import accountant_answers
from extensions.runs.config import TrainConfig
from extensions.runs.local_training import account_for_local_training
from extensions.runs.options import RunOptions
from extensions.runs.report import epsilons_of, epsilons_without_noise

LAUNCHES = """
import sys
from types import SimpleNamespace
from extensions.runs import hosts
from extensions.runs.config import TrainConfig
from extensions.runs.options import RunOptions

class Parties:
    def __init__(self, *_, **__): pass
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def run(self, *_, **__): return [{}]

backend = hosts.find("crypten")
assert backend.Parties.__module__ == "crypten_ext.processes.launch"
backend.Parties = Parties
config = TrainConfig(noise_multiplier=1.0, delta=1e-5, steps=2).resolved()
backend.train(config, ["0.npz", "1.npz", "2.npz"], print, RunOptions())

class Files:
    def read(self): pass

sys.modules[backend.use.__module__].Parties = Parties
backend.use(None, [Files()] * 2, SimpleNamespace(timeout=60.0, provider="dealer"))
print(sorted({"torch", "crypten"} & {*sys.modules}), "dp_accounting" in sys.modules)
"""


def test_the_launcher_imports_no_host_and_asks_the_accountant() -> None:
    done = subprocess.run([sys.executable, "-c", LAUNCHES], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[] True\n", "")


@pytest.mark.parametrize("package", ["torch", "crypten"])
def test_a_launcher_without_its_host_says_what_to_install(package: str) -> None:
    """Before it starts anything."""
    code = (
        "import importlib.util as finding, subprocess\n"
        "from extensions.errors import MissingExtraError\n"
        "from extensions.runs import hosts\n"
        "from extensions.runs.config import TrainConfig\n"
        "from extensions.runs.options import RunOptions\n"
        "subprocess.Popen = None\n"
        "find = finding.find_spec\n"
        f"finding.find_spec = lambda name, *of: None if name == {package!r} else find(name, *of)\n"
        "config = TrainConfig(noise_multiplier=1.0, delta=1e-5)\n"
        "try:\n"
        "    with hosts.warm_up(hosts.find('crypten'), config, RunOptions()): pass\n"
        "except MissingExtraError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"{package} is not installed" in done.stdout, done.stderr
    assert "pip install '.[crypten]'" in done.stdout


@pytest.mark.parametrize(
    ("options", "evaluate", "needed"),
    [
        (RunOptions(), "mpc", False),
        (RunOptions(ledgers=[None, None, None]), "mpc", False),
        (RunOptions(ledgers=[None, Path("ledger"), None]), "mpc", True),
        (RunOptions(), "noisy", True),
    ],
)
def test_parties_import_the_accountant_if_they_ask_more_than_is_foreseen(
    options: RunOptions, evaluate: Any, needed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def template(parties: int, modules: tuple[str, ...]) -> Any:
        asked.append(modules)
        return nullcontext()

    monkeypatch.setattr(backend, "template_of", template)
    config = TrainConfig(noise_multiplier=1.0, delta=1e-5, evaluate=evaluate)
    with backend.warm_up(config, options):
        assert ("dp_accounting" in asked[0]) is needed


def config_of(seed: int, **changes: Any) -> TrainConfig:
    """A run whose epsilons nobody has found yet, since its noise is another in each test.

    The sum of ten tenths of a probability is not that probability, by rounding.
    """
    return TrainConfig(
        steps=10,
        noise_multiplier=2.0 + seed / 1e4,
        delta=1e-5,
        classes=2,
        init="local-average",
        noise_multiplier_init=4.0,
        init_steps=2,
        **changes,
    ).resolved()


@pytest.mark.parametrize("dealer_noise", [False, True])
def test_parties_are_told_what_the_launcher_found(
    dealer_pool: Parties, tmp_path: Path, dealer_noise: bool
) -> None:
    config = config_of(seed=1 + 2 * dealer_noise, dealer_noise=dealer_noise)
    draw = np.random.default_rng(0)
    part = Split(
        train_x=draw.uniform(-0.1, 0.1, (20, 3)),
        train_y=np.arange(20) % 2,
        test_x=draw.uniform(-0.1, 0.1, (5, 3)),
        test_y=np.arange(5) % 2,
        classes=2,
    )
    reports = dealer_pool.run(
        "tests.helpers.party_tasks.backend:train_without_accountant",
        per_party=[{"records": write_records(part, tmp_path / f"{rank}.npz")} for rank in range(3)],
        config=config.to_dict(),
        answers=accountant_answers(config),
        material=None,
        save=None,
        checkpoints=None,
        ledgers=[],
    )
    ledger = Ledger()
    account_for_local_training(ledger, config)
    account(ledger, TRAINING, config, config.steps)
    for report in reports:
        assert report["epsilon_by_neighbours"] == pytest.approx(epsilons_of(config, ledger))
        without = epsilons_without_noise(config, ledger)
        assert report["epsilon_without_noise_of"] == pytest.approx(without)
        assert ("1 and the dealer" in report["epsilon_without_noise_of"]) is dealer_noise
        assert report["dealer_noise"] is dealer_noise
        assert report["epsilon"] > 0
        assert report["checked"].count(config.parties) == 1, "as they came"


def test_an_epsilon_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    find = composition._find_epsilon

    def counted(*question: Any) -> float:
        asked.append(question)
        return find(*question)

    monkeypatch.setattr(composition, "_find_epsilon", counted)
    config = config_of(seed=2)
    assert len(asked) == 1
    answers = accountant_answers(config)
    assert len(asked) == 4  # of all steps, of replaced records, without the noise of two parties
    assert accountant_answers(config) == answers
    assert len(asked) == 4
