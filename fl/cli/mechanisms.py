"""The mechanism that the options of `pea fl` ask for, and what its epsilon protects from whom."""

import copy
from typing import Any

from extensions.errors import ArgumentError
from extensions.privacy.accounting import calibrate_noise
from fl.cli.choices import arguments_of, as_options
from fl.cli.options import Privacy, Training
from fl.privacy.adaptive_clipping import AdaptiveClipping
from fl.privacy.central_dp import CentralDP
from fl.privacy.local_dp import LocalDP
from fl.privacy.mechanism import Mechanism
from fl.privacy.signds import SignDS
from fl.round.aggregator import Aggregator
from fl.round.machines import Round
from fl.round.quantization import FixedPoint
from fl.training.settings import RunSettings

CLIP = 1.0
FRAC_BITS = 24
"""Of the grid of central-dp, where the aggregator has no fewer."""

_OWNERS = {
    "none": (),
    "local-dp": ("epsilon", "delta", "clip", "noise"),
    "central-dp": (
        *("epsilon", "delta", "clip", "noise_multiplier"),
        *("sampling", "adaptive_clipping", "count_noise"),
    ),
    "sign-ds": ("sign_k", "sign_eps", "sign_thr_ratio", "sign_global_lr", "sign_dim_out"),
}
_EVERYBODY = "each client's updates in all its rounds, from everybody, the server included"
_PROTECTS = {
    "local-dp": _EVERYBODY,
    "central-dp": "each client as a whole, from those who see models alone, not from the server",
    "sign-ds": _EVERYBODY,
}


def mechanism_of(options: Privacy, aggregator: Aggregator, training: Training) -> Mechanism:
    """Returns the mechanism, with the noise that a target epsilon of central-dp takes.

    Raises:
        ArgumentError: no such mechanism, an option of another one, or one out of range.
    """
    arguments = arguments_of("mechanism", _OWNERS, vars(options))
    match options.mechanism:
        case "local-dp":
            return _local(**{"clip": CLIP, **arguments})
        case "central-dp":
            return _central(aggregator, training, **{"clip": CLIP, **arguments})
        case "sign-ds":
            return SignDS(**arguments)
        case _:
            return Mechanism()


def _local(**arguments: Any) -> LocalDP:
    pure = arguments.get("noise") == "laplace"
    for option in ("epsilon",) if pure else ("epsilon", "delta"):
        if option not in arguments:
            raise ArgumentError(option, None, "given, of one update, with --mechanism local-dp")
    return LocalDP(**arguments)


def _central(
    aggregator: Aggregator,
    training: Training,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    adaptive_clipping: float | None = None,
    count_noise: float | None = None,
    **arguments: Any,
) -> CentralDP:
    if delta is None:
        raise ArgumentError("delta", None, "given, of all rounds, with --mechanism central-dp")
    if not 0.0 < delta < 1.0:
        raise ArgumentError("delta", delta, "in (0, 1)", "Below 1 / clients is usual.")
    if (epsilon is None) == (noise_multiplier is None):
        both = (epsilon, noise_multiplier)
        raise ArgumentError("epsilon, noise_multiplier", both, "exactly one of them given")
    if count_noise is not None and adaptive_clipping is None:
        raise ArgumentError("count_noise", count_noise, "left out without --adaptive-clipping")
    if epsilon is not None:
        assert training.client_fraction is not None
        with as_options(sample_rate="client_fraction"):
            noise_multiplier = calibrate_noise(
                epsilon=epsilon,
                delta=delta,
                sample_rate=1.0
                if arguments.get("sampling") == "fixed"
                else training.client_fraction,
                steps=training.rounds,
            )
    assert noise_multiplier is not None
    if adaptive_clipping is not None:
        with as_options(quantile="adaptive_clipping"):
            arguments["adaptive"] = AdaptiveClipping(
                quantile=adaptive_clipping, count_noise=count_noise
            )
    grid = aggregator.fixed_point or FixedPoint(frac_bits=FRAC_BITS)
    return CentralDP(
        noise_multiplier=noise_multiplier,
        min_clients=max(2, aggregator.min_clients),
        frac_bits=min(FRAC_BITS, grid.frac_bits),
        **arguments,
    )


def check_size(run: RunSettings, size: int, clients: int) -> None:
    """Returns only if rounds of a model of that many parameters can be charged.

    Raises:
        ArgumentError: the mechanism does not fit the model or the number of clients.
    """
    trial = copy.deepcopy(run.mechanism)
    selected = trial.select(1, clients, run.client_fraction) or range(run.selected(clients))
    trial.charge(Round(number=1, size=size, weights=dict.fromkeys(selected, 1)), clients)


def protection(name: str, mechanism: Mechanism) -> str | None:
    """Returns what the epsilon of all rounds protects, and from whom; None: there is none."""
    if isinstance(mechanism, CentralDP) and mechanism.sampling == "poisson":
        return f"{_PROTECTS[name]}, nor from those who learn who took part"
    return _PROTECTS.get(name)
