"""Which settings of a run go together: one table, of which each row says when, what, and why."""

from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal, NamedTuple

from extensions.errors import ArgumentError
from extensions.layers.losses import SQUARED
from extensions.layers.models.lora import lora_sizes
from extensions.layers.models.start_file import CHOSEN_BY_COUNTS, is_chosen_by_counts, is_file
from extensions.layers.softmax import SOFTMAX_CLASSES
from extensions.layers.spec import ADDITIVE, STARTS
from extensions.protocols.dpsgd_plan import DEFAULT_WEIGHT_NORM, most_norm
from extensions.protocols.initialization import AVERAGING, STRATEGIES
from extensions.protocols.settings import MAX_PARTIES
from extensions.protocols.updates import RULES as OPTIMIZERS
from extensions.ring.fixed_point import SAFE_BITS
from extensions.ring.tuples import MOST_MAKERS
from extensions.rules import Between, Rule, Whole, one_of
from extensions.runs.config.defaults import follows_noise
from extensions.runs.config.run_config import RunConfig

MAX_WEIGHT_NORM = 2.0**14
MAX_DELTA = 0.01
"""With this probability epsilon may not hold: it may be one in a hundred records that is known."""

_EPSILON = "give {epsilon=2} {delta=1e-5}, or {noise_multiplier}"
_EPSILON_INIT = "give {epsilon_init}, or {noise_multiplier_init}"
INITS = (*STARTS, *STRATEGIES)

COUNTED = (
    "Exact counts of held-out records chose the model's start, and later noise does not hide them. "
    "This may also hold for an earlier version's model that began from a file."
)


class When(NamedTuple):
    """A case.

    Attributes:
        holds: whether settings are one.
        words: behind what must be then.
    """

    holds: Callable[[RunConfig], object]
    words: str = ""

    def __and__(self, other: "When") -> "When":
        """Returns the case that is both, in the words of the first."""
        return When(lambda c: self.holds(c) and other.holds(c), self.words)


class Cross(NamedTuple):
    """A rule of several settings.

    Attributes:
        when: it is one.
        field: which must be so, or several joined by ", ".
        must: be what: "out" (its default), "given" (not None), a rule, or what makes one.
        why: it must, or what to do.
    """

    when: When
    field: str
    must: Literal["out", "given"] | Rule | Callable[[RunConfig], Rule]
    why: str = ""

    def broken(self, config: RunConfig) -> ArgumentError | None:
        """Returns the error of settings that break the rule."""
        if not self.when.holds(config):
            return None
        values = tuple(getattr(config, name) for name in self.field.split(", "))
        value: Any = values[0] if len(values) == 1 else values
        if self.must == "out":
            right, rule, code = value == _DEFAULTS[self.field], "", "conflict"
        elif self.must == "given":
            right, rule, code = value is not None, "", "missing"
        else:
            must = self.must if isinstance(self.must, Rule) else self.must(config)
            right, rule, code = must.holds(value), str(must), must.code
        if right:
            return None
        return ArgumentError(
            self.field, value, f"{rule} {self.when.words}".strip(), self.why, code=code
        )


@dataclass(frozen=True)
class _Kept(Rule):
    """A rule that was looked at already, in its own words."""

    is_kept: bool
    words: str
    code: str = field(default="value", kw_only=True)  # type: ignore[misc]

    def holds(self, value: Any) -> bool:
        return self.is_kept

    def __str__(self) -> str:
        return self.words


def _start(config: RunConfig) -> Rule:
    words = f"one of {', '.join(INITS)}, or an .npz file of weights"
    return _Kept(config.init in INITS or is_file(config.init), words, code="choice")


def _inputs(config: RunConfig) -> Rule:
    words = "hf:NAME_OR_FOLDER,inputs (an encoder on this machine)"
    return _Kept(config.features.startswith("hf:") and config.features.endswith(",inputs"), words)


def _public_start(config: RunConfig) -> Rule:
    words = "an .npz file of weights or left out"
    return _Kept(config.init is None or is_file(config.init), words)


def _for_each_class(config: RunConfig) -> Rule:
    right = len(config.class_weights or ()) == config.classes
    return _Kept(right, f"one for each of {config.classes} classes", code="shape")


def _of_scores(config: RunConfig) -> Rule:
    """Scores of more than two classes compete."""
    compete = config.classes > 2 and "loss" not in config.chosen
    return one_of(("softmax",) if compete else ("sigmoid", "softmax"))


