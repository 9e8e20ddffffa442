"""What an additive model has learnt, in the unit in which people read it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from extensions.ring.fixed_point import Reals
from extensions.runs.model.files import OpenedModel
from extensions.runs.model.terms import Term, contributions, terms_of


@dataclass(frozen=True)
class Effects:
    """The terms of an additive model in the unit in which people read them.

    Attributes:
        unit: of all values, in words.
        outputs: what values are of: the second of two classes, each of several, or the target.
        base: (outputs,), what a record has before any column adds to it.
        terms: whose `values` and `deviations`, (outputs, bins), are in that unit.
    """

    unit: str
    outputs: tuple[str, ...]
    base: Reals
    terms: Sequence[Term]

    @property
    def by_importance(self) -> list[Term]:
        """The terms, those that move records most first."""
        return sorted(self.terms, key=lambda term: -float(term.importance.max()))


def effects_of(model: OpenedModel) -> Effects:
    """Returns what the columns of an additive model add: log-odds, or the target's unit.

    Raises:
        ArgumentError: it is another kind of model.
    """
    base, terms = terms_of(model)
    matrix, unit, outputs = _unit_of(model)
    scaled = [
        replace(
            term,
            values=matrix @ term.values,
            deviations=np.abs(matrix) @ term.deviations,  # of two classes they are one
        )
        for term in terms
    ]
    start = matrix @ base
    if (ends := model.header.target_range) is not None:
        start = start + (ends[0] + ends[1]) / 2
    return Effects(unit, outputs, start, scaled)


def told_of(model: OpenedModel, features: Reals, logits: Reals) -> dict[str, list[float]]:
    """Returns where each record starts and what each column adds, in the unit of `effects_of`.

    They add up to the log-odds, or to the number that is predicted, before it is cut to its range.
    Of several classes it is the logit of the class that is predicted, by `logits_of`.
    """
    effects, (matrix, _, outputs) = effects_of(model), _unit_of(model)
    found = contributions(model, features) @ matrix.T
    best = logits.argmax(axis=1) if len(outputs) > 1 else np.zeros(len(found), dtype=np.int64)
    own = found[np.arange(len(found)), :, best]
    added = {f"adds {term.column}": own[:, i].tolist() for i, term in enumerate(effects.terms)}
    return {"starts at": effects.base[best].tolist(), **added}


def _unit_of(model: OpenedModel) -> tuple[Reals, str, tuple[str, ...]]:
    """Returns what makes of logits the values shown, (outputs, classes), their unit and names."""
    header = model.header
    if header.schema is not None and (ends := header.target_range) is not None:
        name = header.schema.target.column
        return np.array([[ends[1] - ends[0]]]), name, (name,)
    names = header.classes
    if len(names) == 2:
        half = 1.0 if header.spec.loss == "softmax" else 0.5
        return np.array([[-half, half]]), f"log-odds of {names[1]}", (names[1],)
    return np.eye(len(names)), "logit", names
