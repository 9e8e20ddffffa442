"""What each owner does alone before a joint run: a private model of its own records."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from extensions.layers.linear_layers import parameter_norm
from extensions.layers.passes import Parameters
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import InsecureSeededSource
from extensions.privacy.sampling import OwnRecords
from extensions.protocols import pea
from extensions.protocols.initialization import MAX_NORM
from extensions.protocols.noisy_sums.additive.training import account_for_counts
from extensions.protocols.noisy_sums.whitening import account_for_whitening
from extensions.protocols.optimizer import State
from extensions.protocols.records import Records
from extensions.protocols.settings import account
from extensions.protocols.step import Step
from extensions.ring.fixed_point import Integers, Reals, decode, encode
from extensions.ring.interface import NoiseSource
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig

PHASE = "local training"
_FIRST_STREAM = 64


class _OwnStreams:
    """Draws of one owner's local training, apart from those of the joint run."""

    def __init__(self, source: NoiseSource, owner: int) -> None:
        self._source = source
        self._party = _FIRST_STREAM + owner

    def gaussian(self, party: int, scale: float, shape: tuple[int, ...]) -> Integers:
        return self._source.gaussian(self._party, scale, shape)

    def bernoulli(self, party: int, probability: float, size: int) -> npt.NDArray[np.bool_]:
        return self._source.bernoulli(self._party, probability, size)


_OF_ALL = (
    *("colluders", "dealer_noise", "epsilon", "whiten", "whiten_share", "whiten_ridge"),
    *("noise_multiplier_whiten", "init", "init_steps", "init_lr", "init_weighting"),
    *("epsilon_init", "noise_multiplier_init"),
)
"""Settings that say nothing of one owner's run."""


def local_settings(config: TrainConfig) -> TrainConfig:
    """Returns the settings of one owner's run: DPSGD by one party, which draws the whole noise."""
    return replace(
        config,
        **{name: getattr(TrainConfig, name) for name in _OF_ALL},
        backend="clear",
        parties=1,
        steps=config.local_steps,
        lr=config.init_lr or config.lr / config.parties,
        noise_multiplier=config.noise_multiplier_init,
    )


def train_locally(
    config: TrainConfig,
    own: OwnRecords,
    *,
    owner: int,
    source: NoiseSource,
    steps: int | None = None,
) -> list[tuple[Reals, Reals]]:
    """Returns the weights and biases that one owner's DPSGD reaches on its own records.

    A layer whose norm is above `MAX_NORM` is scaled down to it. `steps` of a rehearsal take the
    place of `init_steps`.

    Guarantees:
        The result is (epsilon_init, delta)-differentially private for the owner's records whoever
        sees it, the other parties together included: the noise is sigma in full, and nobody but the
        owner knows a part of it. A record touches one owner's model only, so that all local models
        together cost a record no more than one.
    """
    settings = local_settings(config)
    if steps is not None:
        settings = replace(settings, steps=min(steps, settings.steps))
    spec = config.spec(own.features.shape[1])
    f = config.frac_bits
    start = [(encode(w, f), encode(b, f)) for w, b in spec.initial_parameters()]
    streams = _OwnStreams(source, owner)
    coins = None
    if isinstance(source, InsecureSeededSource):
        coins = source.rounding(_FIRST_STREAM + owner)
    reached = descend(settings, [own], start, streams, coins=coins)
    return [_bounded(decode(w, f), decode(b, f)) for w, b in reached]


def descend(
    config: TrainConfig,
    records: Sequence[OwnRecords],
    parameters: Parameters,
    source: NoiseSource,
    *,
    coins: np.random.Generator | None = None,
) -> Parameters:
    """Returns what plaintext DPSGD reaches on records, with a secure run's arithmetic.

    The config's `parties` decides over how many draws the noise is summed. Parameters are ring
    integers; coins are of rounding, by default fresh.
    """
    host = ClearHost(
        config.frac_bits, parties=config.parties, owners=len(records), source=source, coins=coins
    )
    own = Records.agreed(host.exchange, records)
    begun = State.begin(host, config, parameters)
    step = Step.of(config, own)
    return pea.descend(step, host, own, begun, Ledger(), pea.RunCallbacks(host))


def account_for_start(ledger: Ledger, config: TrainConfig) -> None:
    """Records what everything before the joint steps costs each record, beside these."""
    account_for_whitening(ledger, config)
    account_for_counts(ledger, config)
    if config.strategy is not None:
        account_for_local_training(ledger, config)


def account_for_local_training(ledger: Ledger, config: TrainConfig) -> None:
    """Records what the local models cost each record, beside what the joint run will cost."""
    settings = local_settings(config)
    account(ledger, PHASE, settings, settings.steps)


def _bounded(weight: Reals, bias: Reals) -> tuple[Reals, Reals]:
    norm = parameter_norm(weight, bias)
    factor = min(1.0, MAX_NORM / norm) if norm else 1.0
    return factor * weight, factor * bias
