"""Settings that nobody gives: they follow from public facts, and the learning rate from the noise.

Whatever a linear model's rows are, of norm 1 at most, noise alone moves the logit of one by

    c = lr sigma C sqrt(V sum_t w_t^2) / (q n)

(standard deviation), where V is what all parties' noise adds up to over sigma^2, w_t what the
result has of step t's sum (`extensions.protocols.optimizer.plans`), and q n the expected batch.
All of it is public. The rate is the one at which that is what is set below: `python -m
benchmarks defaults` shows what that comes to, and what the other settings do.
"""

import math
from dataclasses import replace
from typing import NamedTuple, TypeVar

from extensions.data.schema import Schema
from extensions.errors import ArgumentError
from extensions.layers.losses import SQUARED, Loss
from extensions.layers.models.lora import lora_sizes
from extensions.layers.models.start_file import CHOSEN_BY_COUNTS, is_file
from extensions.layers.spec import ADDITIVE
from extensions.privacy.calibration import calibrate_noise
from extensions.protocols.noise import noise_without
from extensions.protocols.optimizer.plans import response
from extensions.runs.config.additive import additive_settings
from extensions.runs.config.run_config import RunConfig

TWO_CLASSES, SEVERAL, OF_TABLES = 0.8, 1.3, 2.6
"""What noise moves a logit by, of two classes, of more, and of more where records are tables."""
CUT = 0.5
"""Of that with several classes and the hard sigmoid, which leaves 0 and 1 at smaller logits."""
MOST_OF_TABLES = 80.0
"""Rate of tables, whose columns are not alike: where there is little noise, more overshoots."""
FEW = 5_000
"""Below so many records each step takes all: a sample's batch would be mostly padding."""
ROOM = 54
"""Bits of twice the ring's fraction and a sum over an expected batch, with one to spare for padding
(`extensions.protocols.dpsgd_plan.StepPlan.factor_bits`)."""
WITHOUT_NOISE = 8.0
"""Epsilon whose noise the rate follows where there is none."""

AnyRunConfig = TypeVar("AnyRunConfig", bound=RunConfig)


class Defaults(NamedTuple):
    """Settings of a run, explained in `RunConfig`.

    A rate of None follows from the noise, and a loss of None is that of the run.
    """

    steps: int = 120
    sample_rate: float = 0.1
    lr: float | None = 1.0
    max_grad_norm: float = 1.0
    momentum: float = 0.0
    average: float = 0.0
    bias_scale: float = 1.0
    whiten: bool = False
    one_output: bool = False
    loss: Loss | None = None
    frac_bits: int = RunConfig.frac_bits


MODEL = "model"
CHOSEN = (*Defaults._fields, "features")
"""Settings that are chosen where nobody gives them."""

ONCE = Defaults(steps=1, sample_rate=1.0)
"""Of statistics, which are summed once, over all records."""
PLAIN = Defaults(lr=10.0)
"""Of linear models without privacy, whose gradients nothing bounds."""
HIDDEN = Defaults()
"""Of models with hidden layers, and of Adam."""
NUMBER = Defaults(steps=40, sample_rate=1.0, max_grad_norm=0.2)
"""Of squared errors, whose slopes are as long as they are: a rate of 2 and more would overshoot."""
LINEAR = Defaults(10, 1.0, None, max_grad_norm=0.25, momentum=0.5, average=0.4, bias_scale=0.0)
TEXT = LINEAR._replace(steps=20)
TABLE = LINEAR._replace(steps=40, sample_rate=0.1, max_grad_norm=0.5, bias_scale=0.25)
"""Rows of a table are short, so that a sample costs little; it needs more steps."""
ADAPTERS = Defaults(60, 0.3, 20.0, max_grad_norm=0.25, momentum=0.5, average=0.3)
"""Of adapters of an encoder."""


def defaults_of(config: RunConfig, records: int) -> Defaults:
    """Returns the settings of a run of which nothing is given but what it learns, and from what.

    Args:
        config: of the run; what is known of its records, its model, its loss and its method.
        records: number of all parties' training records, or persons; public.
    """
    found = _of_rows(config, records)
    if config.split == "rows":
        return found
    found = found._replace(sample_rate=1.0)
    return found._replace(steps=10, momentum=0.3, average=0.2) if follows_noise(config) else found


