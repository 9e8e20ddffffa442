"""The mechanism that the options of `pea fl` ask for, and what its epsilon protects from whom."""

import copy
from typing import Any

from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger, calibrate_noise, check_target
from fl.cli.choices import arguments_of, as_options
from fl.cli.options import Privacy, Training
from fl.privacy.adaptive_clipping import AdaptiveClipping
from fl.privacy.central_dp import CentralDP
from fl.privacy.distributed_dp import DistributedDP
from fl.privacy.ledgers import ClientLedgers
from fl.privacy.local_dp import LocalDP
from fl.privacy.mechanism import Mechanism
from fl.privacy.record_dp import RecordDP
from fl.privacy.signds import SignDS
from fl.round.aggregator import Aggregator
from fl.round.machines import Round
from fl.round.quantization import FixedPoint
from fl.training.settings import RunSettings

CLIP = 1.0
FRAC_BITS = 24
"""Of the grid of central-dp, where the aggregator has no fewer."""

PURE = 1e-12
"""At any delta, epsilons of releases without Gaussian noise add up to what they do at 0."""

_OWNERS = {
    "distributed-dp": ("epsilon", "delta", "clip", "noise_multiplier"),
    "central-dp": (
        *("epsilon", "delta", "clip", "noise_multiplier"),
        *("sampling", "adaptive_clipping", "count_noise"),
    ),
    "local-dp": ("epsilon", "delta", "clip", "noise"),
    "record-dp": ("delta", "clip", "noise_multiplier", "local_steps", "sample_rate"),
    "sign-ds": ("sign_k", "sign_eps", "sign_thr_ratio", "sign_global_lr", "sign_dim_out"),
    "none": (),
}
"""From mechanisms to the options that belong to each; the first is advised."""
_EVERYBODY = "each client's updates in all its rounds, from everybody, the server included"
_PROTECTS = {
    "local-dp": _EVERYBODY,
    "central-dp": "each client as a whole, from those who see models alone, not from the server",
    "distributed-dp": "each client as a whole, from the server and clients on its side, too",
    "record-dp": "each record, from everybody but the client that has it",
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
        case "distributed-dp":
            given = {"clip": CLIP, **arguments}
            given["noise_multiplier"] = _noise(1.0, training.rounds, "distributed-dp", given)
            return DistributedDP(**given)
        case "record-dp":
            return _of_records(training, **arguments)
        case "sign-ds":
            return SignDS(**arguments)
        case _:
            return Mechanism()


def _local(**arguments: Any) -> LocalDP:
    pure = arguments.get("noise") == "laplace"
    for option in ("epsilon",) if pure else ("epsilon", "delta"):
        if option not in arguments:
            rule, hint = "with {mechanism=local-dp}", "It is of one update."
            raise ArgumentError(option, None, rule, hint, code="missing")
    return LocalDP(**arguments)


def _of_records(
    training: Training,
    *,
    delta: float | None = None,
    clip: float = CLIP,
    noise_multiplier: float | None = None,
    local_steps: int = 10,
    sample_rate: float = 0.1,
) -> RecordDP:
    for option, given in (("delta", delta), ("noise_multiplier", noise_multiplier)):
        if given is None:
            raise ArgumentError(option, None, "with {mechanism=record-dp}", code="missing")
    assert noise_multiplier is not None
    with as_options(max_grad_norm="clip", steps="local_steps"):
        return RecordDP(
            noise_multiplier=noise_multiplier,
            max_grad_norm=clip,
            steps=local_steps,
            sample_rate=sample_rate,
            lr=training.lr,
        )


def _central(
    aggregator: Aggregator,
    training: Training,
    *,
    adaptive_clipping: float | None = None,
    count_noise: float | None = None,
    **arguments: Any,
) -> CentralDP:
    fixed = arguments.get("sampling") == "fixed"
    assert training.client_fraction is not None
    rate = 1.0 if fixed else training.client_fraction
    noise_multiplier = _noise(rate, training.rounds, "central-dp", arguments)
    if count_noise is not None and adaptive_clipping is None:
        raise ArgumentError("count_noise", count_noise, "{adaptive_clipping}", code="needs")
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


def _noise(rate: float, rounds: int, mechanism: str, arguments: dict[str, Any]) -> float:
    """Takes the noise multiplier, or the target that it follows from, off the arguments.

    Args:
        rate: with which clients are sampled.
        rounds: in all.
        mechanism: that the options belong to.
        arguments: options that were given, by name; changed in place.

    Raises:
        ArgumentError: no delta, or not exactly one of epsilon and noise multiplier.
    """
    epsilon, delta, given = (
        arguments.pop(name, None) for name in ("epsilon", "delta", "noise_multiplier")
    )
    if delta is None:
        rule, hint = f"with {{mechanism={mechanism}}}", "It is of all rounds together."
        raise ArgumentError("delta", None, rule, hint, code="missing")
    if not 0.0 < delta < 1.0:
        raise ArgumentError("delta", delta, "in (0, 1)", "Below 1 / clients is usual.")
    if (epsilon is None) == (given is None):
        both = (epsilon, given)
        rule = "give {epsilon}, or {noise_multiplier}"
        raise ArgumentError("epsilon, noise_multiplier", both, rule, code="privacy")
    if epsilon is None:
        noise_multiplier: float = given
        return noise_multiplier
    check_target(epsilon, advice="More protects nothing. For no privacy leave {mechanism} out.")
    with as_options(sample_rate="client_fraction"):
        return calibrate_noise(epsilon=epsilon, delta=delta, sample_rate=rate, steps=rounds)


def check_rounds(
    run: RunSettings, size: int, clients: int, *, rounds: int, delta: float | None
) -> None:
    """Returns only if the rounds can be charged, and the ledger says what all of them cost.

    Args:
        run: whose they are; its ledger stays as it is.
        size: parameters of the model.
        clients: of the run.
        rounds: of the whole run.
        delta: of all rounds together; None: 0.

    Raises:
        ArgumentError: the mechanism does not fit the model or the number of clients; a delta that
            is below what the accountant can certify of so many rounds.
    """
    trial = copy.deepcopy(run.mechanism)
    selected = trial.select(1, clients, run.client_fraction) or range(run.selected(clients))
    trial.charge(Round(number=1, size=size, weights=dict.fromkeys(selected, 1)), clients)
    if (kept := trial.ledger) is not None:
        ledger = kept if isinstance(kept, Ledger) else kept.of(selected[0])
        one = copy.deepcopy(ledger)
        for _ in range(rounds - 1):
            ledger.add(one)
        epsilon_of(ledger, delta)


def epsilon_of(ledger: Ledger | ClientLedgers, delta: float | None) -> float:
    """Returns the epsilon that is reported, of a delta; None: of releases without Gaussian noise.

    Raises:
        ArgumentError: as `Ledger.get_epsilon`.
    """
    return ledger.get_epsilon(delta) if delta else ledger.get_epsilon(PURE, "rdp")


def protection(name: str, mechanism: Mechanism) -> str | None:
    """Returns what the epsilon of all rounds protects, and from whom; None: there is none."""
    if isinstance(mechanism, CentralDP) and mechanism.sampling == "poisson":
        return f"{_PROTECTS[name]}, nor from those who learn who took part"
    return _PROTECTS.get(name)
