"""`pea party`: no option may differ between parties unnoticed; in processes, all are told which."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from extensions.cli import training
from extensions.data.datasets import read_party_file
from extensions.protocols.agreement import Statement
from extensions.runs.config import TrainConfig
from extensions.runs.manifest import PARTY_SPECIFIC, manifest_of
from extensions.runs.processes import Template
from tests.extensions.cli.test_cli_parties import free_address
from tests.helpers.commands import PLAIN, call, command_of, pea
from tests.helpers.patience import PATIENCE

TABLE = "label,other,age,weight\n" + "".join(f"{n % 2},1,0.{n},0.{9 - n}\n" for n in range(9))
FUNCTION = "def rows(records):\n    return [[float(len(str(record)))] for record in records]\n"
MINE = {
    "--rank": "RANK",
    **{"--records": "own.csv", "--world-size": "3", "--rendezvous": "tcp://127.0.0.1:9"},
    **{"--label": "label", "--class-names": "0,1", "--dealer": "here:9"},
}
OPEN = {**MINE, "--no-dp": ""}
PRIVATE = {**MINE, "--epsilon": "4", "--delta": "1e-5", "--steps": "5"}
LINEAR = {**MINE, "--epsilon": "4", "--delta": "1e-5", "--loss": "least-squares"}
SIGMA = {**MINE, "--noise-multiplier": "1", "--delta": "1e-5"}
NAMELESS = {name: value for name, value in OPEN.items() if name != "--class-names"}
NAMELESS["--classes"] = "2"
BY_SCHEMA = {**NAMELESS, "--classes": None, "--label": None, "--schema": "own.toml"}
TEXTS = {**OPEN, "--features": "mine:rows", "--text": "age"}
WHITE = {**PRIVATE, "--whiten": ""}
LOCAL = {**PRIVATE, "--init": "local", "--epsilon-init": "1"}
COMPARED: dict[str, tuple[dict[str, str], str]] = {
    **{name: (OPEN, value) for name, value in {
        "--world-size": "4", "--data": "others", "--features": "mine:rows",
        "--model": "mlp:4", "--class-names": "1,0", "--loss": "softmax",
        "--steps": "7", "--epochs": "9", "--lr": "3", "--sample-rate": "0.5",
        "--max-grad-norm": "2", "--max-weight-norm": "500",
        "--neighbours": "replace", "--calibration": "rdp",
        "--max-feature-norm": "2", "--frac-bits": "18", "--evaluate": "opened",
        "--count-noise": "11", "--seed-data": "3", "--init": "random", "--provider": "tfp",
        "--label": "other", "--material": "own.material",
        "--checkpoint": "kept", "--metrics": "accuracy", "--lr-schedule": "cosine",
        "--momentum": "0.5", "--average": "0.5", "--bias-scale": "0.5", "--one-output": "",
        "--optimizer": "adam", "--physical-rows": "64", "--data-kind": "texts",
    }.items()},
    **{name: ({**OPEN, "--optimizer": "adam"}, value) for name, value in {
        "--beta1": "0.5", "--beta2": "0.99", "--adam-floor": "0.5",
    }.items()},
    **{"--epsilon": (PRIVATE, "2"), "--delta": (PRIVATE, "1e-6"), "--no-dp": (PRIVATE, "")},
    **{"--cheap": (PRIVATE, ""), "--noise-multiplier": (SIGMA, "2"), "--classes": (NAMELESS, "3")},
    **{"--open": (PRIVATE, "each-step"), "--method": (LINEAR, "statistics")},
    **{"--schema": (BY_SCHEMA, "other.toml"), "--text": (TEXTS, "weight")},
    **{"--epsilon-init": (LOCAL, "2"), "--init-steps": (LOCAL, "3"), "--init-lr": (LOCAL, "0.5")},
    **{"--init-weighting": (LOCAL, "uniform"), "--whiten": (PRIVATE, "")},
    **{"--split": (PRIVATE, "columns")},
    **{"--colluders": (PRIVATE, "2"), "--noise-shares": (PRIVATE, "paper")},
    **{"--dealer-noise": (PRIVATE, "")},
    **{"--whiten-share": (WHITE, "0.3"), "--whiten-ridge": (WHITE, "5")},
    "--noise-multiplier-whiten": (
        {**SIGMA, "--whiten": "", "--noise-multiplier-whiten": "4"}, "5"
    ),
    **{"--checkpoint-every": ({**OPEN, "--checkpoint": "kept"}, "2")},
    **{"--resume": ({**OPEN, "--checkpoint": "kept"}, "")},
}  # fmt: skip
"""Each option with others beside which it may be given, and another value."""
FREE = {
    **{"--rank": "Meeting.rank", "--rendezvous": "Meeting.rendezvous"},
    **{"--dealer": "Meeting.dealer", "--join-timeout": "Meeting.join_timeout"},
    **{"--key": "Meeting.key"},
    **{
        "--records": "PartyOptions.records",
        "--budget": "PartyOptions.budget",
        "--save": "RunOptions.save",
    },
    **{"--weights": "FeatureExtraction.weights", "--no-feature-cache": "FeatureExtraction.keep"},
    **{"--json": "Ending.report", "--verbose": "Ending.verbose", "--config": "config_file"},
}
"""Each party's own, and where it is said why."""