def _given(config: RunConfig, words: str, *values: float | None) -> Rule:
    """One of the values is; once noise was found for an epsilon, both."""
    count = sum(value is not None for value in values)
    return _Kept(1 <= count <= 1 + config.settled, words, code="privacy")


def _bound(config: RunConfig) -> Rule:
    k = config.rows_per_unit
    words = "between 2^-16 and 2^16" + (f", times rows_per_unit = {k}" if k > 1 else "")
    return Between(k * 2.0**-16, k * 2.0**16, words=words)


def _feature_norm(config: RunConfig) -> Rule:
    """Features and their products fit the ring, whatever the records are."""
    bits, steps = config.frac_bits, config.private and config.method == "pea"
    most = most_norm(bits) if steps else 2.0 ** (SAFE_BITS - bits)
    return Between(0.0, most, above=True, words=f"at most {most:.3g} with frac_bits = {bits}")


def _part_of_epsilon(config: RunConfig) -> Rule:
    assert config.epsilon is not None
    words = f"below epsilon = {config.epsilon}, the whole run's"
    return Between(0.0, config.epsilon, below=True, words=words)


def _without_optimizer(name: str) -> When:
    return When(lambda c: c.optimizer != name, f"without {{optimizer={name}}}")


ALWAYS = When(lambda _: True)
PRIVATE = When(lambda c: c.private)
NOT_PRIVATE = When(lambda c: not c.private, "with {private=False}")
CRYPTEN = When(lambda c: c.backend == "crypten", "with {backend=crypten}")
THEMSELVES = When(lambda c: c.provider == "parties", "with {provider=parties}")
DEALT_NOISE = When(lambda c: c.dealer_noise, "with {dealer_noise}")
NO_DEALER = When(lambda c: c.provider != "dealer", "without {provider=dealer}")
SEEDED = When(lambda c: c.insecure_seed is not None, "with {insecure_seed}")
NUMBER = When(lambda c: c.classes == 1, "when a number is learnt")
NOT_NUMBER = When(lambda c: c.classes > 1)
OF_SCHEMA = When(lambda c: "schema target" in c.facts)
CLASSES = When(lambda c: c.loss not in SQUARED and not OF_SCHEMA.holds(c))
SOFTMAX = When(lambda c: c.loss == "softmax", "with {loss=softmax}")
WEIGHTED = When(lambda c: c.class_weights is not None, "with {class_weights}")
NOT_TWO = When(lambda c: c.classes != 2, "except with two classes")
IMAGES = When(lambda c: c.spec(whole=True).takes_images, "with a model of images")
DEEP = When(lambda c: c.spec(whole=True).is_deep, "with a model with hidden layers")
FROM_ZERO = When(lambda c: c.init == "zero")
FROM_FILE = When(lambda c: is_file(c.init), "with a file for {init}")
STARTED = When(lambda c: c.init is not None)
LOCAL = When(lambda c: c.strategy is not None)
NOT_LOCAL = When(lambda c: c.strategy is None, "without an {init} of local models")
NO_AVERAGE = When(lambda c: c.strategy not in AVERAGING, "unless local models are averaged")
BY_COUNTS = tuple(
    When(lambda c, name=name: c.init == name, f"with {{init={name}}}")  # type: ignore[misc]
    for name in CHOSEN_BY_COUNTS
)
COUNTED_START = When(lambda c: is_chosen_by_counts(c.init))
NOISY = When(lambda c: c.evaluate == "noisy", "with {evaluate=noisy}")
STATISTICS = When(lambda c: c.method == "statistics", "with {method=statistics}")
TERMS = When(lambda c: c.model == ADDITIVE, "with {model=additive}")
ADAPTERS = When(lambda c: lora_sizes(c.model) is not None, "with {model=lora:RANK}")
EACH_STEP = When(lambda c: c.method == "pea" and c.open == "each-step", "with {open=each-step}")
USUAL = When(
    lambda c: not (follows_noise(c) and c.hidden), "except in hidden training of a linear model"
)
COLUMNS = When(lambda c: c.split == "columns", "with {split=columns}")
PARTS = When(lambda c: c.private and c.strategy and c.epsilon and c.epsilon_init)
WHITE = When(lambda c: c.whiten)
NOT_WHITE = When(lambda c: not c.whiten, "without {whiten}")
NO_EPSILON = When(lambda c: not c.private or c.epsilon is None, "without {epsilon}")
GIVEN_NOISE = When(lambda c: c.private and c.epsilon is None, "with {noise_multiplier}")
FOUND_NOISE = When(
    lambda c: not c.settled and (c.epsilon or not c.private), "except with {noise_multiplier}"
)
NO_NOISE = When(lambda c: not c.private or c.noise_multiplier_whiten == 0.0, "without noise")

