"""What a run says that its parties sent and received is what their connections carry.

In CrypTen the product reads the kernel's count, which is held to what was opened: each party sends
a small opening to every other one, and its part of a large one in two steps. In ABY3 it counts the
graph's tensors, and the kernel tells what the servers' processes sent.
"""

import math
import sys
from pathlib import Path
from typing import Any

import pytest

from crypten_ext.ring.exchange import DIRECT_BYTES
from extensions.layers.activations import sigmoid
from extensions.protocols.clipping import ClipPlan
from extensions.protocols.inverse_sqrt import InverseSqrtPlan
from tests.conformance.arenas.arena import ABY3Arena, CrypTenArena
from tests.conftest import Pools
from tests.helpers.players import SERVERS, Players
from tests.helpers.strategies import MODELS, plan_of
from tests.helpers.tfe_process import TFEProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads what the kernel counted")

F, FEATURES, CLASSES, CANDIDATES = 16, 6, 4, 3
FEW, MANY = 10, 20_000
SMALL = 12_000
"""Bytes that gRPC adds to some forty tensors, whatever their size."""
Protocol = tuple[list[tuple[int, ...]], dict[str, Any]]


def protocols(parties: int, n: int) -> dict[str, Protocol]:
    """Returns the shapes and options of each recipe, on n values or rows."""
    options = {"rows": n, "expected_batch_size": 0.75 * n, "noise_multiplier": 1.1}
    plan = plan_of(MODELS["linear"], parties=parties, **options)
    x, targets, square = (n, FEATURES), (n, CLASSES), (math.isqrt(n), math.isqrt(n))
    logits = (max(FEW, n // 4), CLASSES)
    layer = [(CLASSES, FEATURES), (CLASSES,)]
    stacked = [(CANDIDATES, *shape) for shape in layer]
    start: dict[str, Any] = {"strategy": "local-accuracy", "records": [5] * CANDIDATES}
    return {
        "noise": ([(n,)], {"scale": [3.0], "seed": 1}),
        "products": ([square, square], {}),
        "truncate": ([(n,)], {"shifts": [1, 16, 62]}),
        "less_than": ([(n,)], {"thresholds": [0]}),
        "bits": ([(n,)], {"positions": range(64)}),
        "inverse_sqrt": ([(n,)], {"plan": InverseSqrtPlan(frac_bits=F)}),
        "paper_inverse_sqrt": ([(n,)], {"width": 40}),
        "clip_factor": ([(n,)], {"plan": ClipPlan(frac_bits=F)}),
        "clip_by_norm": ([x], {"max_norm": 1.0, "plan": ClipPlan(frac_bits=F)}),
        "activate": ([(n,)], {"function": sigmoid()}),
        "probabilities": ([logits], {}),
        "tallied": ([logits, logits], {"loss": "sigmoid"}),
        "model_gradients": ([x, targets, *layer], {}),
        "dpsgd_step": ([x, targets], {"plan": plan, "seed": 1}),
        "initialize": ([x, targets, *stacked, *layer], start),
    }


def messaging(*usual: str) -> list[Any]:
    """Returns the names of all that send as parameters, those long that are not usual."""
    return [
        pytest.param(name, marks=[] if name in usual else pytest.mark.long)
        for name in protocols(3, FEW)
        if name != "noise"
    ]


def in_crypten(pools: Pools, parties: int, name: str, n: int) -> list[dict[str, Any]]:
    shapes, options = protocols(parties, n)[name]
    arena = CrypTenArena(parties, pools)
    return arena.run("wire", recipe=name, shapes=shapes, frac_bits=F, options=options)


def sent(opening: int, parties: int, header: float) -> float:
    """Returns the bytes that a party sends of an opening."""
    if opening <= DIRECT_BYTES:
        return (parties - 1) * (opening + header)
    return 2 * (parties - 1) / parties * opening


@pytest.mark.parametrize("parties", [3, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 5))])
def test_crypten_sends_its_openings_and_their_headers(pools: Pools, parties: int):
    """Headers are those of an opening of one word, and equal at every party.

    Who begins first may have sent its part of the first opening before others begin to count.
    """
    (one, *_) = in_crypten(pools, parties, "truncate", 1)
    (opening,) = one["openings"]
    header = one["sent"] / (parties - 1) - opening
    assert 0 < header < 400
    for name in protocols(parties, FEW):
        found = in_crypten(pools, parties, name, FEW)
        for party in found:
            expected = sum(sent(each, parties, header) for each in party["openings"])
            assert party["sent"] == expected, name
            assert (expected == 0) == (name == "noise")
        columns = zip(*(party["all"] for party in found), strict=True)
        out, into, dealt = map(sum, columns)
        largest = max((each for party in found for each in party["openings"]), default=0)
        late = parties * (parties - 1) * (largest + header)
        assert abs(out - into) <= late, name
        assert dealt == 0


@pytest.mark.parametrize("parties", [3, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 5))])
@pytest.mark.parametrize("name", messaging("less_than", "inverse_sqrt", "dpsgd_step"))
def test_crypten_sends_many_words_in_two_steps(pools: Pools, parties: int, name: str):
    """Who begins or ends first may have received a part of an opening more or less than counted."""
    found = in_crypten(pools, parties, name, MANY)
    for party in found:
        assert max(party["openings"]) > DIRECT_BYTES
        expected = sum(sent(each, parties, 0.0) for each in party["openings"])
        assert party["sent"] == pytest.approx(expected, rel=0.01)
        late = sent(max(party["openings"]), parties, 0.0)
        assert party["all"][1] == pytest.approx(expected, rel=0.01, abs=late)


@pytest.mark.parametrize("name", messaging("inverse_sqrt"))
def test_abys_servers_send_what_their_graph_says(
    players: tuple[Path, Players], tfe_players: TFEProcess, name: str
):
    """Tensors alone are counted, beside which little is what gRPC says of them."""
    shapes, options = protocols(3, MANY)[name]
    _, (_, processes) = players
    found = ABY3Arena(tfe_players).run(
        "wire",
        recipe=name,
        shapes=shapes,
        frac_bits=F,
        options=options,
        pids=[processes[server] for server in SERVERS],
    )
    for counted, carried in found:
        assert carried == pytest.approx(counted, rel=0.01, abs=SMALL)
