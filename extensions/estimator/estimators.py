"""Estimators as scikit-learn has them, of several owners' records."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from extensions.checks import check_left_out
from extensions.data.datasets import Split
from extensions.errors import ArgumentError
from extensions.estimator.bases import BaseEstimator, ClassifierMixin, RegressorMixin
from extensions.estimator.encoders import Encoder, extraction_of
from extensions.estimator.noisy_schema import DELTA_SHARE, SchemaBudget, with_schema
from extensions.estimator.records import (
    FROM_DATA,
    Given,
    Known,
    array_of,
    frame_of,
    known_of,
    rows_at,
)
from extensions.estimator.training import party_model, plan_of, trained
from extensions.layers.models.custom import named
from extensions.ring.fixed_point import Reals
from extensions.rules import Between, one_of
from extensions.runs.config.schedule import Asked, Schedule
from extensions.runs.model import OpenedModel, logits_of, read_opened, write_opened
from extensions.runs.model.explaining import effects_of
from extensions.runs.model.inference import scores_of, targets_of
from extensions.runs.model.pages import figure_of
from extensions.runs.model.recipe import GivenFeatures, as_in_training

Mode = Literal["open", "hidden"]


class _Private(BaseEstimator):
    """What both estimators do: `PrivateClassifier` says what their arguments are."""

    _numbers = False

    def __init__(
        self,
        epsilon: float = 2.0,
        *,
        delta: float | None = None,
        mode: Mode = "open",
        backend: str = "clear",
        model: str = "auto",
        schema: Any = None,
        ledger: str | Path | None = None,
        features: Encoder = None,
        federation: str | Path | None = None,
        key: str | Path | None = None,
        target: Sequence[Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        epsilon_schema: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mode = mode
        self.backend = backend
        self.model = model
        self.schema = schema
        self.ledger = ledger
        self.features = features
        self.federation = federation
        self.key = key
        self.target = target
        self.settings = settings
        self.epsilon_schema = epsilon_schema

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Trains one model on the records of all owners.

        Args:
            X: a mapping from each owner's name to its records and labels, (X, y). Or records in one
                frame (pandas, polars, Arrow) or array: (records, columns) numbers, images (records,
                height, width) or texts; with a federation, this party's.
            y: labels, (records,), unless `X` is a mapping.
            groups: owner of each record, (records,); by default one owner has all.

        Raises:
            ArgumentError: records, a schema or settings that do not fit.
        """
        xs, ys = _owners(X, y, groups)
        counted = self._counted(sum(map(len, ys)))
        known, parts = self._read(xs, ys, counted)
        run, schedule = self._asked(len(parts), counted)
        if self.federation is not None:
            found, report = party_model(
                run, schedule, self.features, parts[0], self.federation, self.key, self.ledger
            )
        else:
            found, report = trained(run, schedule, self.features, parts, self.ledger)
        if counted is not None:
            more = with_schema(report, counted)
            report |= {**more, "epsilon_schema": counted.epsilon}
            privacy = {name: more.get(name, value) for name, value in found.header.privacy.items()}
            found = replace(found, header=replace(found.header, privacy=privacy))
        self._take(found, known)
        self.report_ = report
        self.epsilon_ = report["epsilon"]
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = "insecure_seed" not in (self.settings or {})
        tags.input_tags.allow_nan = self.schema is not None
        return tags

    def plan(self, X: Any, y: Any = None, groups: Any = None) -> dict[str, Any]:
        """Returns what `fit` would take and spend, without spending it.

        Returns epsilon, delta, noise_multiplier, steps, sample_rate, lr, rounds, bytes (a party
        sends and receives) and seconds, about. Sizes of the records decide, not their values.

        Raises:
            ArgumentError: with `epsilon_schema`, since counting spends it.
        """
        check_left_out("to plan: state the schema", epsilon_schema=self.epsilon_schema)
        _, parts = self._read(*_owners(X, y, groups))
        return plan_of(*self._asked(len(parts)), self.features, parts)

    def save(self, path: str | Path) -> Path:
        """Writes the model to an .npz file, as `pea train --save` does; its owner may read it."""
        check_is_fitted(self)
        return write_opened(Path(path), self.model_)

    def plot(self, column: str) -> Any:
        """Returns a matplotlib figure of what a column adds, of an additive model.

        The band is 2.5 standard deviations of the noise in this column's curve alone; below it
        stands how many records each bin has, with noise.

        Raises:
            ArgumentError: another kind of model, or no such column.
        """
        check_is_fitted(self)
        effects = effects_of(self.model_)
        terms = {term.column: term for term in effects.terms}
        one_of(terms).check("column", column)
        return figure_of(effects, terms[column])

    @classmethod
    def load(cls, path: str | Path, features: Encoder = None) -> Self:
        """Returns an estimator with the model of a file, also of `pea train --save`.

        Args:
            path: of an .npz file. Nothing in it is run.
            features: the model's extractor, if it is a function or a file of your own.
        """
        found = read_opened(Path(path))
        loaded = cls(features=features)
        header = found.header
        if (header.spec.loss in ("squared", "least-squares") and not header.classes[1:]) != (
            cls._numbers
        ):
            raise ArgumentError("model", str(path), f"saved by {cls.__name__}", code="file")
        numbers = all(name.isdecimal() for name in header.classes)
        labels = tuple(int(name) if numbers else name for name in header.classes)
        schema = header.schema
        columns = header.columns if schema is None else tuple(each.name for each in schema.columns)
        loaded._take(found, Known(columns, labels, schema))
        loaded.epsilon_ = header.privacy["epsilon"]
        return loaded

    def _take(self, found: OpenedModel, known: Known) -> None:
        self.model_, self.known_ = found, known
        self.n_features_in_ = len(known.columns)
        if known.labels:
            self.classes_ = np.array(known.labels)

    def _counted(self, records: int) -> SchemaBudget | None:
        """Returns what noisy counts may cost, if the schema is made of them."""
        if (part := self.epsilon_schema) is None:
            return None
        if not (isinstance(self.schema, str) and self.schema == FROM_DATA):
            raise ArgumentError("epsilon_schema", part, "with {schema=from-data}", code="conflict")
        check_left_out("with {epsilon_schema}", federation=self.federation)
        Between(0.0, self.epsilon, above=True, below=True).check("epsilon_schema", part)
        delta = self.delta or 1 / (10 * records)
        return SchemaBudget(
            epsilon=part,
            delta=DELTA_SHARE * delta,
            ledger=None if self.ledger is None else Path(self.ledger),
        )

    def _read(
        self, xs: Sequence[Given], ys: Sequence[Any], counted: SchemaBudget | None = None
    ) -> tuple[Known, list[Split]]:
        if not self._numbers:
            for labels in ys:
                check_classification_targets(labels)
        known = known_of(xs, ys, self.schema, self.target, numbers=self._numbers, counted=counted)
        return known, [known.split(x, labels) for x, labels in zip(xs, ys, strict=True)]

    def _asked(self, parties: int, counted: SchemaBudget | None = None) -> tuple[Asked, Schedule]:
        one_of(("open", "hidden")).check("mode", self.mode)
        given = dict(self.settings or {})
        scheduled = {name: given.pop(name) for name in [*given] if name in vars(Schedule())}
        run: dict[str, Any] = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "backend": self.backend,
            "model": named(self.model),
            "open": "each-step" if self.mode == "open" else "never",
            "evaluate": "none" if self.mode == "open" else "opened",
            "parties": parties,
        }
        if counted is not None:
            run["epsilon"] = self.epsilon - counted.epsilon
            run["delta"] = counted.delta * (1 / DELTA_SHARE - 1)
        if self._numbers:
            run["loss"] = "squared"
        try:
            return Asked(**run | given), Schedule(**scheduled)
        except TypeError:
            known = {*vars(Schedule()), *vars(Asked())}
            wrong = next(name for name in given if name not in known)
            raise ArgumentError("settings", wrong, "names of settings of a run") from None

    def _logits(self, X: Any) -> Reals:
        check_is_fitted(self)
        if frame_of(X) is None:
            X = array_of(X, cells=self.known_.schema is not None)
            if self.known_.columns:
                validate_data(self, X, reset=False, skip_check_array=True)
        rows = self.known_.rows(X)
        header = self.model_.header
        if callable(self.features):
            extraction = extraction_of(self.features)
        else:
            extraction = as_in_training(header, GivenFeatures(features=self.features))
        return logits_of(self.model_, extraction.rows(rows, lambda done: None))