_OPENED: tuple[tuple[str, Any, str], ...] = (
    ("optimizer", "out", ""),
    ("physical_rows", "out", ""),
    (
        *("evaluate", one_of(("mpc", "noisy", "none"))),
        "The model is opened in any case, and saved as model.npz.",
    ),
    ("private", "out", "Only noise protects what the run opens."),
    ("dealer_noise", "out", "This run needs no dealer."),
    ("provider", "out", "This run needs no dealer."),
)
"""Where sums are opened."""
_OF_STEPS = (
    *("init", "class_weights", "whiten", "one_output"),
    *("lr_schedule", "momentum", "average", "bias_scale"),
)
"""What no use is made of where sums are opened once."""
_OF_LINEAR = (
    *(name for name in _OF_STEPS if name != "class_weights"),
    *("max_feature_norm", "max_grad_norm"),
)
"""What an additive model has no use for."""
_OF_ADAPTERS = ("whiten", "one_output", "bias_scale", "max_feature_norm")
"""What adapters of an encoder have no use for."""
_LOCAL_ONLY = ("epsilon_init", "noise_multiplier_init", "init_steps", "init_lr")

RULES: tuple[Cross, ...] = (
    Cross(CRYPTEN, "parties", Whole(2, MAX_PARTIES)),
    Cross(THEMSELVES, "parties", Whole(2, MOST_MAKERS), "Choose {provider=dealer} for more."),
    Cross(
        *(ALWAYS, "colluders", lambda c: Whole(1, max(1, c.parties - 1))),
        "At least one party must be honest.",
    ),
    Cross(NO_DEALER, "dealer_noise", "out"),
    Cross(DEALT_NOISE, "parties", Whole(2)),
    Cross(SEEDED, "dealer_noise", "out", "The dealer's noise cannot come from a seed."),
    Cross(NUMBER & OF_SCHEMA, "loss", one_of(SQUARED), "Give {loss=squared}."),
    Cross(CLASSES, "classes", Whole(2)),
    Cross(SOFTMAX, "classes", Whole(2, SOFTMAX_CLASSES)),
    Cross(WEIGHTED, "class_weights", _for_each_class),
    Cross(SOFTMAX, "one_output", "out", "For two classes it is a sigmoid."),
    Cross(WEIGHTED, "one_output", "out"),
    *(Cross(each, "one_output", "out") for each in BY_COUNTS),
    Cross(USUAL, "cheap", "out", "Give {steps} instead."),
    Cross(ALWAYS, "max_grad_norm", _bound, "Rescale the data."),
    Cross(ALWAYS, "max_feature_norm", _feature_norm),
    Cross(
        *(ALWAYS, "max_weight_norm"),
        Between(DEFAULT_WEIGHT_NORM, MAX_WEIGHT_NORM, words="in 400..16384"),
    ),
    *(
        Cross(_without_optimizer(optimizer), name, "out")
        for optimizer, rule in OPTIMIZERS.items()
        for name in rule.settings
    ),
    Cross(IMAGES, "features", one_of(("raw",)), "Its windows need images."),
    Cross(IMAGES, "whiten", "out", "Its windows need images."),
    Cross(STARTED, "init", _start),
    Cross(DEEP & FROM_ZERO, "init", one_of(("random", *STRATEGIES))),
    Cross(
        *(FROM_FILE, "whiten", "out"),
        "Each run whitens features anew, so weights of another run do not fit.",
    ),
    *(Cross(NOT_LOCAL, name, "out") for name in _LOCAL_ONLY),
    Cross(NO_AVERAGE, "init_weighting", "out"),
    Cross(NOISY & COUNTED_START, "init", "out", COUNTED),
    *(Cross(NUMBER & one, "init", "out", "No prediction is right or wrong.") for one in BY_COUNTS),
    Cross(STATISTICS, "open", one_of(("never",)), "This method opens sums once, without steps."),
    Cross(STATISTICS, "model", one_of(("logistic",)), "It finds a linear model."),
    Cross(STATISTICS, "loss", one_of(("least-squares",)), "Give {loss=least-squares}."),
    *(Cross(STATISTICS, name, "out") for name in _OF_STEPS),
    Cross(TERMS, "open", one_of(("each-step",)), "An additive model is trained by opened sums."),
    Cross(TERMS, "features", one_of(("raw",)), "An additive model needs the columns of a table."),
    *(Cross(TERMS, name, "out") for name in _OF_LINEAR),
    Cross(TERMS & NUMBER & OF_SCHEMA, "loss", one_of(("squared",))),
    Cross(TERMS & NOT_NUMBER & OF_SCHEMA, "loss", _of_scores),
    Cross(ADAPTERS, "features", _inputs),
    Cross(
        *(ADAPTERS, "open", one_of(("each-step",))),
        "Owners compute the gradients of an encoder in the clear.",
    ),
    Cross(ADAPTERS, "init", _public_start, "Adapters that start at zero would stay there."),
    *(Cross(ADAPTERS, name, "out") for name in _OF_ADAPTERS),
    Cross(EACH_STEP & LOCAL, "init", "out", "It starts from a public model."),
    Cross(COLUMNS, "parties", Whole(2)),
    Cross(COLUMNS, "method", one_of(("pea",)), "An owner cannot compute on its columns alone."),
    Cross(COLUMNS, "open", one_of(("never",)), "An owner cannot compute on its columns alone."),
    Cross(
        *(COLUMNS, "evaluate", one_of(("mpc", "noisy", "none"))),
        "`pea open` gives each owner the part of the model that its columns have.",
    ),
    Cross(COLUMNS, "rows_per_unit", one_of((1,)), "Sum up each person's rows first."),
    Cross(COLUMNS & LOCAL, "init", "out", "An owner cannot learn from its columns alone."),
    Cross(COLUMNS & IMAGES, "split", one_of(("rows",)), "Its windows need whole images."),
    *(Cross(way, *rest) for way in (EACH_STEP, STATISTICS) for rest in _OPENED),
    Cross(
        *(PRIVATE, "epsilon, noise_multiplier"),
        lambda c: _given(c, _EPSILON, c.epsilon, c.noise_multiplier),
        "To train without privacy, give {private=False}.",
    ),
    Cross(
        *(PRIVATE & LOCAL, "epsilon_init, noise_multiplier_init"),
        lambda c: _given(c, _EPSILON_INIT, c.epsilon_init, c.noise_multiplier_init),
        "Each owner's local model has noise of its own.",
    ),
    Cross(PARTS, "epsilon_init", _part_of_epsilon, "A quarter of it is a good start."),
    Cross(*(PRIVATE, "delta", Between(0.0, MAX_DELTA, above=True)), "1 / (10 records) is usual."),
    *(
        Cross(NOT_WHITE, name, "out", "Give {whiten}.")
        for name in ("whiten_share", "whiten_ridge", "noise_multiplier_whiten")
    ),
    Cross(NO_EPSILON & WHITE, "whiten_share", "out"),
    Cross(
        *(GIVEN_NOISE & WHITE, "noise_multiplier_whiten", "given"),
        "Or give {epsilon}; {whiten_share} is whitening's part of it.",
    ),
    Cross(FOUND_NOISE & WHITE, "noise_multiplier_whiten", "out", "Epsilon determines it."),
    Cross(
        *(NO_NOISE & WHITE, "whiten_ridge", "given"),
        "With noise, it follows from the noise.",
    ),
)

