"""Runs on whitened features: what they cost, what they open and keep, and how they go on."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import dp_accounting as dp
import numpy as np
import pytest

from extensions.data.datasets import Split, load, split_among
from extensions.privacy.accounting import Ledger, calibrate_noise
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.privacy.sampling import OwnRecords
from extensions.protocols.noisy_sums import second_moment
from extensions.protocols.noisy_sums.whitening import (
    TITLE,
    WHITENING,
    Whitening,
    account_for_whitening,
    whitened,
)
from extensions.protocols.pea import LocalData, RunCallbacks
from extensions.protocols.records import Records
from extensions.protocols.settings import TRAINING, account
from extensions.runs.budget import Cap, read, update
from extensions.runs.budget.planned_cost import accountant_answers, planned
from extensions.runs.checkpoints import CheckpointOptions
from extensions.runs.clear_host import ClearHost
from extensions.runs.clear_training import train
from extensions.runs.config import TrainConfig
from extensions.runs.local_training import account_for_start
from extensions.runs.model import Header, OpenedModel, logits_of, whitening_of
from extensions.runs.options import RunOptions
from extensions.runs.report import epsilons_without_noise
from extensions.runs.training import run
from tests.extensions.runs.test_crashes import PARTS as FEW
from tests.helpers.claims import claim
from tests.helpers.crashes import attempt, boundaries_on_disk, epsilons_computed_once, kept_in
from tests.helpers.refused import refused
from tests.helpers.toy_ext.host import ToyHost

DELTA = 1e-5
TARGET: dict[str, Any] = {"epsilon": 2.0, "delta": DELTA, "sample_rate": 0.2, "steps": 40}
GIVEN = TrainConfig(
    backend="clear",
    steps=12,
    noise_multiplier=1.0,
    delta=DELTA,
    lr=20.0,
    max_grad_norm=0.25,
    whiten=True,
    noise_multiplier_whiten=4.0,
    insecure_seed=5,
)


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def parts() -> list[Split]:
    return split_among(load("digits", None, 0), 3)


class PowerCutError(Exception):
    """Ends a run where a test wants it to end."""


def made(config: TrainConfig, parts: Any, folder: Path | None = None, **how: Any) -> dict[str, Any]:
    """Returns the report of a plaintext run, which may be cut off after a step."""
    cut = how.pop("cut", None)

    def progress(event: dict[str, Any]) -> None:
        if event["step"] == cut:
            raise PowerCutError

    options = None if folder is None else CheckpointOptions(folder=folder, every=5, **how)
    return train(config, parts, progress, options)


def composed(config: TrainConfig, relation: Any) -> float:
    """Epsilon of both releases, by the library alone: no code of ours composes them."""
    accountant = dp.pld.PLDAccountant(
        neighboring_relation=relation, value_discretization_interval=1e-4
    )
    step = dp.PoissonSampledDpEvent(config.sample_rate, dp.GaussianDpEvent(config.noise_multiplier))
    accountant.compose(dp.GaussianDpEvent(config.noise_multiplier_whiten))
    accountant.compose(dp.SelfComposedDpEvent(step, config.steps))
    return float(accountant.get_epsilon(DELTA))


def test_the_pair_is_calibrated_to_the_target_of_the_whole_run():
    config = TrainConfig(whiten=True, **TARGET).resolved()
    alone = calibrate_noise(epsilon=2.0, delta=DELTA, sample_rate=1.0, steps=1)
    assert config.noise_multiplier_whiten == pytest.approx(alone / math.sqrt(0.15))
    found = composed(config, dp.NeighboringRelation.REPLACE_SPECIAL)
    assert 1.995 < found < 2.001
    ledger = Ledger()
    account_for_whitening(ledger, config)
    account(ledger, TRAINING, config, config.steps)
    assert 1.999 < ledger.get_epsilon(DELTA) <= 2.0
    assert ledger.get_epsilon(DELTA) == pytest.approx(found, rel=2e-3)
    assert [phase.name for phase in ledger.phases] == [WHITENING, TRAINING]
    assert ledger.opened == [TITLE]
    without = TrainConfig(**TARGET).resolved()
    assert (config.noise_multiplier or 0) > (without.noise_multiplier or math.inf)


def test_a_larger_share_leaves_less_to_the_steps():
    small, large = (
        TrainConfig(whiten=True, whiten_share=share, **TARGET).resolved() for share in (0.05, 0.5)
    )
    assert (small.noise_multiplier_whiten or 0) == pytest.approx(
        math.sqrt(10) * (large.noise_multiplier_whiten or 0)
    )
    assert (small.noise_multiplier or 0) < (large.noise_multiplier or 0)


def test_replaced_records_and_local_models_are_in_the_target():
    config = TrainConfig(
        whiten=True, neighbours="replace", init="local-average", epsilon_init=0.5, **TARGET
    ).resolved()
    ledger = Ledger()
    account_for_start(ledger, config)
    account(ledger, TRAINING, config, config.steps)
    assert 1.998 < ledger.get_epsilon(DELTA, neighbours="replace") <= 2.0
    assert [phase.name for phase in ledger.phases] == [WHITENING, "local training", TRAINING]
    alone = calibrate_noise(
        epsilon=2.0, delta=DELTA, sample_rate=1.0, steps=1, neighbours="replace"
    )
    assert config.noise_multiplier_whiten == pytest.approx(alone / math.sqrt(0.15))


@pytest.mark.parametrize("calibration", ["rdp", "paper"])
def test_every_calibration_has_room_for_it(calibration):
    config = TrainConfig(whiten=True, calibration=calibration, **TARGET).resolved()
    assert composed(config, dp.NeighboringRelation.REPLACE_SPECIAL) <= 2.0


def test_missing_noise_is_missing_in_both(parts):
    """Of two missing parties' noise half of the variance is left, in the sum as in the steps."""
    config = TrainConfig(whiten=True, **TARGET).resolved()
    ledger = Ledger()
    account_for_whitening(ledger, config)
    account(ledger, TRAINING, config, config.steps)
    weaker = replace(
        config,
        noise_multiplier=math.sqrt(0.5) * (config.noise_multiplier or 0.0),
        noise_multiplier_whiten=math.sqrt(0.5) * (config.noise_multiplier_whiten or 0.0),
    )
    found = epsilons_without_noise(config, ledger)
    assert found is not None
    expected = composed(weaker, dp.NeighboringRelation.REPLACE_SPECIAL)
    assert found["2"] == pytest.approx(expected, rel=2e-3)


