"""The owners of a run whose records are in their own players: what the client's program has."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.privacy.sampling import OwnRecords
from extensions.protocols import pea
from extensions.protocols.agreement import Statement, check_equal
from extensions.protocols.host import Arrays
from extensions.public import Public
from extensions.runs.budget import Reservations
from extensions.runs.config import TrainConfig
from extensions.runs.local_training import account_for_start
from extensions.runs.manifest import flattened
from tfe_ext.players.addresses import SERVERS
from tfe_ext.players.client import RemotePlayers
from tfe_ext.players.records.remote_store import FarOwner, RemoteShareStore, ask_all

OwnerStatements = tuple[Mapping[str, Any], Sequence[Public]]
"""What owners say before a run: the settings that follow from their records, equal at all of them,
and what is public of each owner's records."""


class RemoteOwners:
    """The three servers as owners of records that stay with them."""

    def __init__(self, players: RemotePlayers) -> None:
        devices = [players.get_player(name).device_name for name in SERVERS]
        self._owners = [FarOwner(*each) for each in zip(SERVERS, devices, strict=True)]

    def statements(self) -> OwnerStatements:
        """Returns the settings that follow from the records, and what is public of each owner's.

        Raises ArgumentError if an owner has no records, or with all that differs and must not.
        """
        said = ask_all(self._owners, "state")
        public = [Public(**each["outline"]) for each in said]
        facts = [
            {**flattened(each["settings"]), **flattened(own.recipe), "columns": own.features}
            for each, own in zip(said, public, strict=True)
        ]
        check_equal({rank: Statement(run=each) for rank, each in enumerate(facts)})
        return said[0]["settings"], public

    def share_store(self) -> RemoteShareStore:
        """Returns where the players of one run keep their shares."""
        return RemoteShareStore(self._owners)

    def enter(self, config: TrainConfig, name: str) -> tuple[pea.LocalData, Reservations]:
        """Returns records that their owners checked and encoded, as tensors on the owners' devices.

        The owners have entered the run of that name in their ledgers; without a name it is in none.
        """
        train: list[OwnRecords] = []
        held_out: list[OwnRecords] = []
        problem, budget = None, Reservations()
        try:
            fields = {"run": name, "config": config.to_dict()}
            for owner, said in zip(
                self._owners, ask_all(self._owners, "prepare", **fields), strict=True
            ):
                train.append(_records(owner, "train", config, config.rows_per_unit, said["empty"]))
                held_out.append(_records(owner, "held_out", config))
            if name:
                budget = _Ledgers(self._owners, name)
                budget.reserve()
        except ArgumentError as error:
            train, held_out, problem = [], [], error

        def learn(rank: int, own: OwnRecords) -> Arrays:
            if not learnt:
                learnt.extend(ask_all(self._owners, "learn", run=name))
            parts = [self._owners[rank].take(f"local_{i}") for i in range(learnt[rank]["parts"])]
            return cast(Arrays, parts)

        learnt: list[Mapping[str, Any]] = []
        own = pea.LocalData(
            train=train,
            held_out=held_out,
            problem=problem,
            learn=learn,
            account=lambda ledger: account_for_start(ledger, config),
        )
        return own, budget


def _records(
    owner: FarOwner, which: str, config: TrainConfig, rows_per_unit: int = 1, empty: bool = False
) -> OwnRecords:
    return OwnRecords(
        features=owner.take(f"{which}_features"),
        labels=owner.take(f"{which}_labels"),
        frac_bits=config.frac_bits,
        rows_per_unit=rows_per_unit,
        empty=owner.take(f"{which}_empty") if empty else None,
    )


class _Ledgers(Reservations):
    """A run in the ledgers that owners keep beside their records; no number of them comes here."""

    def __init__(self, owners: Sequence[FarOwner], run: str) -> None:
        super().__init__()
        self._owners = owners
        self._run = run

    def reserve(self) -> None:
        """Enters the run in every ledger, or in none if one refuses it."""
        try:
            ask_all(self._owners, "reserve", run=self._run)
        except ArgumentError:
            self.free()
            raise

    def spend(self) -> None:
        """Spends the run in every ledger, before anything is opened."""
        ask_all(self._owners, "spend", run=self._run)

    def free(self) -> None:
        """Takes out what `reserve` entered, where its owner can still be asked."""
        for owner in self._owners:
            with suppress(ArgumentError, tf.errors.OpError):
                owner.ask("free", run=self._run)