class StatedError(Exception):
    def __init__(self, manifest: Statement) -> None:
        super().__init__(manifest.digest)
        self.manifest = manifest


class Stating:
    """Takes the place of a host: a run ends with what it states."""

    def check_party(self, config: Any, meeting: Any, options: Any) -> None:
        """All is well."""

    def notices(self, config: Any) -> Sequence[str]:
        return []

    def train_party(self, config: Any, records: Path, meeting: Any, show: Any, options: Any) -> Any:
        raise StatedError(manifest_of(config, options, read_party_file(records).public))


@pytest.fixture
def stated(tmp_path, monkeypatch) -> Any:
    """Returns what a party states that is given these options; its noise is left unsettled."""
    monkeypatch.setattr(TrainConfig, "resolved", lambda config, **_: config)
    monkeypatch.setattr(training, "find_for", lambda *_: Stating())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept").mkdir()
    (tmp_path / "own.csv").write_text(TABLE)
    (tmp_path / "mine.py").write_text(FUNCTION)
    for name, age in (("own", 1), ("other", 2)):
        columns = f"[columns.age]\nrange = [0, {age}]\n[columns.weight]\nrange = [0, 1]\n"
        target = "[target]\ncolumn = 'label'\nclasses = ['0', '1']\n"
        (tmp_path / f"{name}.toml").write_text(f"basis = 'public'\n{target}{columns}")

    def state(options: dict[str, Any]) -> dict[str, Any]:
        given = [part for item in options.items() if item[1] is not None for part in item if part]
        with pytest.raises(StatedError) as end:
            call("party", *(part.replace("RANK", "0") for part in given))
        return end.value.manifest.everything

    return state


def options_of_party() -> set[str]:
    return {leaf.typed for leaf in command_of("party").leaves}


def test_every_option_of_a_party_is_compared_or_its_own():
    assert {*COMPARED} | {*FREE} == options_of_party()
    assert not {*COMPARED} & {*FREE}
    assert {*FREE.values()} <= {*PARTY_SPECIFIC}


@pytest.mark.parametrize("option", [*COMPARED])
def test_another_value_of_an_option_is_stated_otherwise(stated, option):
    base, value = COMPARED[option]
    before = stated(base)
    assert stated(base) == before
    changed = {**base, option: value}
    if option == "--epochs":
        changed.pop("--steps", None)
    if option == "--no-dp":
        del changed["--epsilon"], changed["--delta"]
    if option == "--material":
        changed.pop("--dealer")
    assert stated(changed) != before


@pytest.mark.parametrize("option", ["--records", "--save", "--json", "--budget", "--join-timeout"])
def test_what_is_a_partys_own_is_not_stated(stated, option, tmp_path):
    (tmp_path / "other.csv").write_text(TABLE)
    value = {"--records": "other.csv", "--join-timeout": "5"}.get(option, "own")
    assert stated({**OPEN, option: value}) == stated(OPEN)


