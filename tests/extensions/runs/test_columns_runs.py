"""Runs whose owners have other columns of the same persons, and the use of what they learn."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from extensions.data.datasets import Recipe
from extensions.data.datasets.records import ORDER
from extensions.errors import ArgumentError
from extensions.privacy.randomness import SystemSource
from extensions.ring.fixed_point import decode, encode
from extensions.runs.checkpoints import CheckpointOptions
from extensions.runs.clear_training import train
from extensions.runs.config import TrainConfig
from extensions.runs.model import Header, OpenedModel, header_of, logits_of, opened_of
from extensions.runs.model.joint_use import PartyInput, Request, perform
from extensions.runs.model.shares import SharedModel
from extensions.runs.options import RunOptions
from tests.extensions.runs.test_model import REPORT, records
from tests.extensions.runs.test_model_together import Watched, shared
from tests.extensions.runs.test_whitened_runs import PowerCutError
from tests.helpers.columns import blocks, whole_of
from tests.helpers.refused import refused
from tests.helpers.seated import refusals

GIVEN: dict[str, Any] = {
    "backend": "clear",
    "steps": 8,
    "noise_multiplier": 4.0,
    "delta": 1e-5,
    "lr": 20.0,
    "max_grad_norm": 0.25,
    "sample_rate": 1.0,
    "insecure_seed": 5,
}
WHITE = {"whiten": True, "noise_multiplier_whiten": 5.0}


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def made(parts: Any, folder: Any = None, cut: int | None = None, **settings: Any) -> Any:
    def progress(event: dict[str, Any]) -> None:
        if event["step"] == cut:
            raise PowerCutError

    resume = settings.pop("resume", False)
    kept = folder and CheckpointOptions(folder=folder, every=3, resume=resume)
    return train(TrainConfig(**GIVEN | settings).resolved(), parts, progress, kept)


def weights(report: Any) -> Any:
    return np.concatenate([part.reshape(-1) for pair in report["parameters"] for part in pair])


@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("settings", [{}, {"physical_rows": 719, "momentum": 0.5, "average": 0.5}])
def test_a_run_by_columns_is_that_by_rows_bit_for_bit(parties, settings):
    by_columns = made(blocks(parties, 1), split="columns", parties=parties, **settings)
    by_rows = made([whole_of(parties)], neighbours="replace", parties=parties, **settings)
    np.testing.assert_array_equal(weights(by_columns), weights(by_rows))
    same = ("accuracy", "epsilon", "epsilon_by_neighbours", "held_out_records", "records")
    assert [by_columns[name] for name in same] == [by_rows[name] for name in same]


def test_replaced_persons_are_those_of_epsilon_and_the_report_has_both():
    report = made(blocks(3), split="columns")
    assert (report["split"], report["columns"]) == ("columns", [22, 21, 21])
    assert report["neighbours"] == "replace"
    both = report["epsilon_by_neighbours"]
    assert report["epsilon"] == both["replace"] > 1.9 * both["add-remove"]
    usual = TrainConfig(split="columns", epsilon=2.0, delta=1e-5, chosen=("steps", "sample_rate"))
    found = usual.resolved(records=5_000)
    assert (found.neighbours, found.sample_rate, found.steps) == ("replace", 1.0, 10)
    other = TrainConfig(split="columns", neighbours="add-remove", noise_multiplier=1.0, delta=1e-5)
    assert other.neighbours == "add-remove"
    with refused("sample_rate", "choice", 0.2):
        TrainConfig(split="columns", sample_rate=0.2, noise_multiplier=1.0, delta=1e-5).resolved()


def test_whitened_blocks_go_on_with_their_own_maps(tmp_path):
    settings = {"split": "columns", **WHITE}
    at_once = made(blocks(3), **settings)
    with pytest.raises(PowerCutError):
        made(blocks(3), tmp_path / "run", cut=5, **settings)
    (stored,) = (tmp_path / "run").glob("*whitening*")
    before = stored.read_bytes()
    resumed = made(blocks(3), tmp_path / "run", resume=True, **settings)
    assert stored.read_bytes() == before if stored.exists() else True
    np.testing.assert_array_equal(weights(at_once), weights(resumed))
    assert resumed["resumed_from"] == [3]
    assert at_once["accuracy"] > made(blocks(3), split="columns")["accuracy"]
    assert made(blocks(3), **settings)["whiten_ridge"] is None
    assert opened_of({**at_once}) is None
    assert opened_of(made(blocks(3), split="columns")) is not None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("persons", "persons: 1438 at party 0, 1437 at party 1"),
        ("order", f"{ORDER}: 'a' at party 0, 'b' at party 1"),
        ("no order", f"{ORDER}: 'a' at party 0, nothing at party 1"),
        ("labels", "labels: at no party"),
    ],
)
def test_owners_of_other_persons_or_orders_are_refused_before_anything_is_shared(change, named):
    config = TrainConfig(split="columns", parties=2, **GIVEN).resolved()
    first, second = blocks(2, 1)
    configs = [config, config]
    if change == "persons":
        second = second.taken(slice(1, None))
    elif change == "labels":
        second = blocks(2, 0)[1]
    else:
        orders: list[Recipe] = [{ORDER: "a"}, {ORDER: "b"} if change == "order" else {}]
        configs = [replace(config, facts=order) for order in orders]
    plans = [
        (config, RunOptions(), part) for config, part in zip(configs, (first, second), strict=True)
    ]
    name, _, value = named.partition(": ")
    found = refusals(plans)
    assert all(name in each and value in each for each in found), found


WIDTHS = (3, 5, 4)


def model_of_columns(text: str = "logistic") -> OpenedModel:
    config = TrainConfig(model=text, classes=3, split="columns", noise_multiplier=1.0, delta=1e-5)
    header = header_of(config, REPORT, {}, 12, None, WIDTHS, 0)
    draws = np.random.default_rng(5)
    shapes = zip(header.spec.widths[:-1], header.spec.widths[1:], strict=True)
    parameters = [(draws.normal(0, 1, (m, n)), draws.normal(0, 1, m)) for n, m in shapes]
    return OpenedModel(header=header, parameters=parameters)


def holders(model: OpenedModel) -> list[SharedModel]:
    return [
        replace(each, header=replace(model.header, rank=rank, facts={"column 1": f"of {rank}"}))
        for rank, each in enumerate(shared(model))
    ]


def cut(x: Any) -> list[Any]:
    return np.split(x, np.cumsum(WIDTHS)[:-1], axis=1)


def asked(own: list[SharedModel], x: Any, owner: int) -> tuple[Any, Any]:
    """What each party learns of all records, and what everybody sees."""
    host = Watched(20, 3, SystemSource())
    inputs = [PartyInput(shared=s, x=block) for s, block in zip(own, cut(x), strict=True)]
    found = perform(host, Request(task="predict", owner=owner), inputs)
    return [each["logits"] for each in found], host.seen


def expected_of(model: OpenedModel, x: Any) -> Any:
    whole = replace(model, header=replace(model.header, widths=(), rank=0))
    return logits_of(whole, x / np.sqrt(3))


@pytest.mark.parametrize("text", ["logistic", "mlp:4"])
def test_predictions_of_all_columns_are_the_askers_alone(text):
    model, x = model_of_columns(text), records()
    found, seen = asked(holders(model), x, owner=1)
    assert [len(each) for each in found] == [0, 40, 0]
    np.testing.assert_allclose(found[1], expected_of(model, x), rtol=0, atol=1e-3)
    assert np.median(np.abs(seen[0].astype(np.float64))) > 2**60, "what is opened is masked"


def test_each_owner_gets_its_own_block_and_together_they_predict_the_same():
    model, x = model_of_columns(), records()
    own = holders(model)
    host = Watched(20, 3, SystemSource())
    found = perform(host, Request(task="open"), [PartyInput(shared=each) for each in own])
    assert np.median(np.abs(host.seen[0].astype(np.float64))) > 2**60, "what is opened is masked"
    (weight, bias), ends = model.parameters[0], np.cumsum((0, *WIDTHS))
    apart = []
    for rank, each in enumerate(found):
        part, _ = each["parts"]
        block = slice(ends[rank], ends[rank + 1])
        np.testing.assert_array_equal(part[:, block], encode(weight[:, block], 20))
        assert not np.delete(part, np.r_[block], axis=1).any(), "nothing of another's block"
        header = replace(own[rank].header, apart=True)
        apart.append(replace(own[rank], header=header, parts=each["parts"]))
    total = sum(each["parts"][1] for each in found)
    np.testing.assert_allclose(decode(total, 20), bias, atol=1e-5)
    logits, seen = asked(apart, x, owner=2)
    assert np.median(np.abs(seen[0].astype(np.float64))) > 2**60, "the sum is masked"
    np.testing.assert_allclose(logits[2], expected_of(model, x), rtol=0, atol=1e-3)
    np.testing.assert_allclose(logits[2], asked(own, x, owner=2)[0][2], rtol=0, atol=1e-4)


def test_a_deep_model_has_no_parts_of_owners():
    own = [PartyInput(shared=each) for each in holders(model_of_columns("mlp:4"))]
    with refused("shares", "value", "of several layers"):
        perform(Watched(20, 3, SystemSource()), Request(task="open"), own)


def test_headers_of_one_model_differ_in_what_is_an_owners_own():
    first, second, _ = (each.header for each in holders(model_of_columns()))
    assert first.to_json() != second.to_json()
    assert first.common == second.common
    back = Header.of_json(second.to_json())
    assert (back.widths, back.rank, back.inputs, back.apart) == (WIDTHS, 1, 5, False)
    damaged = second.to_json().replace('"widths":[3,5,4]', '"widths":[3,5,5]')
    with pytest.raises(ArgumentError, match="blocks"):
        Header.of_json(damaged)
