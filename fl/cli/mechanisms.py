"""The mechanism that the options of `pea fl` ask for, and what its epsilon protects from whom."""

import copy
from typing import Any

from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger, calibrate_noise, check_target
from fl.cli.choices import as_options
from fl.cli.options import Protection, Training
from fl.privacy.central_dp import CentralDP
from fl.privacy.ledgers import ClientLedgers
from fl.privacy.mechanism import Mechanism
from fl.round.aggregator import Aggregator
from fl.round.machines import Round
from fl.round.quantization import FixedPoint
from fl.training.settings import RunSettings

FRAC_BITS = 24
"""Of the grid of central-dp, where the aggregator has no fewer."""

PURE = 1e-12
"""At any delta, epsilons of releases without Gaussian noise add up to what they do at 0."""

_OF_ALL_ROUNDS = ("distributed-dp", "central-dp")
_WITH_DELTA = (*_OF_ALL_ROUNDS, "record-dp", "local-dp")
_EVERYBODY = "each client's updates in all its rounds, from everybody, the server included"
_PROTECTS = {
    "local-dp": _EVERYBODY,
    "central-dp": "each client as a whole, from those who see only models, but not from the server",
    "distributed-dp": "each client as a whole, also from the server and clients on its side",
    "record-dp": "each record, from everybody but the client that has it",
    "sign-ds": _EVERYBODY,
}


def mechanism_of(options: Protection, aggregator: Aggregator, training: Training) -> Mechanism:
    """Returns the mechanism, with the noise that a target epsilon takes."""
    chosen, more = options.mechanism, dict[str, Any]()
    for name, users in (("epsilon", _OF_ALL_ROUNDS), ("delta", _WITH_DELTA)):
        value = getattr(options, name)
        if value is not None and chosen.name not in users:
            rule = f"with {{mechanism={chosen.name}}}"
            hint = f"It belongs to {' or '.join(f'{{mechanism={one}}}' for one in users)}."
            raise ArgumentError(name, value, rule, hint, code="conflict")
    if chosen.name in (*_OF_ALL_ROUNDS, "record-dp"):
        _check_delta(chosen.name, options.delta)
    if chosen.name in _OF_ALL_ROUNDS:
        more |= _noise(options, training)
    if chosen.name == "central-dp":
        grid = aggregator.fixed_point or FixedPoint(frac_bits=FRAC_BITS)
        more["min_clients"] = max(2, aggregator.min_clients)
        more["frac_bits"] = min(FRAC_BITS, grid.frac_bits)
    if chosen.name == "record-dp":
        more["lr"] = training.lr
    mechanism: Mechanism = chosen.make(**more)
    return mechanism


def delta_of(options: Protection) -> float | None:
    """Returns the delta of all rounds together: what is given, or that of one update."""
    own: float | None = options.mechanism.given.get("local-dp.delta")
    return own if options.delta is None else options.delta


def _check_delta(mechanism: str, delta: float | None) -> None:
    if delta is None:
        rule, hint = f"with {{mechanism={mechanism}}}", "It is of all rounds together."
        raise ArgumentError("delta", None, rule, hint, code="missing")
    if not 0.0 < delta < 1.0:
        raise ArgumentError("delta", delta, "in (0, 1)", "Below 1 / clients is usual.")


def _noise(options: Protection, training: Training) -> dict[str, float]:
    """Returns the noise multiplier that follows from the target, if there is one."""
    chosen, epsilon = options.mechanism, options.epsilon
    given = chosen.given.get(f"{chosen.name}.noise_multiplier")
    if (epsilon is None) == (given is None):
        rule = "give {epsilon}, or {noise_multiplier}"
        raise ArgumentError("epsilon, noise_multiplier", (epsilon, given), rule, code="privacy")
    if epsilon is None:
        return {}
    check_target(
        epsilon, advice="A larger one protects nothing. For no privacy leave {mechanism} out."
    )
    sampling = {**chosen.usual, **chosen.given}.get("central-dp.sampling")
    assert training.client_fraction is not None
    assert options.delta is not None
    with as_options(sample_rate="client_fraction"):
        z = calibrate_noise(
            epsilon=epsilon,
            delta=options.delta,
            sample_rate=training.client_fraction if sampling == "poisson" else 1.0,
            steps=training.rounds,
        )
    return {"noise_multiplier": z}


def check_rounds(
    run: RunSettings, size: int, clients: int, *, rounds: int, delta: float | None
) -> None:
    """Checks that the rounds can be charged, and the ledger says what all of them cost.

    The run's own ledger stays as it is. Raises ArgumentError if the mechanism does not fit the
    model or the number of clients, or no accountant can certify so small a delta of the rounds.
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
    """Returns the epsilon that is reported, of a delta; None: of releases that have none."""
    return ledger.get_epsilon(delta) if delta else ledger.get_epsilon(PURE, "rdp")


def protects(name: str, mechanism: Mechanism) -> str | None:
    """Returns what the epsilon of all rounds protects, and from whom; None: there is none."""
    if isinstance(mechanism, CentralDP) and mechanism.sampling == "poisson":
        return f"{_PROTECTS[name]}, nor from those who learn who took part"
    return _PROTECTS.get(name)
