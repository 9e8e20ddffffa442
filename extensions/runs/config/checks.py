"""Whether the settings of a run are in range, and go together."""

from typing import get_args

from extensions.checks import check_not_negative, check_positive, check_weights
from extensions.errors import ArgumentError
from extensions.network.losses import SQUARED, residual_norm
from extensions.network.models.start_file import CHOSEN_BY_COUNTS, is_file, owes
from extensions.network.spec import STARTS, ModelSpec
from extensions.privacy.accounting import CALIBRATIONS, NEIGHBOURS, check_real, check_target
from extensions.privacy.sampling import check_sample_rate
from extensions.protocols.clipping import inverse_square_up
from extensions.protocols.dpsgd_plan import DEFAULT_WEIGHT_NORM, LEAST_RATE, MOST_RATE, most_norm
from extensions.protocols.initialization import STRATEGIES, check_weighting
from extensions.protocols.optimizer import check_choices
from extensions.protocols.sums.choices import check_way
from extensions.protocols.sums.whitened import check_whitening
from extensions.ring.fixed_point import SAFE_BITS, check_frac_bits
from extensions.runs.config.defaults import follows_noise
from extensions.runs.config.noise import check_noise
from extensions.runs.config.stated import Evaluate, Kind, Metrics, Stated
from extensions.runs.entry_points import check_offered
from extensions.runs.providers import check_dealer_noise, check_noise_shares, check_provider

HOSTS = "pea.backends"
"""The entry point group of those who make runs (`extensions.runs.hosts`)."""

MAX_PARTIES = 64
_FEWEST_PARTIES = {"crypten": 2}
"""Of backends that cannot do with one; others refuse it themselves."""
MAX_WEIGHT_NORM = 2.0**14
MAX_DELTA = 0.01
"""With this probability epsilon may not hold: it may be one in a hundred records that is known."""

INITS = (*STARTS, *STRATEGIES)

_LOCAL_ONLY = ("epsilon_init", "noise_multiplier_init", "init_steps", "init_lr")


def check_parties(parties: int, least: int = 1) -> None:
    """Raises ArgumentError unless a run may have so many parties.

    Args:
        parties: their number.
        least: of a backend.
    """
    if not least <= parties <= MAX_PARTIES:
        raise ArgumentError("parties", parties, f"in {least}..{MAX_PARTIES}")


def _check_weight_norm(norm: float) -> None:
    if not DEFAULT_WEIGHT_NORM <= norm <= MAX_WEIGHT_NORM:
        allowed = f"in {DEFAULT_WEIGHT_NORM:g}..{MAX_WEIGHT_NORM:g}"
        raise ArgumentError("max_weight_norm", norm, allowed)


def check(config: Stated) -> None:
    """Returns only if all settings are in range, and go together.

    Raises:
        ArgumentError: one is not, or does not.
    """
    check_offered(HOSTS, "backend", config.backend)
    check_parties(config.parties, _FEWEST_PARTIES.get(config.backend, 1))
    check_provider(config.provider, config.parties)
    if config.evaluate not in get_args(Evaluate):
        raise ArgumentError("evaluate", config.evaluate, f"one of {get_args(Evaluate)}")
    if config.metrics is not None and config.metrics not in get_args(Metrics):
        raise ArgumentError("metrics", config.metrics, f"one of {get_args(Metrics)}")
    check_noise_shares(config.parties, config.colluders, config.noise_shares)
    if config.dealer_noise:
        check_dealer_noise(config.parties, config.provider, config.insecure_seed)
    if config.classes == 1 and "schema target" in config.facts and config.loss not in SQUARED:
        allowed = "'squared' where a number is learnt"
        raise ArgumentError("loss", config.loss, allowed, "Type: --loss squared")
    _check_numbers(config)
    for name in ("max_grad_norm", "max_feature_norm", "count_noise"):
        check_positive(name, getattr(config, name))
    inverse_square_up(config.max_grad_norm / config.rows_per_unit, name="max_grad_norm")
    _check_weight_norm(config.max_weight_norm)
    if config.calibration not in CALIBRATIONS:
        raise ArgumentError("calibration", config.calibration, f"one of {CALIBRATIONS}")
    if config.neighbours not in NEIGHBOURS:
        raise ArgumentError("neighbours", config.neighbours, f"one of {NEIGHBOURS}")
    check_real("overflow_probability", config.overflow_probability)
    if config.insecure_seed is not None and not 0 <= config.insecure_seed < 2**63:
        raise ArgumentError("insecure_seed", config.insecure_seed, "in 0..2^63 - 1")
    if config.one_output:
        _check_one_output(config)
    residual_norm(config.loss, config.classes)
    check_choices(config)
    spec = ModelSpec.parse(config.model, 1, config.classes)
    if spec.takes_images:
        _check_images(config)
    if config.class_weights is not None:
        if len(config.class_weights) != config.classes:
            allowed = f"one for each of {config.classes} classes"
            raise ArgumentError("class_weights", config.class_weights, allowed)
        check_weights("class_weights", config.class_weights)
    _check_init(config)
    check_way(config)
    spec.starts_randomly(config.public_init)
    check_sample_rate(config.sample_rate)
    check_frac_bits(config.frac_bits)
    _check_feature_norm(config)
    if config.private:
        _check_privacy(config)
    check_whitening(config)
    check_noise(config)


