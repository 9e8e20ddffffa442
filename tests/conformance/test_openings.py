"""Every word that a host opens is masked: uniform, and independent of all the others it opens.

The dealer and the third party of CrypTen have the same test beside their others. False alarms have
a probability of ALARM at most for each host. A mask that is zero leaves a bit of all words
alike, which for uniform words has a probability of 2^(1 - COUNT).
"""

from collections.abc import Callable

import numpy as np
import pytest

from extensions.ring.fixed_point import Integers
from extensions.ring.joint import JOINTS
from extensions.ring.planes import LANES
from tests.conformance.arenas.arena import parameters
from tests.conformance.budgets.comparison import compared
from tests.helpers.openings import COUNT, KINDS, THRESHOLDS, record_openings, uniform_p_value
from tests.helpers.strategies import ALARM
from tests.helpers.toy_ext.ring import ToyRing

TASK = "tests.helpers.{}_tasks.openings:opened"
BLOCKS = 4 + (1 + 4) + 3 + 1 + 3 * compared(LANES * COUNT, THRESHOLDS).converted // COUNT
"""Openings of the blocks, COUNT words each: of truncations, a decomposition, a suffix-or, a
conversion, a comparison and two selections. A host may add those of products."""

Open = Callable[[str], Integers]


OURS = parameters(["toy", "crypten-2", "crypten-3", "aby3"])
OTHER_PROVIDER = "crypten-2-other-provider"
FOUND_LATER = [pytest.param(host, marks=pytest.mark.long) for host in ("crypten-2", OTHER_PROVIDER)]
MPC = parameters(["crypten-3", "aby3"])
"""Hosts of which each has words of its own that are dealt, and might not be masked."""


@pytest.fixture(params=[*OURS, *parameters([OTHER_PROVIDER])])
def open_words(request: pytest.FixtureRequest) -> Open:
    host, *rest = request.param.split("-")
    if host == "toy":
        return _open_toy
    if host == "aby3":
        process = request.getfixturevalue("tfe_process")
        return lambda kind: np.array(process.run(TASK.format("tfe"), unmasked=kind))
    pools, parties = request.getfixturevalue("pools"), int(rest[0])
    options = {"alias": "another"} if rest[1:] else {}
    return lambda kind: pools.run(parties, TASK.format("party"), unmasked=kind, **options)[0]


def _open_toy(kind: str) -> Integers:
    ring = ToyRing(20, parties=2)
    opened = record_openings(ring, ring.share(np.zeros(COUNT, dtype=np.int64)), kind)
    return np.concatenate([words.reshape(-1, COUNT) for words in opened])


def test_every_opened_word_is_masked(open_words: Open):
    words = open_words("")
    assert len(words) >= BLOCKS
    assert uniform_p_value(words) > ALARM


@pytest.mark.parametrize("open_words", [*parameters(["toy"]), *MPC, *FOUND_LATER], indirect=True)
@pytest.mark.parametrize("kind", KINDS)
def test_words_that_are_not_masked_are_found(open_words: Open, kind: str):
    assert uniform_p_value(open_words(kind)) < ALARM


@pytest.mark.parametrize("open_words", [*MPC, FOUND_LATER[0]], indirect=True)
@pytest.mark.parametrize("kind", JOINTS)
def test_words_that_are_dealt_jointly_and_not_masked_are_found(open_words: Open, kind: str):
    assert uniform_p_value(open_words(kind)) < ALARM