class PrivateClassifier(ClassifierMixin, _Private):
    """Trains a classifier on several owners' records with differential privacy.

    By default one program simulates all owners and sees every record, for example on a laptop. With
    a `federation`, each owner runs the same program on its own machine with its own records. PEA
    chooses all settings that you leave out from public facts, as `pea train` does.

    Args:
        epsilon: of the whole training.
        delta: by default 1 / (10 records), the number of all owners' records.
        mode: "open" opens the noisy model after each step; "hidden" opens it at the end only, which
            costs more and gives the same epsilon.
        backend: "clear" (plaintext, in this process), "crypten" or "tfe" (processes).
        model: "auto", "logistic", "additive", "mlp:64", "lora:8" (low-rank adapters of the encoder
            that `features` names, "hf:FOLDER") or what else `pea train` takes.
        schema: what the columns hold, which must be public: a `Schema`, the path of its file, or
            for each column a range (low, high) or a list of categories. None is for numbers
            of similar scale: each row is cut to norm 1. "from-data" warns, and reads ranges and
            categories from the records, which epsilon does not cover.
        ledger: file in which each training is entered before it starts.
        features: extractor of images and texts, as of `pea train`; or a function of a batch that
            returns an array (batch, features), or a module of PyTorch in evaluation mode.
        federation: file of `pea federation`, to train with parties on other machines.
        key: this party's key, with a federation.
        target: labels in order; by default all distinct ones, which become public.
        settings: further settings of the run by name, such as {"steps": 20}.
        epsilon_schema: the part of epsilon by which "from-data" makes ranges and categories of
            noisy counts, so that epsilon covers them. Columns of which too little shows are left
            out; the more columns, the more records it takes.

    Attributes:
        report_: report of the run, as `pea train --json` writes it.
        epsilon_: epsilon that was spent.
        classes_: labels in the order of `predict_proba`.

    Guarantees:
        The model is (epsilon, delta)-differentially private for each record of each owner, against
        those who see it, if all owners but one add their noise.

    Examples:
        >>> from extensions.estimator import PrivateClassifier
        >>> from sklearn.datasets import load_breast_cancer
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> ranges = {name: (0.0, 2.0 * X[name].median()) for name in X}  # use public ones
        >>> north, south = X.index < 300, X.index >= 300
        >>> model = PrivateClassifier(epsilon=2, schema=ranges)
        >>> model.fit({"north": (X[north], y[north]), "south": (X[south], y[south])}).epsilon_ <= 2
        True
        >>> model.score(X, y) > 0.8
        True
    """

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Returns the label of each record, (records,)."""
        logits = self._logits(X)
        found: npt.NDArray[Any] = self.classes_[logits.argmax(axis=1)]
        return found

    def predict_proba(self, X: Any) -> Reals:
        """Returns the probability of each class, (records, classes), in the order of `classes_`."""
        logits = self._logits(X)
        scores = scores_of(self.model_.header.spec.loss, logits)
        shared: Reals = scores / scores.sum(axis=1, keepdims=True)
        return shared

    def decision_function(self, X: Any) -> Reals:
        """Returns logits, (records, classes); of two classes that of the second, (records,)."""
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits


class PrivateRegressor(RegressorMixin, _Private):
    """Trains a regression on several owners' records with differential privacy.

    Arguments are those of `PrivateClassifier`; a schema is required.

    Args:
        target: lowest and highest value of `y`, which must be public; values beyond are clipped. A
            `Schema` has its own; with "from-data" it is read from the records by default.

    Examples:
        >>> import numpy as np
        >>> from extensions.estimator import PrivateRegressor
        >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 3))
        >>> model = PrivateRegressor(schema=[(-1, 1)] * 3, target=(-2, 2))
        >>> model.fit(X, X[:, 0] - X[:, 1]).score(X, X[:, 0] - X[:, 1]) > 0.5
        True
    """

    _numbers = True

    def predict(self, X: Any) -> Reals:
        """Returns the number of each record, (records,), in the target's unit."""
        logits = self._logits(X)
        return targets_of(self.model_.header, logits)


def _owners(x: Any, y: Any, groups: Any) -> tuple[list[Given], list[Any]]:
    """Returns each owner's records and labels."""
    if not isinstance(x, Mapping) or hasattr(x, "shape"):  # a sparse matrix may be a mapping
        pairs = [(x, column_or_1d(y, warn=True))]
    elif y is not None or groups is not None or not x:
        advice = "Give X, y and groups, or only a mapping from names to (X, y)."
        raise ArgumentError("X", f"a mapping of {len(x)} owners", "given alone", advice)
    else:
        pairs = [(own, column_or_1d(labels, warn=True)) for own, labels in x.values()]
    for own, labels in pairs:
        check_consistent_length(own, labels)
    if sum(len(labels) for _, labels in pairs) < 2:
        raise ArgumentError("X", "1 sample", "two records or more in all", code="range")
    if groups is None:
        return [own for own, _ in pairs], [labels for _, labels in pairs]
    ((x, y),) = pairs
    of = column_or_1d(groups)
    check_consistent_length(of, y)
    places = [np.flatnonzero(of == owner) for owner in dict.fromkeys(of.tolist())]
    return [rows_at(x, own) for own in places], [y[own] for own in places]