def test_options_may_come_from_a_file(stated, tmp_path):
    (tmp_path / "run.toml").write_text("steps = 7\n")
    assert stated({**OPEN, "--config": "run.toml"}) == stated({**OPEN, "--steps": "7"})


def test_other_source_or_weights_of_a_function_are_stated_otherwise(stated, tmp_path, monkeypatch):
    """Wherever the files lie: what is stated is their digests, and no path."""
    weights = "rows.weights = [__file__.replace('mine.py', 'weights')]\n"
    found = []
    for source, content in ((FUNCTION, "1"), (FUNCTION + "# more\n", "1"), (FUNCTION, "2")):
        (tmp_path / "mine.py").write_text(source + weights)
        (tmp_path / "weights").write_text(content)
        monkeypatch.delitem(sys.modules, "mine", raising=False)
        found.append(stated({**OPEN, "--features": "mine:rows"}))
        assert str(tmp_path) not in str(found)
    first, edited, retrained = found
    assert {name for name in first if first[name] != edited[name]} == {"features: source of mine"}
    assert {name for name in first if first[name] != retrained[name]} == {"features: weights 1"}
    monkeypatch.delitem(sys.modules, "mine")


# --- in processes -------------------------------------------------------------------------------

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="copies of a process")
STEPS = ("--steps", "4")
USUAL = (*STEPS, "--epsilon", "8", "--delta", "1e-5")
ODD = {
    "epsilon": (
        (*STEPS, "--epsilon", "2", "--delta", "1e-5"),
        "epsilon = 8 at parties 0 and 1, 2 at party 2",
    ),
    "no-dp": ((*STEPS, "--no-dp"), "no-dp = False at parties 0 and 1, True at party 2"),
    "opened": (
        (*USUAL, "--evaluate", "opened"),
        "evaluate = 'mpc' at parties 0 and 1, 'opened' at part",
    ),
    "nothing-chosen": ((*USUAL, *PLAIN), "momentum = 'by rule' at parties 0 and 1, 0 at party 2"),
}


@pytest.fixture(scope="module")
def template() -> Iterator[Template]:
    """A process that has imported the command and CrypTen; parties are copies of it."""
    env = {**os.environ, "COLUMNS": "200", "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    made = Template("crypten_ext.run.backend", "tests.helpers.pea_copy", "dp_accounting", env=env)
    yield made
    made.end()


LONG = ("no-dp", "opened")


@needs_linux
@pytest.mark.parametrize(
    "case",
    ["epsilon", "nothing-chosen", *(pytest.param(case, marks=pytest.mark.long) for case in LONG)],
)
def test_what_one_process_has_otherwise_all_are_told(case, template, tmp_path):
    """No party waits for its `--join-timeout`, and none is broken off."""
    given, expected = ODD[case]
    assert pea("split", "--out", tmp_path, "--parties", 3).returncode == 0
    common = ("--world-size", "3", "--rendezvous", f"tcp://{free_address()}", "--provider", "tfp")
    with ExitStack() as stack:
        copies = []
        for rank in range(3):
            own = map(str, USUAL if rank < 2 else given)
            records = str(tmp_path / f"party-{rank}.npz")
            said = stack.enter_context((tmp_path / f"said-{rank}.txt").open("w"))
            copies.append(
                template.start(
                    "tests.helpers.pea_copy",
                    *("party", "--rank", str(rank), "--records", records, "--budget", "none"),
                    *(*common, *own),
                    *("--join-timeout", str(2 * PATIENCE)),
                    env=os.environ,
                    descriptors=[],
                    output=said.fileno(),
                )
            )
        assert [copy.wait(PATIENCE) for copy in copies] == [1] * 3
    for rank in range(3):
        text = (tmp_path / f"said-{rank}.txt").read_text()
        (line,) = [one for one in text.splitlines() if one.startswith("pea: ")]
        name, _, values = expected.partition(" = ")
        first = f"pea: --{name} must be equal at every party, not {values}"
        assert line.startswith(first) or f"; {expected}" in line, text
        assert "Traceback" not in text
        assert "gloo" not in text.lower()
