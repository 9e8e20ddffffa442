"""DPSGD whose model is public after each step: owners compute alone, and open their noisy sum.

It is Protocol 3's mechanism, whose account pays for every iterate anyway, on records that never
leave their owners, in any form. What is given up is that nobody sees the model meanwhile.
"""

from collections.abc import Callable
from functools import partial

from extensions.layers.passes import Parameters
from extensions.privacy.accounting import Ledger
from extensions.privacy.sampling import draw_rows, row_blocks
from extensions.protocols.dpsgd import paired, parts_of
from extensions.protocols.host import Host, flat, pairs, share_public
from extensions.protocols.noisy_sums.noisy_sum import noisy_sum
from extensions.protocols.optimizer import TOTAL, State
from extensions.protocols.pea import RunCallbacks
from extensions.protocols.records import Records
from extensions.protocols.settings import TRAINING, account
from extensions.protocols.step import Step
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Integers

_AT_ONCE = 1 << 18
"""Words of features whose gradients are computed at once: in a cache of the processor."""


def descend_openly(
    step: Step, host: Host, records: Records, state: State, ledger: Ledger, callbacks: RunCallbacks
) -> Parameters:
    """Returns the model after all steps; every iterate is public.

    Args:
        state: that steps go on from, which is public: it is opened first.
        callbacks: of the run, which has the opened sums ``step-1``, ``step-2`` ... if it goes on.

    Guarantees:
        Each owner draws its sample in private, computes on a public number of rows, and adds its
        summand of the noise before anything leaves it. What is opened is the sum of Protocol 3,
        with its bound of one record's part and its noise; all else follows from what is opened, by
        integer arithmetic that rounds down, and is equal bit for bit at all parties. Against all
        other parties together an owner has its own summand of the noise alone, of the variance
        `extensions.protocols.noise.party_variance`.

    Cost:
        No tuple. A round for the start, and one a step, in which an owner sends each weight and
        bias, 8 bytes, to each other party; a gradient of all its rows in the clear.

    Source:
        Ruan et al., S&P 2023, Protocol 3, for owners that have their records in the clear.
    """
    config, plan = step.config, step.plan
    ring = ClearRing(plan.frac_bits, parties=plan.parties, rounding="floor")
    sums_of = _owners(host, records, ring, step)
    state = state.like(pairs(host.open(host.summands(state.parts))))
    callbacks.begin(records)
    for number in callbacks.steps(config):
        opened = noisy_sum(
            host,
            callbacks,
            f"step-{number}",
            partial(sums_of, state.model),
            [plan.sigma] * len(plan.parts),
            frac_bits=plan.frac_bits + plan.factor_bits,
            split=config,
        )
        step.after(ring, paired(opened, plan), state, step.public(number))
        account(ledger, TRAINING, config, 1)
        callbacks(number, state.like(share_public(host, flat(state.parts))), ledger)
    if TOTAL in state:
        step.mean.finish(ring, state)
    return share_public(host, flat(state.model))


def _owners(
    host: Host, records: Records, ring: ClearRing, step: Step
) -> Callable[[Parameters, int], list[Integers]]:
    """Returns what finds the clipped gradient sums of an owner, given the model and its rank.

    They are computed with the plan of all owners' rows, for whose sum its bounds hold. The rows
    whose gradients an owner computes are as many as its public number, whoever was drawn.
    """
    config = step.config
    rows = records.rows(config)
    own = dict(zip(host.ranks, records.own, strict=True))

    def sums(values: Parameters, rank: int) -> list[Integers]:
        drawn = draw_rows(
            own[rank],
            party=rank,
            sample_rate=config.sample_rate,
            rows=rows[rank],
            source=host.noise,
        )
        blocks = [*row_blocks(drawn.x.shape, _AT_ONCE)] or [slice(0)]
        each = [parts_of(step.clipped(ring, values, drawn.part(block))) for block in blocks]
        return [sum(parts[1:], parts[0]) for parts in zip(*each, strict=True)]

    return sums
