"""What the parties of test_standing.py multiply, send and open."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from crypten_ext.dealer import corrected_bytes
from crypten_ext.processes.meter import Meter
from crypten_ext.processes.worker import Context
from crypten_ext.ring.crypten_ring import CrypTenRing
from crypten_ext.ring.exchange import is_leader, open_sum
from crypten_ext.ring.standing import Standing
from crypten_ext.run.forecast_host import step_cost
from crypten_ext.run.host import CrypTenHost
from extensions.privacy.randomness import SystemSource
from extensions.privacy.sampling import OwnRecords, check_records
from extensions.protocols.host import share_public
from extensions.protocols.optimizer import State
from extensions.protocols.pea import public_start
from extensions.protocols.records import Records
from extensions.protocols.step import Step
from extensions.ring.fixed_point import Integers
from extensions.runs.config import TrainConfig
from tests.helpers.openings import COUNT, noting
from tests.helpers.party_tasks.dealer import use

import crypten
from crypten import communicator

INPUTS, OUTPUTS = 5, 3
STEPS = 3


def shared(value: Integers) -> torch.Tensor:
    """Returns a share of what party 0 knows."""
    return torch.from_numpy(value if is_leader() else np.zeros_like(value))


def products(
    context: Context, *, provider: str, sizes: list[int], by_columns: bool
) -> dict[str, list[Any]]:
    """Returns of products of a standing matrix whether each is right, and what it took."""
    use(provider)
    draws, rank = np.random.default_rng(4), context.rank

    def drawn(*shape: int) -> Integers:
        return draws.integers(-(2**63), 2**63, shape, dtype=np.int64)

    rows, inputs = (INPUTS, sum(sizes)) if by_columns else (sum(sizes), INPUTS)
    x, at = drawn(rows, inputs), slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    own = (x[:, at] if by_columns else x[at]).copy()
    factor, ring = Standing(own, sizes, by_columns=by_columns), CrypTenRing(16)
    own[:] = 0  # whoever changes records afterwards changes nothing that was masked
    found: dict[str, list[Any]] = {}
    for name, left, right in (
        ("x w", None, drawn(inputs, OUTPUTS)),
        ("d x", drawn(OUTPUTS, rows), None),
        ("x w again", None, drawn(inputs, OUTPUTS)),
        ("x w, one column", None, drawn(inputs, 1)),
        ("d x again", drawn(OUTPUTS, rows), None),
    ):
        expected = left @ x if right is None else x @ right
        pair = (factor, shared(right)) if left is None else (shared(left), factor)
        communicator.get().reset_communication_stats()
        dealt = corrected_bytes()
        with crypten.cfg.temp_override({"communicator.verbose": True}):
            (result,) = ring.matmul([pair])
        cost = communicator.get().get_communication_stats()
        (opened,) = open_sum([result])
        right_ = np.array_equal(opened.numpy(), expected)
        found[name] = [right_, cost["rounds"], cost["bytes"], corrected_bytes() - dealt]
    assert tuple(factor.shape) == (rows, inputs)
    (whole,) = open_sum([factor.share])
    found["share"] = [np.array_equal(whole.numpy(), x)]
    return found


def seen(
    context: Context, *, count: int, fault: str, by_columns: bool = False
) -> tuple[Integers, Integers]:
    """Returns what is sent once of two matrices of zeros, and what their products open, in words.

    Each takes part in two products x w and d x of zeros, beside a step that was refused.

    Args:
        context: this party's.
        count: rows of each party.
        fault: "": none; "mask": one A for both; "fresh": one b and one c for both products.
        by_columns: how the matrices are divided.
    """
    source: Any = use("DEALER")
    sent: list[torch.Tensor] = []
    opened: list[torch.Tensor] = []
    restore = _faulty(type(source), fault)
    ring, parties = CrypTenRing(16), context.world_size
    ring.open_sum = noting(ring.open_sum, opened)  # type: ignore[method-assign]
    shape = (1, count) if by_columns else (count, 1)
    total = (1, count * parties) if by_columns else (count * parties, 1)
    w, d = torch.zeros((total[1], 1), dtype=torch.int64), torch.zeros((1, total[0]))
    try:
        for _ in range(2):
            x = Standing(np.zeros(shape, dtype=np.int64), [count] * parties, by_columns=by_columns)
            x.times(w, source)  # a step that goes no further
            for _ in range(2):
                ring.matmul([(x, w)])
                ring.matmul([(d.long(), x)])
            sent.append(x._all())
    finally:
        restore()
    wide = [words for words in opened if words.numel() == count * parties]
    return tuple(  # type: ignore[return-value]
        torch.stack(words).reshape(-1, COUNT).numpy() for words in (sent, wide)
    )


def _faulty(provider: Any, fault: str) -> Callable[[], None]:
    """Breaks a rule, and returns what mends it."""
    stand, deal = provider.stand, provider.deal_standing
    kept: dict[Any, Any] = {}
    if fault == "mask":
        provider.stand = lambda self, rows, own: kept.setdefault("A", stand(self, rows, own))
    elif fault == "fresh":

        def again(self: Any, *given: Any, is_left: bool) -> Any:
            name = is_left, *given[:1]
            if name not in kept:
                kept[name] = deal(self, *given, is_left=is_left)
            return [words.clone() for words in kept[name]]

        provider.deal_standing = again

    def restore() -> None:
        provider.stand, provider.deal_standing = stand, deal

    return restore


def run_of_steps(
    context: Context, *, records: int, features: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """Returns what steps on all records take, of which each party has equally many.

    Of each these are rounds, bytes that this party sends and receives, two barriers included, and
    bytes dealt to all parties; `planned` is the forecast.
    """
    use("DEALER")
    config = TrainConfig(parties=context.world_size, sample_rate=1.0, **settings)
    draws = np.random.default_rng(context.rank)
    x = draws.standard_normal((records, features))
    x /= 1.001 * np.linalg.norm(x, axis=1, keepdims=True)
    y = draws.integers(0, config.classes, records)
    given = {"frac_bits": config.frac_bits, "classes": config.outputs, "max_feature_norm": 1.0}
    own = check_records(x, y, **given)  # type: ignore[arg-type]
    every = Records([own], (records,) * context.world_size, features)
    step, host = Step.of(config, every), CrypTenHost(config.frac_bits, SystemSource())
    model = share_public(host, public_start(config, features))
    parts, sampled = State.begin(host, config, model).parts, step.sampled(host, every)
    host.begin("00")
    host.prefetch(STEPS, step.network.widths[1])
    world, meter, found = communicator.get(), Meter(), []
    for number in range(1, STEPS + 1):
        before, dealt = meter.read(), corrected_bytes()
        world.barrier()  # nobody sends to one who does not count yet
        parts = sampled(parts, *step.public(number))
        world.barrier()
        took = meter.read().plus(before, times=-1)
        found.append([took.rounds, took.carried[0].bytes, corrected_bytes() - dealt])
    planned = step_cost(step, every) if context.rank == 0 else None
    return {
        "first": found[0],
        "each": found[1:],
        "planned": None if planned is None else planned._asdict(),
    }


def batches(context: Context, *, count: int, pieces: int) -> Integers:
    """Returns what is sent of zeros in two runs on them, in words of `count` a piece and party."""
    use("DEALER")
    host, rows = CrypTenHost(16, SystemSource()), [count * pieces] * context.world_size
    own = OwnRecords.none(1, 1, 16)
    zeros = np.zeros((rows[0], 1), dtype=np.int64)
    placed = host.place([replace(own, features=zeros, labels=zeros)])
    w, sent = torch.zeros((1, 1), dtype=torch.int64), []
    host.prefetch(1, 1)
    for _ in range(2):
        for batch in host.standing(placed, rows, pieces) or ():
            host.ring.matmul([(batch.x, w)])
            sent.append(batch.x._all().reshape(-1, count))
    return torch.cat(sent).numpy()
