"""What the clear host computes under fixed randomness is what it computed when this was stored."""

from pathlib import Path
from typing import Any

import pytest

from tests.golden.cases import CASES
from tests.golden.clear import differences, observe, stored


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    return stored()


def test_every_run_is_stored(golden: dict[str, Any]):
    assert golden.keys() == CASES.keys()


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_run_is_as_it_was(golden: dict[str, Any], name: str, tmp_path: Path):
    found = observe(name, golden[name]["floats"], tmp_path)
    differing = differences(found, golden[name])
    assert not differing, "\n".join([f"{name} differs in", *differing])
