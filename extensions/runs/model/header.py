"""What is known of a trained model beside its weights: all that its use needs, and its origin."""

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import extensions
from extensions.errors import ArgumentError
from extensions.network.activations import relu
from extensions.network.models.architectures import ARCHITECTURES
from extensions.network.models.own_layers import PREFIX, checked
from extensions.network.spec import ModelSpec
from extensions.owners.data import Recipe
from extensions.owners.schema import Schema
from extensions.protocols.sums.whitening import Whitening
from extensions.runs.config import TrainConfig
from extensions.runs.report import as_json

FORMAT = "pea model 1"
FEATURE = "features: "
"""What names begin with of facts that fix features (`Extractor.statement`)."""
_PRIVACY = (
    *("epsilon", "delta", "neighbours", "epsilon_by_neighbours", "held_out_epsilon"),
    *("noise_multiplier", "sample_rate", "insecure_seed"),
)


@dataclass(frozen=True, kw_only=True)
class Header:
    """Public facts about a model, which stand in every file of it, shares included.

    Attributes:
        spec: widths of its layers and its loss, between which is ReLU, capped; or the name of its
            architecture.
        frac_bits: fractional bits of the ring in which it was trained.
        features: name of the extractor whose features it takes.
        max_feature_norm: bound of a record's features.
        facts: what is publicly known of the records: names of columns and classes, or their
            schema, and what fixes the features.
        privacy: epsilon and what belongs to it, as the report has them.
        run: settings of the run that trained it, as the arguments of a config.
        manifest: of that run: its digest, and what it states (`extensions.runs.manifest`).
        whitening: of its features: digest of what was opened, which stands beside the weights, and
            ridge; None where they are taken as they are.
        software: version of pea-mpl that trained it.
    """

    spec: ModelSpec
    frac_bits: int
    features: str
    max_feature_norm: float
    facts: Mapping[str, Any]
    privacy: Mapping[str, Any]
    run: Mapping[str, Any]
    manifest: Mapping[str, Any]
    software: str
    whitening: Mapping[str, Any] | None = None

    @property
    def schema(self) -> Schema | None:
        """The schema of the tables that it takes, or None."""
        return Schema.of_facts(self.facts)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of its classes in the order of its outputs: their numbers, where none are known."""
        schema = self.schema
        if schema is not None and schema.target.classes:
            return schema.target.classes
        outputs = range(self.spec.widths[-1])
        return tuple(str(self.facts.get(f"class {place}", place)) for place in outputs)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of a table's numbers, in order, or of its column of texts; else empty."""
        schema = self.schema
        if schema is not None:
            return schema.features
        named = (f"column {place}" for place in itertools.count(1))
        known = itertools.takewhile(self.facts.__contains__, named)
        return tuple(str(self.facts[name]) for name in known)

    @property
    def text(self) -> str | None:
        """Name of the column of its texts, if it takes texts of tables."""
        texts = self.facts.get("kind") == "texts" and self.columns
        return self.columns[0] if texts else None

    @property
    def identity(self) -> dict[str, str]:
        """What fixes its features beside the records: versions, options, digests of weights."""
        if self.features == "raw":
            return {}
        return {
            name.removeprefix(FEATURE): str(value)
            for name, value in self.facts.items()
            if name.startswith(FEATURE)
        }

    def to_json(self) -> str:
        """Returns the header as canonical JSON: equal headers, and only these, have equal texts."""
        spec = self.spec
        between = () if spec.kind else spec.network.activations
        activations = [{"name": one.name, "max_value": one.bound} for one in between]
        said = {
            "format": FORMAT,
            "software": self.software,
            "network": {
                "widths": list(spec.widths),
                "activations": activations,
                "loss": spec.loss,
                **({"architecture": spec.kind} if spec.kind else {}),
            },
            "frac_bits": self.frac_bits,
            "features": self.features,
            "max_feature_norm": self.max_feature_norm,
            "facts": self.facts,
            "classes": list(self.classes),
            "columns": list(self.columns),
            "privacy": self.privacy,
            "run": self.run,
            "manifest": self.manifest,
            "whitening": self.whitening,
        }
        finite = json.loads(as_json(said))
        return json.dumps(finite, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    @classmethod
    def of_json(cls, text: str) -> "Header":
        """Returns the header of which `to_json` returned this.

        Raises:
            ArgumentError: it is none, or one of another format.
        """
        try:
            said = json.loads(text)
            if said["format"] != FORMAT:
                raise ValueError(f"its format is {said['format']!r}, not {FORMAT!r}")
            network = said["network"]
            kind = network.get("architecture", "")
            if kind.startswith(PREFIX):
                checked(kind)
            elif kind and kind not in ARCHITECTURES:
                raise ValueError(f"architecture {kind!r}")
            widths = tuple(map(int, network["widths"]))
            spec = ModelSpec(widths=widths, loss=network["loss"], kind=kind)
            wanted = [{"name": "relu", "max_value": relu().bound}] * (len(spec.widths) - 2)
            if network["activations"] != wanted:
                raise ValueError(f"activations {network['activations']}")
            header = cls(
                spec=spec,
                frac_bits=said["frac_bits"],
                features=said["features"],
                max_feature_norm=said["max_feature_norm"],
                facts=said["facts"],
                privacy=said["privacy"],
                run=said["run"],
                manifest=said["manifest"],
                software=said["software"],
                whitening=said.get("whitening"),
            )
            if len(header.classes) != spec.widths[-1]:
                raise ValueError("not one name for each class")
            return header
        except (ArgumentError, AttributeError, ValueError, TypeError, KeyError) as error:
            allowed = f"one that `pea train --save` of pea-mpl {extensions.__version__} writes"
            raise ArgumentError("header", "unreadable", allowed, f"{error}.") from error


def header_of(
    config: TrainConfig,
    report: Mapping[str, Any],
    recipe: Recipe,
    features: int,
    whitening: Whitening | None = None,
) -> Header:
    """Returns the header of a run's model.

    Args:
        config: resolved settings.
        report: of the run.
        recipe: of its records.
        features: number of a record's features.
        whitening: of them, or None.
    """
    spec = ModelSpec.parse(config.model, features, config.classes, config.loss)
    settings = config.to_dict()
    return Header(
        spec=spec,
        frac_bits=config.frac_bits,
        features=recipe.get("features", config.features),
        max_feature_norm=config.max_feature_norm,
        facts={**settings.pop("facts"), **recipe},
        privacy={name: report[name] for name in _PRIVACY} | {"private": config.private},
        run=settings,
        manifest=report["manifest"],
        software=extensions.__version__,
        whitening=None
        if whitening is None
        else {"digest": whitening.digest, "ridge": whitening.ridge},
    )
