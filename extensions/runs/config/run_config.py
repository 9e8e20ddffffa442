"""What a training run says of itself: the same for every party, and all of it public."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from extensions.data.features.networks.adapters import Adapted, adapted
from extensions.data.schema import Schema
from extensions.layers.models.lora import lora_sizes
from extensions.layers.spec import ADDITIVE, ModelSpec
from extensions.options import Option
from extensions.protocols.noisy_sums.additive.grid import CellGrid
from extensions.protocols.settings import Training
from extensions.rules import POSITIVE, Between, Whole
from extensions.runs.providers import Provider

Evaluate = Literal["mpc", "noisy", "opened", "none"]
Metrics = Literal["accuracy", "all"]
Kind = Literal["images", "texts", "tables"]


@dataclass(frozen=True, kw_only=True)
class RunConfig(Training):
    """Everything public about a run: its training, and what is around it; each in its range.

    Attributes:
        backend: framework to compute with: crypten (processes), tfe (TF Encrypted's ABY3), clear
            (plaintext, one process, same arithmetic), or another that is installed.
        provider: source of correlated randomness: dealer (a process without data), parties (two to
            four of them make it), or tfp (party 0, which can then reconstruct every secret). Only
            crypten offers the choice.
        data: name of the data set, for the report.
        facts: what is publicly known of the records, by name: a table's columns and classes, or
            their schema.
        features: name of the extractor that each owner used, for the report.
        evaluate: what to open: the number of correct predictions on held-out records (mpc), that
            number with noise (noisy), the model and the number (opened), or nothing (none). A
            public model is always opened, and owners count on their own.
        metrics: what to count: accuracy (correct predictions), or all (for majority, AUC, Brier
            score, recall and precision; sums of squares for a regression). By default all with a
            schema, else accuracy.
        count_noise: with noisy, standard deviation of the noise of each number, in records. If two
            classes need several sums, each has more noise, so that all cost a record as much as
            one.
        seed_data: public seed of splitting the data.
        insecure_seed: draw sampling and noise from this seed, which all parties know: only to
            compare backends, NOT private.
        settled: whether noise and overflow are those that `resolved` found for the epsilons.
        data_kind: what the records are, images, texts or tables, which the defaults follow.
        cheap: take fewer steps.
        epochs: instead of steps: steps = epochs / rate.
        chosen: names of settings that nobody gave, which `resolved` finds
            (`extensions.runs.config.defaults`).
    """

    backend: str = "crypten"
    provider: Provider = "dealer"
    data: str = "digits"
    facts: Mapping[str, Any] = field(default_factory=dict, hash=False)
    features: str = "raw"
    evaluate: Evaluate = "mpc"
    metrics: Metrics | None = None
    count_noise: Annotated[float, POSITIVE] = 5.0
    seed_data: Annotated[int, Whole(0)] = 0
    insecure_seed: Annotated[
        int | None, Option(name="insecure-fixed-randomness"), Whole(0, 2**63 - 1, "in 0..2^63 - 1")
    ] = None
    settled: bool = False
    data_kind: Kind = "tables"
    cheap: bool = False
    epochs: Annotated[
        float | None, Between(0.0, 1e6, above=True, below=True, words="positive, below 1e6")
    ] = None
    chosen: tuple[str, ...] = ()

    @property
    def grid(self) -> CellGrid | None:
        """Cells of an additive model's columns; None of other models, or without a schema."""
        if self.model != ADDITIVE or (schema := Schema.of_facts(self.facts)) is None:
            return None
        return CellGrid(schema, self.cells)

    @property
    def encoder(self) -> Adapted | None:
        """The encoder whose adapters are learnt, read from its folder; None of other models."""
        sizes = lora_sizes(self.model)
        return None if sizes is None else adapted(self.features, sizes.rank)

    def spec(self, features: int = 1, *, whole: bool = False) -> ModelSpec:
        """Returns the model as in `extensions.protocols.settings.Model.spec`."""
        grid = self.grid
        return super().spec(features if grid is None else grid.size, whole=whole)

    @property
    def judged(self) -> Metrics:
        """What is counted on held-out records."""
        if self.classes == 1:
            return "all"
        return self.metrics or ("all" if "schema target" in self.facts else "accuracy")