def test_what_a_run_may_cost_is_known_before(parts):
    config = replace(GIVEN, insecure_seed=None).resolved()
    host = ClearHost(20, parties=3, owners=3, source=InsecureSeededSource(1))
    ledger = planned(host, config, 64)
    assert [phase.name for phase in ledger.phases] == [WHITENING, TRAINING]
    without = replace(config, whiten=False, noise_multiplier_whiten=None)
    cheaper = planned(host, without, 64).get_epsilon(DELTA)
    assert ledger.get_epsilon(DELTA) > cheaper
    known = {ledger.get_epsilon(DELTA), ledger.get_epsilon(DELTA, neighbours="replace")}
    assert known <= {*accountant_answers(config).values()}


def test_the_report_is_of_both_and_an_owners_ledger_too(parts, tmp_path):
    paths = [tmp_path / f"{rank}.budget.json" for rank in range(3)]
    config = replace(GIVEN, insecure_seed=None, evaluate="none").resolved()
    host = ToyHost(20, 3, InsecureSeededSource(1))
    report = run(host, config, parts, lambda event: None, RunOptions(ledgers=paths))
    assert report["opened"] == [TITLE]
    assert report["noise_multiplier_whiten"] == 4.0
    assert report["whiten_ridge"] > 0
    (entry,) = read(paths[1]).entries
    assert entry.spent
    assert entry.opens == (TITLE,)
    assert entry.epsilon(DELTA) == report["epsilon"]
    phases = [phase.name for phase in entry.ledger.phases]
    assert phases == [WHITENING, TRAINING]
    cap = Cap(epsilon=1.2 * report["epsilon"], delta=DELTA)
    update(paths[1], lambda account: replace(account, cap=cap))
    with refused(
        "budget", "range", f"epsilon 5.563 in {tmp_path}/1.budget.json with this run, 3.164 without"
    ):
        run(host, config, parts, lambda event: None, RunOptions(ledgers=paths))


