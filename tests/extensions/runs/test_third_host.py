"""A host that the core has never heard of: found by an entry point alone, it trains like others."""

import re
import tempfile
from pathlib import Path

import numpy as np
import pytest

from extensions.layers.passes import forward
from extensions.protocols import host
from extensions.protocols.records import COMPARED
from extensions.runs import entry_points, outputs
from extensions.runs.model import read_opened
from tests.helpers.commands import PLAIN, pea, report_of
from tests.helpers.paths import ROOT

TOY = ROOT / "tests" / "helpers" / "toy_ext"
RUN = ("train", "--epsilon", "2", "--delta", "1e-5", "--insecure-fixed-randomness", "7")
SHORT = ("--steps", "6", "--init", "local", "--epsilon-init", "1", "--init-steps", "3")
DESCENT = (
    *("--momentum", "0.5", "--average", "0.5", "--lr-schedule", "linear", "--bias-scale", "0.25"),
    *("--loss", "hard-sigmoid"),
)


@pytest.fixture
def toy(monkeypatch):
    """The toy's distribution is on the path, and was not when the test began."""
    entry_points.offered.cache_clear()
    monkeypatch.syspath_prepend(TOY.parent)
    yield
    entry_points.offered.cache_clear()


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def trained(folder: Path, *options: object) -> tuple[dict[str, object], Path]:
    model = Path(tempfile.mkdtemp(dir=folder)) / "model"
    done = pea(*RUN, *options, "--json", folder / "report.json", "--save", model)
    assert done.returncode == 0, done.stderr
    return report_of(folder / "report.json"), model


def test_it_is_small_and_the_core_does_not_know_it():
    sources = [*TOY.glob("*.py")]
    assert sum(len(path.read_text().splitlines()) for path in sources) <= 300
    for path in (ROOT / "extensions").rglob("*.py"):
        assert re.search(r"\btoy", path.read_text()) is None, path


def test_a_run_on_it_is_that_of_the_clear_backend(toy, tmp_path):
    """With equal sampling and noise rounding alone tells the models apart: a few ulps a step."""
    weights = {}
    for backend in ("toy", "clear"):
        options = ("--backend", backend, *SHORT, *DESCENT, "--evaluate", "opened")
        report, model = trained(tmp_path, *options)
        with np.load(model / "model.npz") as arrays:
            weights[backend] = np.concatenate([arrays[n].ravel() for n in ("weight_0", "bias_0")])
        assert read_opened(model / "model.npz").header.manifest == report["manifest"]
        assert report["manifest"]["run"]["backend"] == backend
        if backend == "toy":
            assert (report["backend"], report["parties"], report["steps"]) == ("toy", 3, 6)
            assert report["rounds"] > 6 * 20
    np.testing.assert_allclose(weights["toy"], weights["clear"], rtol=0, atol=2.0**-16)
    assert np.abs(weights["clear"]).max() > 0.1


def test_its_shares_and_checkpoints_are_kept_as_anywhere(toy, tmp_path):
    kept = tmp_path / "kept"
    run = ("--backend", "toy", "--parties", 2, *PLAIN, "--steps", 4, "--checkpoint", kept)
    report, model = trained(tmp_path, *run)
    assert report["opened"] == ["the number of correct predictions on held-out records"]
    assert sorted(path.name for path in model.iterdir()) == ["party-0.npz", "party-1.npz"]
    assert sorted(path.name for path in kept.iterdir()) == [
        f"party-{rank}{name}" for rank in range(2) for name in ("-result.json", ".finished")
    ]
    again = pea(*RUN, *run, "--resume")
    assert "of a run that was finished" in again.stderr


def test_its_own_rules_hold(toy):
    done = pea(*RUN, "--backend", "toy", "--parties", 1)
    assert "--parties must be a whole number in 2..64, not 1" in done.stderr


def test_it_is_gone_with_its_distribution():
    entry_points.offered.cache_clear()
    missing = pea(*RUN, "--backend", "toy")
    assert "--backend must be one of ['clear', 'crypten', 'tfe'], not 'toy'" in missing.stderr


@pytest.mark.parametrize(
    ("limit", "model", "blocks"),
    [("BLOCK", (), 24), ("COMPARED", ("--model", "mlp:16"), 12)],
    ids=["features", "comparisons"],
)
def test_held_out_records_that_are_counted_in_blocks_are_all_counted(
    toy, tmp_path, monkeypatch, limit, model, blocks
):
    """Of 359 records 1,000 words hold 15 with 64 columns, or 31 with 32 comparisons."""
    options = ("--backend", "toy", "--steps", "6", *model)
    whole, _ = trained(tmp_path, *options)
    seen = []
    everything = host.Host.everything

    def noted(self, records, rows):
        seen.append(list(rows))
        return everything(self, records, rows)

    monkeypatch.setattr(f"extensions.protocols.records.{limit}", 1000)
    monkeypatch.setattr(host.Host, "everything", noted)
    parted, _ = trained(tmp_path, *options)
    assert len(seen) == blocks
    assert [sum(sizes) for sizes in zip(*seen, strict=True)] == whole["held_out_records"]
    assert parted["accuracy"] == whole["accuracy"]


def test_local_models_are_tried_on_all_held_out_records_in_blocks(toy, tmp_path, monkeypatch):
    """1,000 comparisons are those of 20 records: each of 5 candidates has 10 outputs."""
    options = ("--backend", "toy", *SHORT, "--evaluate", "opened")
    weights, seen = [], []
    everything = host.Host.everything

    def noted(self, records, rows):
        seen.append(list(rows))
        return everything(self, records, rows)

    monkeypatch.setattr(host.Host, "everything", noted)
    for most in (COMPARED, 1000):
        monkeypatch.setattr("extensions.protocols.records.COMPARED", most)
        report, model = trained(tmp_path, *options)
        with np.load(model / "model.npz") as arrays:
            weights.append(np.concatenate([arrays[n].ravel() for n in ("weight_0", "bias_0")]))
    assert len(seen) == 2 + 18 + 1
    for part in (seen[2:20], seen[20:]):
        assert [sum(sizes) for sizes in zip(*part, strict=True)] == report["held_out_records"]
    np.testing.assert_allclose(*weights, rtol=0, atol=2.0**-16)


def test_counts_of_a_public_model_are_the_same_in_blocks(toy, tmp_path, monkeypatch):
    options = ("--backend", "toy", "--steps", "6", "--model", "mlp:16", "--open", "each-step")
    whole, _ = trained(tmp_path, *options)
    rows = []

    def noted(ring, network, model, x):
        rows.append(len(x))
        return forward(ring, network, model, x)

    monkeypatch.setattr("extensions.protocols.records.COMPARED", 1000)
    monkeypatch.setattr(outputs, "forward", noted)
    parted, _ = trained(tmp_path, *options)
    assert len(rows) == 12
    assert max(rows) <= 31
    assert sum(rows) == sum(whole["held_out_records"])
    assert parted["accuracy"] == whole["accuracy"]
