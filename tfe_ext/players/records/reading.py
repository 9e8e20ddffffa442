"""From an owner's own settings to the records that its player holds, for `pea players`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from extensions.checks import check_left_out
from extensions.cli import data
from extensions.data.datasets import is_table, read_party_file
from extensions.data.origin import FeatureExtraction, Origin, own_records
from extensions.errors import ArgumentError
from extensions.options import Options
from extensions.runs.budget import check_apart
from extensions.runs.budget.run_ledgers import ledgers_of
from extensions.runs.config import TrainConfig
from tfe_ext.players.addresses import SERVERS
from tfe_ext.players.records.owner import Held


@dataclass(frozen=True, kw_only=True)
class PlayerData:
    """What a player has of its owner.

    Attributes:
        records: this owner's .npz, .csv or .parquet file, which the player alone reads; where all
            players start on this host the folder that `pea split` wrote.
        table: which columns of a table are what.
        features: as in `pea train`, extracted here; by default the file holds features.
        extraction: how.
        classes: number of classes, if no names, schema or file says it.
        budget: ledger of the records (`pea budget`), a file or a folder; by default beside them.
            With none, no ledger is kept.
    """

    records: Path
    table: Annotated[Origin, Options(without=data.NOT_OF_A_TABLE)]
    features: str | None = None
    extraction: Annotated[FeatureExtraction, Options(without=("features",))]
    classes: int | None = None
    budget: Path | None = None

    def of(self, player: str | None) -> dict[str, Held]:
        """Returns the records of the player that starts here, or of all, by name, checked."""
        if player is not None and player not in SERVERS:
            given, rule = str(self.records), f"with {{player={player}}}"
            advice = f"Only {', '.join(SERVERS)} have owners."
            raise ArgumentError("records", given, rule, advice, code="conflict")
        if player is not None:
            return {player: self._held(self.records)}
        if not self.records.is_dir():
            allowed = "the folder of all players' files that `pea split` wrote"
            advice = "Or start one player with {player}."
            raise ArgumentError("records", str(self.records), allowed, advice, code="file")
        paths = [self.records / f"party-{rank}.npz" for rank in range(len(SERVERS))]
        held = {name: self._held(path) for name, path in zip(SERVERS, paths, strict=True)}
        check_apart([each.ledger for each in held.values()])
        return held

    def _held(self, records: Path) -> Held:
        if self.features is None:
            check_left_out("without {features}", weights=self.extraction.weights)
        own = own_records(records, self.table, self.classes)
        extraction = replace(self.extraction, features=self.features or TrainConfig.features)
        if self.features is not None or is_table(records):
            split = data.features_of(own, extraction)
        else:
            split = read_party_file(records)
        (ledger,) = ledgers_of([records], 1, self.budget)
        settings = {
            **own.settings,
            "features": self.features or own.recipe.get("features", TrainConfig.features),
            "max_feature_norm": self.extraction.max_feature_norm,
            "seed_data": self.table.seed,
        }
        return Held(split=split, settings=settings, ledger=ledger)