def _of_rows(config: RunConfig, records: int) -> Defaults:
    if config.method == "statistics":
        return ONCE
    if lora_sizes(config.model) is not None:
        return ADAPTERS._replace(loss="softmax" if config.classes > 1 else None)
    if config.model != "logistic" or config.optimizer != "sgd":
        return HIDDEN
    if config.loss in SQUARED:
        return (
            NUMBER if config.data_kind == "tables" else NUMBER._replace(steps=120, sample_rate=0.1)
        )
    if not config.private:
        return PLAIN
    few, opened = records < FEW, not config.hidden
    found = {"tables": TABLE, "texts": TEXT}.get(config.data_kind or "", LINEAR)
    found = found._replace(whiten=_whitens(config), one_output=_has_one_output(config))
    if few:
        found = found._replace(steps=20 if config.data_kind == "tables" else 15, sample_rate=1.0)
    if opened and not few:
        steps = 40 if config.data_kind == "tables" else 25
        found = found._replace(steps=steps, sample_rate=1.0, momentum=0.7)
    if not opened and config.data_kind == "images" and config.classes > 2:
        found = found._replace(loss="hard-sigmoid")
    if config.cheap:
        slow = config.data_kind == "tables" and not few
        found = found._replace(steps=20 if slow else 10, sample_rate=0.1 if slow else 0.2)
    return found._replace(max_grad_norm=0.5) if few and config.data_kind == "images" else found


def follows_noise(config: RunConfig) -> bool:
    """Whether the default rate follows from noise: of private linear models, but with squares."""
    linear = config.model == "logistic" and config.method == "pea" and config.private
    return linear and config.optimizer == "sgd" and config.loss not in SQUARED


def with_defaults(config: AnyRunConfig, records: int) -> AnyRunConfig:
    """Returns the settings, checked with those that nobody gave; a rate by noise is not yet one.

    Args:
        config: of the run.
        records: number of all parties' training records, or persons; public.
    """
    if MODEL in config.chosen and (additive := _additive(config, records)) is not None:
        return additive
    plan = additive_settings(config, records) if config.model == ADDITIVE else None
    usual = ONCE._replace(steps=plan.steps, lr=plan.eta) if plan else defaults_of(config, records)
    found = usual._asdict()
    found |= {name: found[name] or getattr(config, name) for name in ("lr", "loss")}
    chosen = {name: found[name] for name in config.chosen if name in found}
    if plan:
        chosen["cells"] = plan.cells
        if config.classes > 2:
            chosen["loss"] = "softmax"
    if "frac_bits" in chosen and follows_noise(config):
        batch = chosen.get("sample_rate", config.sample_rate) * max(records, 1)
        chosen["frac_bits"] = min(RunConfig.frac_bits, (ROOM - math.ceil(math.log2(batch))) // 2)
    if config.epochs is not None:
        rate = chosen.get("sample_rate", config.sample_rate)
        chosen["steps"] = max(1, round(config.epochs / rate))
    return replace(config, **chosen, chosen=(), epochs=None)


def _additive(config: AnyRunConfig, records: int) -> AnyRunConfig | None:
    """Returns the settings of an additive model, if it is taken where nobody names a model.

    It is of tables with a schema and enough records, unless something is given of a linear one.
    """
    if Schema.of_facts(config.facts) is None or not config.private or "lr" not in config.chosen:
        return None
    try:
        chosen = tuple(name for name in config.chosen if name != MODEL)
        found = with_defaults(replace(config, model=ADDITIVE, chosen=chosen), records)
    except ArgumentError:
        return None
    return found if found.cells != "equal" else None


def rate_of(config: RunConfig, records: int) -> float:
    """Returns the learning rate that follows from the noise of a run.

    Args:
        config: with all other settings, and its noise, if there is any.
        records: number of all parties' training records, or persons; public.
    """
    noise, summands = config.noise_multiplier, config.parties + config.dealer_noise
    if not noise:
        noise = calibrate_noise(
            epsilon=WITHOUT_NOISE,
            delta=1 / (10 * max(records, 10)),
            sample_rate=config.sample_rate,
            steps=config.steps,
        )
    wider = noise_without(summands, 0, config)
    moved = noise * config.max_grad_norm * wider * math.sqrt(float((response(config) ** 2).sum()))
    tables = config.data_kind == "tables"
    target = TWO_CLASSES if config.classes == 2 else OF_TABLES if tables else SEVERAL
    if config.loss == "hard-sigmoid" and config.classes > 2:
        target *= CUT
    rate = target * config.sample_rate * records / moved
    return float(f"{min(rate, MOST_OF_TABLES) if tables else rate:.4g}")


def _whitens(config: RunConfig) -> bool:
    """Whether features are whitened: of images, where there is noise that its share is taken of."""
    known = config.private and config.epsilon is not None
    return config.data_kind == "images" and known and not is_file(config.init)


def _has_one_output(config: RunConfig) -> bool:
    """Whether two classes are learnt as one output, which is half the words."""
    free = config.class_weights is None and config.init not in CHOSEN_BY_COUNTS
    sums = config.loss in ("sigmoid", "hard-sigmoid") and not is_file(config.init)
    return config.classes == 2 and config.data_kind != "images" and free and sums
