"""How a joint model is learnt: hidden by Protocol 5, by opened steps, or from opened statistics."""

from typing import Any, Literal, Protocol, get_args

from extensions.errors import ArgumentError
from extensions.network.losses import Loss
from extensions.protocols import optimizer

Opening = Literal["never", "each-step"]
Method = Literal["pea", "statistics"]


class Openness(Protocol):
    """What of a run is opened; `extensions.runs.config.TrainConfig` says what the settings mean."""

    @property
    def open(self) -> Opening:
        """When the model is opened."""

    @property
    def method(self) -> Method:
        """How it is learnt."""


class Choices(optimizer.Choices, Openness, Protocol):
    """Settings of a run; `extensions.runs.config.TrainConfig` says what they mean."""

    @property
    def provider(self) -> str:
        """Who deals correlated randomness."""

    @property
    def evaluate(self) -> str:
        """What is opened at the end."""

    @property
    def init(self) -> str | None:
        """Where training starts."""

    @property
    def strategy(self) -> str | None:
        """How local models make the start."""

    @property
    def private(self) -> bool:
        """Whether there is noise."""

    @property
    def model(self) -> str:
        """Name of the model."""

    @property
    def loss(self) -> Loss:
        """Kind of loss."""

    @property
    def whiten(self) -> bool:
        """Whether features are whitened."""

    @property
    def one_output(self) -> bool:
        """Whether one output is trained for two classes."""

    @property
    def dealer_noise(self) -> bool:
        """Whether who deals adds noise."""

    @property
    def class_weights(self) -> Any:
        """How much a record of each class counts."""


_OF_STEPS = {
    "init": None,
    "class_weights": None,
    "whiten": False,
    "one_output": False,
    "lr_schedule": "constant",
    "momentum": 0.0,
    "average": 0.0,
    "bias_scale": 1.0,
}
"""What no use is made of where sums are opened once, and what it is then."""


_OF_SHARES = {"optimizer": "sgd", "physical_rows": None}
"""What no use is made of where owners compute on their own records in the clear."""


def is_hidden(choices: Openness) -> bool:
    """Whether nobody sees a model before the end of the run, and owners share their records."""
    return choices.open == "never" and choices.method == "pea"


def check_way(choices: Choices) -> None:
    """Returns only if the settings go together with how the model is learnt.

    Raises:
        ArgumentError: they do not.
    """
    for name, known in (("open", get_args(Opening)), ("method", get_args(Method))):
        if getattr(choices, name) not in known:
            raise ArgumentError(name, getattr(choices, name), f"one of {known}")
    if is_hidden(choices):
        return
    way = "open = 'each-step'" if choices.method == "pea" else "method = 'statistics'"
    if choices.method == "statistics":
        _check_statistics(choices)
    for name, default in _OF_SHARES.items():
        if getattr(choices, name) != default:
            raise ArgumentError(name, getattr(choices, name), f"left out with {way}")
    if choices.strategy is not None:
        allowed = f"left out with {way}"
        raise ArgumentError("init", choices.init, allowed, "It starts from a public model.")
    if choices.evaluate == "opened":
        advice = "The model is opened in any case, and saved as model.npz."
        raise ArgumentError("evaluate", "opened", f"'mpc', 'noisy' or 'none' with {way}", advice)
    if not choices.private:
        advice = "What is opened has no other protection than its noise."
        raise ArgumentError("no_dp", True, f"left out with {way}", advice)
    if choices.dealer_noise:
        allowed = f"left out with {way}"
        raise ArgumentError("dealer_noise", True, allowed, "Nobody deals in such a run.")
    if choices.provider != "dealer":
        allowed = f"left out with {way}"
        raise ArgumentError("provider", choices.provider, allowed, "Nobody deals in such a run.")


def _check_statistics(choices: Choices) -> None:
    advice = "Statistics are opened once, and there are no steps."
    if choices.open != "never":
        raise ArgumentError("open", choices.open, "'never' with method = 'statistics'", advice)
    if choices.model != "logistic":
        allowed = "'logistic' with method = 'statistics'"
        raise ArgumentError("model", choices.model, allowed, "It finds a linear model.")
    if choices.loss != "least-squares":
        allowed = "'least-squares' with method = 'statistics'"
        raise ArgumentError("loss", choices.loss, allowed, "Type: --loss least-squares")
    for name, default in _OF_STEPS.items():
        if getattr(choices, name) != default:
            raise ArgumentError(name, getattr(choices, name), "left out with method = 'statistics'")