LEARNT: tuple[Cross, ...] = (
    Cross(NOT_TWO, "one_output", "out"),
    Cross(COLUMNS, "sample_rate", one_of((1.0,)), "Every owner knows who is in a step."),
    Cross(*(STATISTICS, "steps, sample_rate", one_of(((1, 1.0),))), "All records are summed once."),
    Cross(TERMS, "sample_rate", one_of((1.0,)), "All records take part in each step."),
    Cross(TERMS, "lr", Between(0.0, 0.5, above=True), "Larger steps may overshoot."),
)
"""Rules of a run whose classes and steps are known."""

NOTHING_PRIVATE = tuple(
    Cross(NOT_PRIVATE, name, "out", "Or leave {private=False} out.")
    for name in ("epsilon", "noise_multiplier", "delta", "epsilon_init", "dealer_noise")
)
"""Rules of what somebody gives: nothing of a guarantee that the run has not."""

_DEFAULTS = {each.name: each.default for each in fields(RunConfig) if each.default is not MISSING}


def check_rules(config: RunConfig, rules: Iterable[Cross] = RULES) -> None:
    """Raises the ArgumentError of the first rule that settings break."""
    for rule in rules:
        if (error := rule.broken(config)) is not None:
            raise error


def check_parties(parties: int, least: int = 1) -> None:
    """Raises ArgumentError unless a run may have so many parties.

    Args:
        parties: their number.
        least: of a backend.
    """
    Whole(least, MAX_PARTIES).check("parties", parties)