def test_training_and_the_model_see_whitened_features(parts):
    """The report's model on features as they were is right as often as in the run."""
    report = made(GIVEN, parts)
    header = Header.of_json(report["header"])
    whitening = whitening_of(header, report["whitening"])
    assert whitening is not None
    model = OpenedModel(header=header, parameters=report["parameters"], whitening=whitening)
    x = np.concatenate([part.test_x for part in parts])
    y = np.concatenate([part.test_y for part in parts])
    right = (logits_of(model, x).argmax(axis=1) == y).mean()
    assert report["accuracy"] == pytest.approx(right, abs=3 / len(y))
    assert right > 0.8
    plain = OpenedModel(header=header, parameters=report["parameters"])
    assert (logits_of(plain, x).argmax(axis=1) == y).mean() < right
    exact = sum(
        second_moment.second_moment(
            second_moment.unit_rows(np.rint(p.train_x * 2.0**20).astype(np.int64), 2.0**20)
        )
        for p in parts
    )
    off = second_moment.unpack(report["whitening"]) - np.ldexp(exact, -2 * second_moment.FRAC_BITS)
    deviation = 4.0 * math.sqrt(1.5)
    assert np.abs(off).max() < 6 * deviation
    assert off.diagonal().std() > 0.5 * deviation


def test_the_toys_parties_open_what_the_clear_run_does(parts):
    reports = []
    for host in (ToyHost(20, 3, InsecureSeededSource(5)), None):
        config = replace(GIVEN, evaluate="opened")
        nothing = RunOptions()
        done = (
            made(config, parts)
            if host is None
            else run(host, config, parts, lambda event: None, nothing)
        )
        reports.append(done)
    toy, clear = reports
    for one, other in zip(toy["whitening"], clear["whitening"], strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(toy["parameters"][0], clear["parameters"][0], strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2.0**-13)
    assert toy["opened"][0] == TITLE


@claim("The noise is drawn once, and a run that is resumed opens the same sum.")
@pytest.mark.parametrize("start", [{}, {"init": "local-average", "noise_multiplier_init": 1.0}])
def test_a_resumed_run_opens_the_same_and_is_that_of_no_interruption(parts, tmp_path, start):
    """Cut off after the sum was opened and before any later checkpoint, and once more later."""
    config = replace(GIVEN, **start)
    whole = made(config, parts)
    with pytest.raises(PowerCutError):
        made(config, parts, tmp_path / "kept", cut=3)
    with pytest.raises(PowerCutError):
        made(config, parts, tmp_path / "kept", cut=11, resume=True)
    report = made(config, parts, tmp_path / "kept", resume=True)
    assert report["resumed_from"] == [0, 10]
    with np.load(tmp_path / "kept" / "party-0-opened.npz") as opened:
        np.testing.assert_array_equal(opened["whitening_upper"], whole["whitening"][1])
    assert report["epsilon"] == whole["epsilon"]
    for one, other in zip(report["whitening"], whole["whitening"], strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(report["parameters"][0], whole["parameters"][0], strict=True):
        np.testing.assert_array_equal(one, other)


@claim("The noise is drawn once, and a run that is resumed opens the same sum.")
def test_whenever_a_party_dies_no_second_sum_is_drawn(tmp_path):
    """Around the release: each attempt draws afresh, and yet all send the same words for it."""
    config = replace(
        GIVEN, parties=2, classes=2, steps=1, sample_rate=0.5, insecure_seed=None
    ).resolved()
    with epsilons_computed_once(), boundaries_on_disk():
        whole = attempt(config, FEW, kept_in(tmp_path / "whole", resume=False), 1)
        assert not whole.errors
        before, opened = whole.lives[0].segments, 0
        for ends in range(before[1], before[6]):
            folder = tmp_path / str(ends)
            tries = [attempt(config, FEW, kept_in(folder, resume=False), 100 + ends, {0: ends})]
            for seed in (201, 202):
                if tries[-1].errors:
                    tries.append(attempt(config, FEW, kept_in(folder, resume=True), seed))
            sent = [{each.sent[rank][0] for each in tries if each.sent[rank]} for rank in range(2)]
            if tries[-1].errors:  # nothing was kept from which to go on
                assert sent == [set(), set()]
                continue
            assert [len(words) for words in sent] == [1, 1]
            assert tries[-1].reports[0]["epsilon"] == whole.reports[0]["epsilon"]
            opened += any(each.sent[1] for each in tries[:1])
        assert opened > 1


def test_persons_with_several_records_have_noise_for_all_of_them(parts):
    """Rows of norm 1 move the sum by k: noise is k times as wide, and the ridge wider."""
    units = np.arange(len(parts[0].train_x)) // 2
    owned = [replace(part, train_units=units[: len(part.train_x)]) for part in parts]
    report = made(replace(GIVEN, rows_per_unit=2, steps=1, noise_multiplier_whiten=40.0), owned)
    single = made(replace(GIVEN, steps=1, noise_multiplier_whiten=40.0), parts)
    off = [second_moment.unpack(each["whitening"]) for each in (report, single)]
    upper = np.triu_indices(64, 1)
    ratio = off[0][upper].std() / off[1][upper].std()
    assert 1.8 < ratio < 2.2
    assert report["whiten_ridge"] > single["whiten_ridge"]


@pytest.mark.parametrize(
    ("changes", "told", "code", "value"),
    [
        ({"whiten": False}, "noise_multiplier_whiten", "conflict", 4.0),
        ({"noise_multiplier_whiten": None}, "noise_multiplier_whiten", "missing", None),
        ({"whiten_share": 0.1}, "whiten_share", "conflict", 0.1),
        ({"whiten_share": 1.0}, "whiten_share", "range", 1.0),
        ({"whiten_ridge": 0.0}, "whiten_ridge", "range", 0.0),
        ({"noise_multiplier_whiten": -1.0}, "noise_multiplier_whiten", "range", -1.0),
        ({"noise_multiplier_whiten": 0.0}, "whiten_ridge", "missing", None),
        (
            {"noise_multiplier": None, "epsilon": 2.0},
            *("noise_multiplier_whiten", "conflict", 4.0),
        ),
        ({"private": False, "noise_multiplier_whiten": None}, "whiten_ridge", "missing", None),
    ],
)
def test_settings_that_do_not_belong_together_are_refused(changes, told, code, value):
    with refused(told, code, value):
        replace(GIVEN, **changes)


def test_too_many_columns_are_refused_before_anything_is_shared():
    wide = replace(FEW[0], train_x=np.zeros((8, 4097)), test_x=np.zeros((50, 4097)))
    with refused("columns", "range", value=4097):
        made(replace(GIVEN, parties=2, classes=2), [wide, wide])


def test_without_privacy_the_sum_is_opened_as_it_is(parts):
    config = replace(
        GIVEN,
        private=False,
        noise_multiplier=None,
        noise_multiplier_whiten=None,
        delta=None,
        whiten_ridge=10.0,
        steps=3,
    )
    report = made(config, parts)
    assert report["whiten_ridge"] == 10.0
    assert Whitening(parts=report["whitening"], ridge=10.0).matrix.shape == (64, 64)
    assert json.loads(report["header"])["whitening"]["ridge"] == 10.0
    assert np.linalg.eigvalsh(second_moment.unpack(report["whitening"])).min() > -1e-3


@pytest.mark.parametrize(
    ("changes", "total"),
    [({}, 1.5), ({"colluders": 2}, 3.0), ({"parties": 6, "noise_shares": "paper"}, 1.5)],
)
def test_a_run_adds_noise_for_all_colluders_by_the_rule_it_names(changes, total):
    """1,953 squares, of variance 2 each, are within six deviations but with probability 1e-8."""
    config = replace(GIVEN, insecure_seed=None, **changes)
    one = OwnRecords(
        features=np.zeros((2, 63), dtype=np.int64),
        labels=np.zeros((2, 10), dtype=np.int64),
        frac_bits=config.frac_bits,
    )
    own = [one] * config.parties
    host = ClearHost(20, parties=config.parties, owners=config.parties, source=SystemSource())
    records = Records(own, (2,) * config.parties, 63)
    nobody = LocalData(own, own, None, lambda *_: [], lambda _: None)
    _, _, (found, *_) = whitened(host, config, nobody, records, RunCallbacks(host))
    values = found.parts[1] / (4.0**second_moment.FRAC_BITS * 4.0 * math.sqrt(total / 2))
    assert abs(float((values**2).mean()) - 1.0) < 6 * math.sqrt(2 / values.size)


def test_the_dealers_noise_is_in_the_steps_alone():
    """Without it, and with a party's missing, the sum has that party's missing alone."""
    config = replace(GIVEN, backend="crypten", dealer_noise=True, insecure_seed=None)
    ledger = Ledger()
    account_for_whitening(ledger, config)
    account(ledger, TRAINING, config, config.steps)
    found = epsilons_without_noise(config, ledger)
    left_of = {"1": (1.0, 1.0), "the dealer": (1.0, 1.5), "1 and the dealer": (2 / 3, 1.0)}
    for names, (steps, whole) in left_of.items():
        left = ledger.with_noise(TRAINING, math.sqrt(steps)).with_noise(WHITENING, math.sqrt(whole))
        assert found[names] == pytest.approx(left.get_epsilon(DELTA), rel=1e-6)
