"""An epsilon that was found is given again for equal questions, and for no other."""

from typing import Any

import pytest

from extensions.privacy import accountant_cache, composition
from extensions.privacy.composition import total_epsilon
from extensions.privacy.mechanisms import SubsampledGaussian
from tests.helpers.refused import refused

STEPS = {"noise_multiplier": 1.5, "sample_rate": 0.1, "steps": 10, "overflow_probability": 1e-9}
ASKED = {"delta": 1e-5, "accountant": "pld", "neighbours": "add-remove", "offset": 0.0}
OTHER = {
    "noise_multiplier": 1.6,
    "sample_rate": 0.2,
    "steps": 11,
    "overflow_probability": 1e-7,
    "delta": 1e-6,
    "accountant": "rdp",
    "neighbours": "replace",
    "offset": 0.5,
}


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accountant_cache, "_found", {})


def epsilon(**other: Any) -> float:
    own = {name: other.get(name, value) for name, value in STEPS.items()}
    asked = {name: other.get(name, value) for name, value in ASKED.items()}
    return total_epsilon([SubsampledGaussian(**own)] * other.get("times", 1), **asked)


def test_what_differs_in_anything_is_found_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [{name: value} for name, value in OTHER.items()] + [{"times": 2}]
    alone = {}
    for number, other in enumerate([{}, *others]):
        monkeypatch.setattr(accountant_cache, "_found", {})
        alone[number] = epsilon(**other)
    monkeypatch.setattr(accountant_cache, "_found", {})
    for _ in range(2):
        assert [epsilon(**other) for other in [{}, *others]] == [*alone.values()]
    assert len({*alone.values()}) == len(alone)
    assert len(accountant_cache.cached_answers()) == len(alone)


def test_what_is_known_is_not_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found, known = epsilon(), accountant_cache.cached_answers()
    monkeypatch.setattr(accountant_cache, "_found", {})
    monkeypatch.setattr(composition, "_find_epsilon", lambda *_: pytest.fail("is found again"))
    accountant_cache.fill_cache(known)
    assert epsilon() == found


def test_a_refusal_is_no_answer() -> None:
    for _ in range(2):
        with refused("overflow_probability", "range", value=0.1):
            epsilon(overflow_probability=0.1)
    assert accountant_cache.cached_answers() == {}


def test_the_latest_thousand_are_remembered() -> None:
    for number in range(1500):
        assert accountant_cache.cached(number, lambda number=number: float(number)) == number
    assert [*accountant_cache.cached_answers()] == [*range(500, 1500)]
