"""A private step takes what the model's own layers made of one fresh batch, and nothing else.

The programs are those of `tests.helpers.programs`: in the ones that are refused, a record could
move the sum by more than the bound, or the epsilon would be that of another sampling.
"""

import ast
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.paths import ROOT

PROGRAMS = "tests.helpers.programs"
FOLDER = ROOT / "tests" / "helpers" / "programs"
REFUSALS = {"GradientError", "UnsupportedLayerError", "ArgumentError"}


def test_no_misuse_is_accepted(pools):
    first, second = pools.run(2, f"{PROGRAMS}.script:outcomes", module=f"{PROGRAMS}.crypten_misuse")
    assert first == second
    assert len(first) >= 100
    assert [name for name, (kind, _) in first.items() if kind not in REFUSALS] == []
    changed = [text for name, (_, text) in first.items() if name.startswith("features_changed")]
    assert len(changed) >= 3
    assert all("changed since it was the features of a batch" in text for text in changed)
    assert "result of 'add'" in first["logits_with_everybodys_sum"][1]
    for name in ("features_that_the_script_encrypted", "features_centred_and_scaled"):
        assert "crypten_ext.vouch_for(x, y, sample_rate=..., max_feature_norm" in first[name][1]


@pytest.mark.long
def test_every_honest_program_runs(pools):
    first, second = pools.run(2, f"{PROGRAMS}.script:outcomes", module=f"{PROGRAMS}.crypten_honest")
    assert len(first) >= 50
    assert [item for each in (first, second) for item in each.items() if any(item[1])] == []


class WithoutConstants(ast.NodeTransformer):
    """Makes all constants alike."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant(None)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*_[hm]*.py")), ids=lambda path: path.stem)
def test_no_two_programs_differ_only_in_a_constant(path: Path):
    bodies = []
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.FunctionDef(body=body, decorator_list=[_, *_]):
                bodies.append(("", WithoutConstants().visit(ast.Module(body, []))))
            case ast.Expr(ast.Call(ast.Attribute(attr="each"), [_, run], ways)):
                bodies += [(ast.unparse(run), WithoutConstants().visit(w.value)) for w in ways]
    assert len(bodies) >= 20
    assert len({(run, ast.dump(body)) for run, body in bodies}) == len(bodies)


def test_rate_overflow_and_norms_are_those_of_the_batch_behind_a_flatten_or_activation(pools):
    (plain, account), *others = pools.run(2, f"{PROGRAMS}.facts:one_step")[0]
    assert (account["sample_rate"], account["overflow_probability"]) == (0.5, 1e-9)
    for model, phase in others:
        assert phase == account
        for a, b in zip(plain, model, strict=True):
            assert np.abs(a).max() > 0.01
            np.testing.assert_allclose(a, b, rtol=0.01, atol=2.0**-18)


@pytest.mark.parametrize("parties", [2, pytest.param(3, marks=pytest.mark.long)])
def test_weights_are_checked_where_layers_are_hidden_in_these_rounds(pools, parties):
    assert pools.run(parties, f"{PROGRAMS}.facts:rounds_to_build")[0] == [0, 7]


def test_noise_that_anybody_may_know_has_no_epsilon(pools):
    assert pools.run(2, f"{PROGRAMS}.facts:epsilon_of_known_noise") == [np.inf, np.inf]


def test_no_step_changes_the_model_before_it_is_accounted_for(pools):
    moved, (phase,) = pools.run(2, f"{PROGRAMS}.facts:interrupted_step")[0]
    assert moved
    assert phase["steps"] == 1
    (kind, text), moved = pools.run(2, f"{PROGRAMS}.facts:step_without_an_account")[0]
    assert kind == "ArgumentError"
    assert text.startswith("ledger = 'training'")
    assert not moved
