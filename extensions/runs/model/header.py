"""What is known of a trained model beside its weights: all that its use needs, and its origin."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import extensions
from extensions.data.datasets import Recipe, columns_in, common_facts
from extensions.data.features.networks.adapters import Adapted, adapted
from extensions.data.schema import Schema
from extensions.errors import ArgumentError
from extensions.layers.activations import relu
from extensions.layers.models.architectures import ARCHITECTURES
from extensions.layers.models.custom import PREFIX, checked
from extensions.layers.models.lora import lora_sizes
from extensions.layers.models.start_file import OWES, is_chosen_by_counts, model_is_chosen_by_counts
from extensions.layers.spec import ADDITIVE, ModelSpec
from extensions.protocols.noisy_sums.additive.grid import CellGrid
from extensions.protocols.noisy_sums.whitening import Whitening
from extensions.ring.fixed_point import check_frac_bits
from extensions.rules import POSITIVE
from extensions.runs.config import TrainConfig
from extensions.runs.report import as_json

FORMAT = "pea model 1"
FEATURE = "features: "
"""What names begin with of facts that fix features (`Extractor.statement`)."""
_PRIVACY = (
    *("epsilon", "delta", "neighbours", "epsilon_by_neighbours", "held_out_epsilon"),
    *("noise_multiplier", "sample_rate", "insecure_seed"),
)
_NO_HEADER = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
_KINDS: Mapping[str, Any] = {
    **dict.fromkeys(("facts", "privacy", "run", "manifest", "network"), dict),
    **dict.fromkeys(("features", "software"), str),
    "frac_bits": int,
    "max_feature_norm": int | float,
}
"""Of values in a file's header, whoever wrote it."""


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
        widths: where parties have other columns of the same records, the number of each party's.
        rank: there whose columns `facts` and `whitening` are of.
        apart: whether a party's share is the part of the model that its columns have, in the clear,
            and nothing else (`pea open`).
        chosen_by_counts: whether its start was chosen by exact counts of held-out records, in its
            run or in one before from whose model it began: noised counts of it are not private.
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
    chosen_by_counts: bool = False
    widths: tuple[int, ...] = ()
    rank: int = 0
    apart: bool = False

    @property
    def common(self) -> str:
        """Text of what all parties have alike: where columns are apart, nothing of one's own."""
        if not self.widths:
            return self.to_json()
        facts = common_facts(self.facts)
        return replace(self, facts=facts, features="", whitening=None, rank=0).to_json()

    @property
    def config(self) -> TrainConfig:
        """Settings of the run that trained it; ArgumentError if they are none of this version."""
        try:
            return TrainConfig(**self.run, facts=self.facts)
        except (AttributeError, TypeError, ValueError) as error:
            raise _unreadable(error) from error

    @property
    def schema(self) -> Schema | None:
        """The schema of the tables that it takes, or None."""
        return Schema.of_facts(self.facts)

    @property
    def grid(self) -> CellGrid | None:
        """Cells of an additive model's columns; None of other models."""
        return self.config.grid if self.spec.kind == ADDITIVE else None

    @property
    def encoder(self) -> Adapted | None:
        """The encoder whose adapters it has, read from its folder; None of other models."""
        sizes = lora_sizes(self.spec.kind)
        return None if sizes is None else adapted(self.features, sizes.rank)

    @property
    def inputs(self) -> int:
        """Number of features of a record that it takes: of a party's columns, if they are apart."""
        if self.widths:
            return self.widths[self.rank]
        return self.spec.widths[0] if self.spec.kind != ADDITIVE else len(self.columns)

    @property
    def target_range(self) -> tuple[float, float] | None:
        """Lowest and highest value of a number that is learnt; None for classes."""
        return None if self.schema is None else self.schema.target.range

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
        return columns_in(self.facts)

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
            OWES: self.chosen_by_counts,
        }
        if self.widths:
            said["blocks"] = {"widths": self.widths, "rank": self.rank, "apart": self.apart}
        finite = json.loads(as_json(said))
        return json.dumps(finite, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    @classmethod
    def of_json(cls, text: str) -> "Header":
        """Returns the header of which `to_json` returned this."""
        try:
            said = json.loads(text)
            if said["format"] != FORMAT:
                raise ValueError(f"its format is {said['format']!r}, not {FORMAT!r}")
            network = said["network"]
            for name, wanted in _KINDS.items():
                if not isinstance(said[name], wanted) or isinstance(said[name], bool):
                    raise ValueError(f"{name} is of another kind")
            check_frac_bits(said["frac_bits"])
            POSITIVE.check("max_feature_norm", said["max_feature_norm"])
            if (whitening := said.get("whitening")) is not None:
                POSITIVE.check("ridge", whitening["ridge"])
                whitening = {name: whitening[name] for name in ("digest", "ridge")}
            kind = network.get("architecture", "")
            if kind.startswith(PREFIX):
                checked(kind)
            elif kind and kind not in (ADDITIVE, *ARCHITECTURES) and lora_sizes(kind) is None:
                raise ValueError(f"architecture {kind!r}")
            widths = tuple(map(int, network["widths"]))
            spec = ModelSpec(widths=widths, loss=network["loss"], kind=kind)
            if (lora := lora_sizes(kind)) is not None and lora.width(widths[-1]) != widths[0]:
                raise ValueError(f"architecture {kind!r} of widths {widths}")
            between = [{"name": "relu", "max_value": relu().bound}] * (len(spec.widths) - 2)
            if network["activations"] != between:
                raise ValueError(f"activations {network['activations']}")
            blocks = said.get("blocks", {})
            parts = tuple(map(int, blocks.get("widths", ())))
            if parts and (sum(parts) != widths[0] or blocks["rank"] not in range(len(parts))):
                raise ValueError(f"blocks {blocks}")
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
                whitening=whitening,
                chosen_by_counts=model_is_chosen_by_counts(said),
                widths=parts,
                rank=blocks.get("rank", 0),
                apart=bool(blocks.get("apart", False)),
            )
            if len(header.classes) != spec.widths[-1]:
                raise ValueError("not one name for each class")
            if kind == ADDITIVE and (header.grid is None or header.grid.size != spec.widths[0]):
                raise ValueError("not one weight for each cell")
            return header
        except _NO_HEADER as error:
            raise _unreadable(error) from error


def _unreadable(error: Exception) -> ArgumentError:
    allowed = f"one that `pea train` of pea-mpl {extensions.__version__} writes"
    return ArgumentError("header", "another one", allowed, f"{error}.", code="file")


def header_of(
    config: TrainConfig,
    report: Mapping[str, Any],
    recipe: Recipe,
    features: int,
    whitening: Whitening | None = None,
    widths: Sequence[int] = (),
    rank: int = 0,
) -> Header:
    """Returns the header of a run's model, whose records have so many features.

    Args:
        widths: number of columns of each party, where these are of the same records.
        rank: there whose recipe and whitening it has.
    """
    spec = config.spec(features, whole=True)
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
        chosen_by_counts=is_chosen_by_counts(config.init),
        widths=tuple(widths),
        rank=rank if widths else 0,
    )
