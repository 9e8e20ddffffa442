"""Training on ABY3 takes owners' records, or what a caller vouches for, through layers it knows."""

import pytest

PROGRAMS = "tests.helpers.programs"
REFUSALS = {"ArgumentError", "GradientError", "UnsupportedLayerError"}


def test_no_misuse_is_accepted(tfe_process):
    found = tfe_process.run(f"{PROGRAMS}.keras_script:outcomes", module=f"{PROGRAMS}.keras_misuse")
    assert len(found) >= 50
    assert [name for name, (kind, _) in found.items() if kind not in REFUSALS] == []
    assert "tfe_ext.keras.vouch_for(x, y, max_feature_norm=" in found["features_scaled"][1]


@pytest.mark.long
def test_no_misuse_is_accepted_after_a_step(tfe_process):
    found = tfe_process.run(
        f"{PROGRAMS}.keras_script:outcomes",
        module=f"{PROGRAMS}.keras_misuse",
        corpus="after_a_step",
    )
    assert [kind for kind, _ in found.values()] == ["ArgumentError"] * 2


@pytest.mark.long
def test_every_honest_program_runs(tfe_process):
    found = tfe_process.run(f"{PROGRAMS}.keras_script:outcomes", module=f"{PROGRAMS}.keras_honest")
    assert len(found) >= 20
    assert {name: refused for name, refused in found.items() if any(refused)} == {}