def _check_numbers(config: Stated) -> None:
    fewest = 1 if config.loss in SQUARED else 2
    floors = [("steps", 1), ("rows_per_unit", 1), ("classes", fewest), ("seed_data", 0)]
    if config.physical_rows is not None:
        floors.append(("physical_rows", 1))
    for name, floor in floors:
        if getattr(config, name) < floor:
            raise ArgumentError(name, getattr(config, name), f"at least {floor}")
    _check_rate("lr", config.lr)
    if config.epochs is not None and not 0.0 < config.epochs < 1e6:
        raise ArgumentError("epochs", config.epochs, "positive, below 1e6")
    if config.data_kind not in get_args(Kind):
        raise ArgumentError("data_kind", config.data_kind, f"one of {get_args(Kind)}")
    if config.cheap and not (follows_noise(config) and config.hidden):
        allowed = "left out, but in hidden training of a linear model"
        raise ArgumentError("cheap", True, allowed, "Type: --steps NUMBER instead.")


def _check_rate(name: str, rate: float) -> None:
    if not LEAST_RATE <= rate <= MOST_RATE:
        raise ArgumentError(name, rate, "in 2^-40..2^40")


def _check_feature_norm(config: Stated) -> None:
    """Features and their products fit the ring, whatever the records are."""
    steps = config.private and config.method == "pea"
    most = most_norm(config.frac_bits) if steps else 2.0 ** (SAFE_BITS - config.frac_bits)
    if config.max_feature_norm > most:
        allowed = f"at most {most:.3g} with frac_bits = {config.frac_bits}"
        raise ArgumentError("max_feature_norm", config.max_feature_norm, allowed)


def _check_images(config: Stated) -> None:
    for name, value, rest in (
        ("features", config.features, "raw"),
        ("whiten", config.whiten, False),
        ("method", config.method, "pea"),
    ):
        if value != rest:
            allowed = f"{rest!r} with model = {config.model!r}"
            raise ArgumentError(name, value, allowed, "Its windows are taken of images.")


def _check_one_output(config: Stated) -> None:
    if config.loss == "softmax":
        allowed = "left out with loss = 'softmax'"
        raise ArgumentError("one_output", True, allowed, "Of two classes it is a sigmoid.")
    if config.class_weights is not None:
        raise ArgumentError("one_output", True, "left out with class_weights")
    if config.init in CHOSEN_BY_COUNTS:
        raise ArgumentError("one_output", True, f"left out with init = {config.init!r}")


def _check_privacy(config: Stated) -> None:
    _check_target(config, "", "Or ask for a run without privacy by name.")
    if config.delta is None or not 0.0 < config.delta <= MAX_DELTA:
        allowed = f"in (0, {MAX_DELTA}]"
        raise ArgumentError("delta", config.delta, allowed, "1 / (10 records) is usual.")
    if config.strategy is not None:
        _check_target(config, "_init", "Each owner's local model is private on its own.")
        if config.epsilon and config.epsilon_init and config.epsilon_init >= config.epsilon:
            raise ArgumentError(
                "epsilon_init",
                config.epsilon_init,
                f"below epsilon = {config.epsilon}, the whole run's",
                "A quarter of it is a good start.",
            )


def _check_target(config: Stated, part: str, advice: str) -> None:
    names = (f"epsilon{part}", f"noise_multiplier{part}")
    epsilon, sigma = (getattr(config, name) for name in names)
    both = config.settled and epsilon is not None and sigma is not None
    if (epsilon is None) == (sigma is None) and not both:
        allowed = "exactly one of them given"
        raise ArgumentError(", ".join(names), (epsilon, sigma), allowed, advice)
    if epsilon is not None:
        check_target(epsilon, names[0])
    if sigma is not None:
        check_not_negative(names[1], sigma)


def check_noised(argument: str, value: object, allowed: str, *, chosen_by_counts: bool) -> None:
    """Returns only if a noised count of held-out records is private, of a run or of its model.

    Args:
        argument: that is wrong if it is not.
        value: of that argument.
        allowed: what it must be.
        chosen_by_counts: whether exact counts chose the start, in that run or in one before
            (`extensions.network.models.start_file.owes`).

    Raises:
        ArgumentError: they did.
    """
    if chosen_by_counts:
        advice = (
            "Exact counts of held-out records chose the model's start, and later noise does not "
            "hide them. A model of an earlier version that began from a file may have begun so."
        )
        raise ArgumentError(argument, value, allowed, advice)


def _check_init(config: Stated) -> None:
    if is_file(config.init):
        if config.whiten:
            advice = "A run whitens features anew, and weights are of those of another run."
            raise ArgumentError("whiten", True, "left out with a file for init", advice)
    elif config.init is not None and config.init not in INITS:
        allowed = f"one of {INITS}, or an .npz file of weights"
        raise ArgumentError("init", config.init, allowed)
    for name in _LOCAL_ONLY:
        if config.strategy is None and getattr(config, name) is not None:
            raise ArgumentError(
                name, getattr(config, name), f"left out, but with init one of {STRATEGIES}"
            )
    if config.evaluate == "noisy":
        allowed = f"none of {CHOSEN_BY_COUNTS}, nor a model that began so, with evaluate = 'noisy'"
        check_noised("init", config.init, allowed, chosen_by_counts=owes(config.init))
    if config.classes == 1 and config.init in CHOSEN_BY_COUNTS:
        allowed = f"none of {CHOSEN_BY_COUNTS} where a number is learnt"
        raise ArgumentError("init", config.init, allowed, "No prediction is right or wrong.")
    if config.init_steps is not None and config.init_steps < 1:
        raise ArgumentError("init_steps", config.init_steps, "at least 1")
    if config.init_lr is not None:
        _check_rate("init_lr", config.init_lr)
    check_weighting(config.strategy, config.init_weighting, "init_weighting")
