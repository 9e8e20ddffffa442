"""Protocol 5: private, efficient and accurate training on the records of several owners.

Numbers at the right margin are lines of the paper's protocols: 5.2 is line 2 of Protocol 5.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from extensions.errors import ArgumentError
from extensions.layers.linear_layers import parameter_norm
from extensions.layers.passes import Parameters
from extensions.privacy.accounting import Ledger
from extensions.privacy.sampling import OwnRecords
from extensions.protocols.dpsgd_plan import INITIAL_WEIGHT_SHARE
from extensions.protocols.drift import check_start
from extensions.protocols.host import Arrays, Host, SumOf, flat, pairs, share_public
from extensions.protocols.initialization import (
    average,
    best,
    candidates,
    counts_of,
    misses,
    number_of_candidates,
)
from extensions.protocols.optimizer import TOTAL, State
from extensions.protocols.records import Records, blocks_for, exchange_public
from extensions.protocols.settings import TRAINING, Training, account
from extensions.protocols.step import Step
from extensions.public import Public
from extensions.ring.fixed_point import Integers, encode
from extensions.ring.interface import Share

Summands = Callable[[], Sequence[Sequence[Integers]]]
Begun = tuple[State, Ledger] | None
"""What a run goes on from: its model, and what that cost."""


@dataclass(frozen=True)
class LocalData:
    """What a program has of its owners.

    Attributes:
        train: features to train on, of each rank of the host, extracted by their owner alone.
        held_out: likewise, to compare models on.
        problem: what is wrong with one of them, which are empty then; None if nothing is.
        learn: trains a model by DPSGD on one owner's records, given its rank and them, and returns
            it as `extensions.protocols.initialization.encode_model` does.
        account: enters into a ledger what everything before the joint steps costs a record.
    """

    train: Sequence[OwnRecords]
    held_out: Sequence[OwnRecords]
    problem: ArgumentError | None
    learn: Callable[[int, OwnRecords], Arrays]
    account: Callable[[Ledger], None]


class RunCallbacks:
    """Callbacks of a run. This class does nothing; others show progress or write checkpoints.

    Attributes:
        facts: everything public of the run, by name, that must be equal at all parties.
    """

    facts: Mapping[str, Any] = {}

    def __init__(self, host: Host) -> None:
        self._host = host

    def resume(self) -> Begun:
        """Returns the state of a run that goes on, and what it cost; None for a new run."""
        return None

    def steps(self, config: Training) -> range:
        """Returns the numbers of the steps that are to be made."""
        return range(1, config.steps + 1)

    def begin(self, records: Records) -> None:
        """Takes note that steps begin on these records."""
        return

    def open(self, name: str, compute: Summands) -> list[Integers]:
        """Returns to every party a release on the way: what the holders' words add up to.

        Args:
            name: of the release, which no other in the run has.
            compute: returns, for each of the host's holders, its summand of each value. It is
                called once in a run, however often that is interrupted: what was computed first is
                what is opened again.
        """
        return self._host.open(self.keep(name, compute))

    def keep(self, name: str, compute: Summands) -> Sequence[Sequence[Integers]]:
        """Returns what `open` would open, where every holder keeps its own words to itself."""
        return compute()

    def __call__(self, step: int, state: State, ledger: Ledger) -> None:
        """Takes the state after so many steps; 0 is the start of a new run."""
        return


@dataclass(frozen=True)
class Algorithm:
    """How a run gets from its start to the trained model; its bounds are proven.

    Attributes:
        step: which it makes; None if it makes none.
        descend: returns the model that it ends with; takes the account, and is followed.
        terms: what is public of an additive model beside its weights, by name, once it is there.
    """

    step: Step | None
    descend: Callable[[Host, Records, State, Ledger, RunCallbacks], Parameters]
    terms: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)


def train(
    host: Host,
    config: Training,
    own: LocalData,
    records: Records,
    algorithm: Algorithm,
    begun: Begun,
    callbacks: RunCallbacks,
) -> tuple[Parameters, Ledger]:
    """Returns shares of the trained model, and the account of what it cost the records.

    Args:
        records: on which all parties have agreed (5.1).
        begun: model and account of a run that goes on; None for a new run.

    Guarantees:
        Nothing is opened. The model is differentially private for every record, as the ledger
        composes local models and joint steps.

    Cost:
        That of `start`, and that of the algorithm.

    Source:
        Ruan et al., S&P 2023, Protocol 5.

    Deviation:
        Records are shared once and for all (line 3) only with a sampling rate of 1. Else every
        owner draws its sample of each step in private, and shares it in a public number of rows.
    """
    if begun is None:
        model, ledger = start(host, config, own, records)  # 5.2
        begun = State.begin(host, config, model), ledger
        callbacks(0, *begun)
    state, ledger = begun
    model = algorithm.descend(host, records, state, ledger, callbacks)  # 5.3, 5.4
    if model[-1][1].shape[0] != config.classes:  # of two, one is the other's negative
        model = host.with_both_classes(model)
    return model, ledger


def start(
    host: Host, config: Training, own: LocalData, records: Records
) -> tuple[Parameters, Ledger]:
    """Returns shares of the model that joint training starts from, and what that cost.

    Cost:
        None for a public start. From local models two rounds to agree, and those of
        `extensions.protocols.initialization.initialize`, whose pass is made for each block of
        held-out records that memory holds.

    Source:
        Ruan et al., S&P 2023, Protocol 4.

    Deviation:
        The public start, from which local training starts too, takes the place of a random one.

    Raises:
        ArgumentError: in every party: held-out records or a local model that do not fit.
    """
    ledger = Ledger()
    own.account(ledger)
    model = share_public(host, public_start(config, records.features))  # 4.3
    if config.strategy is None:
        return model, ledger
    strategy = config.strategy
    learnt = _learnt(host, own, records)  # 4.1
    tried = Records.agreed(host.exchange, own.held_out)
    if strategy != "local-average" and not sum(tried.sizes):
        allowed = "'local-average', or a public start, without held-out records"
        raise ArgumentError("init", strategy, allowed, code="choice")
    local = host.place(learnt)

    def shared() -> Parameters:
        return pairs(host.share_rows([1] * len(records.sizes), local))  # 4.2

    if strategy != "local-average":
        return _chosen(host, config, model, shared, records, tried), ledger
    counts = counts_of(records.sizes, config.init_weighting)
    return host.compile(lambda _: average(host.ring, shared(), counts))(model), ledger


def _chosen(
    host: Host,
    config: Training,
    start: Parameters,
    shared: Callable[[], Parameters],
    records: Records,
    tried: Records,
) -> Parameters:
    """Returns the best of stacked local models and of the public start, as tried (4.4-4.12)."""
    ring, network, sizes = host.ring, config.network(records.features), records.sizes
    assert config.strategy is not None
    of, weighting = config.strategy, config.init_weighting

    def stacked(start: Parameters) -> list[Share]:
        return flat(candidates(ring, of, shared(), sizes, start=start, weighting=weighting))

    models = host.reshared(host.summands(start, stacked))
    number = number_of_candidates(of, len(sizes))
    sum_of = SumOf(
        size=number,
        count=lambda models, batch: misses(ring, models, batch.x, batch.y, network),
        finish=lambda models, found: flat(best(ring, models, found)),
    )
    comparisons = number * max(network.comparisons, network.widths[-1])
    blocks = blocks_for(tried.sizes, tried.features, comparisons)
    return host.reshared(host.total(models, tried.own, tried.sizes, blocks, sum_of))


def descend(
    step: Step, host: Host, records: Records, state: State, ledger: Ledger, callbacks: RunCallbacks
) -> Parameters:
    """Returns the model after all steps of secure DPSGD; nobody sees it.

    Source:
        Ruan et al., S&P 2023, Protocol 3.

    Deviation:
        Momentum, falling rates and the mean of iterates are post-processing of noisy sums: neither
        epsilon nor rounds depend on them, but for one round at the end with a mean. So is Adam,
        whose rounds are those of `adam_step`. Rows may be computed in several pieces, one after the
        other, whose clipped sums add up before the noise: memory is that of one, and rounds are
        those of all.
    """
    config = step.config
    compiled, parts = host.compile(step.sampled(host, records)), state.parts
    callbacks.begin(records)
    steps, network = callbacks.steps(config), step.network
    host.prefetch(len(steps), network.widths[1] if network.is_dense else None)
    for number in steps:  # 3.3
        parts = compiled(parts, *step.public(number))
        state = State.of(parts, config)
        account(ledger, TRAINING, config, 1, host.noise_failure(step.plan.parameters))
        callbacks(number, state, ledger)
    if TOTAL not in state:
        return state.model

    def finish(parts: Parameters) -> Parameters:
        last = State.of(parts, config)
        step.mean.finish(host.ring, last)
        return last.parts

    return State.of(host.compile(finish)(state.parts), config).model


def public_start(config: Training, features: int) -> list[Integers]:
    """Returns each weight and bias of the public start in turn."""
    pairs = config.spec(features).initial_parameters(config.public_init)
    if config.private and len(pairs) > 1:
        bound = config.max_weight_norm
        most = INITIAL_WEIGHT_SHARE * bound
        norms = {f"layer {i}": parameter_norm(*layer) for i, layer in enumerate(pairs)}
        check_start({name: norm <= most for name, norm in norms.items()}, bound, name="init")
    return [encode(part, config.frac_bits) for pair in pairs for part in pair]


def _learnt(host: Host, own: LocalData, records: Records) -> list[Arrays]:
    """The local models as ring integers, once all parties have one that fits; one round."""
    local, problem = [], None
    try:
        local = [own.learn(rank, each) for rank, each in zip(host.ranks, records.own, strict=True)]
    except ArgumentError as error:
        problem = error
    sizes = [Public(records=records.sizes[rank]) for rank in host.ranks]
    exchange_public(host.exchange, sizes, problem=problem)
    return local
