"""Where players keep their servers' shares of a run: each in files of its own, on its own host."""

import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from extensions.protocols.host import named
from extensions.ring.fixed_point import Integers
from extensions.runs.checkpoints import Checkpoint, CheckpointOptions, Offer, PartyCheckpoints
from extensions.runs.model import SharedModel
from tfe_ext.players.records.asking import FarOwner
from tfe_ext.players.records.shelf import full_names

_NOTHING: Mapping[str, Any] = {}


class Shelves:
    """The players' shelves, as the program that directs a run sees them.

    Args:
        owners: the servers' players.

    Guarantees:
        What is kept goes from a player's device to its own files, and back: it never comes here.
    """

    def __init__(self, owners: Sequence[FarOwner]) -> None:
        keeper = secrets.token_hex(8)
        self._shelves = [_Shelf(owner, keeper) for owner in owners]

    def checkpoints(
        self, options: CheckpointOptions, settings: Mapping[str, Any]
    ) -> list[PartyCheckpoints]:
        """Returns every server's checkpoints.

        Args:
            options: what the user asks for; the folder is one at each player.
            settings: further arguments of `PartyCheckpoints`.
        """
        return [
            _FarCheckpoints(shelf, options, rank, **settings)
            for rank, shelf in enumerate(self._shelves)
        ]

    def save(self, folder: Path, shared: Sequence[SharedModel]) -> None:
        """Every server's share is in its player's folder, as `write_shares` writes it."""
        names = ("rank", "save", "entry", "run", "release")
        for shelf, own in zip(self._shelves, shared, strict=True):
            facts = {name: getattr(own, name) for name in names}
            facts |= {"folder": str(folder), "header": own.header.to_json()}
            shelf.ask("save", facts, named(own.parts))


class _Shelf:
    """A player's `Shelf`, from afar.

    Args:
        owner: the player.
        keeper: a word by which it knows this program.
    """

    def __init__(self, owner: FarOwner, keeper: str) -> None:
        self._owner, self._keeper = owner, keeper

    def ask(
        self, what: str, fields: Mapping[str, Any] = _NOTHING, arrays: Mapping[str, Any] = _NOTHING
    ) -> Any:
        """Returns what it answers."""
        text = json.dumps({**fields, "names": [*arrays]})
        said = self._owner.ask(what, [*arrays.values()], keeper=self._keeper, fields=text)
        return json.loads(said["said"])

    def take(self, kind: str, names: Sequence[str]) -> dict[str, Any]:
        """Returns its arrays of a kind, by name, as tensors on the player's device."""
        full = full_names(kind, {name: name for name in names})
        return {name: self._owner.take(each) for each, name in full.items()}


class _FarCheckpoints(PartyCheckpoints):
    """A server's checkpoints, which its player has in place of this program.

    Words of releases on the way are none of them: `tfe_ext.run.backend.check` refuses such runs.
    """

    def __init__(
        self, shelf: _Shelf, options: CheckpointOptions, rank: int, **settings: Any
    ) -> None:
        super().__init__(options, rank, **settings)
        self._shelf = shelf
        asked = {"folder": str(options.folder), "every": options.every, "resume": options.resume}
        said = shelf.ask("keep", {**asked, "rank": rank, **settings})
        self._offered = Offer.from_bytes(said["offer"].encode())
        self._name: str = said["entry"]
        self._released = ("", "")
        self._any = bool(self._offered.held or self._offered.stored)

    @property
    def entry(self) -> str:
        return self._name

    @property
    def kept(self) -> bool:
        return self._any

    @property
    def released(self) -> tuple[str, str]:
        return self._released

    def offer(self) -> Offer:
        return self._offered

    def check(self) -> None:
        if self._offered.problem:
            self._ask("check")

    def settle(self, offers: Sequence[Offer]) -> Checkpoint | None:
        base = self._ask("settle", {"offers": [each.to_bytes().decode() for each in offers]})
        if base is None:
            return None
        arrays = {kind: self._shelf.take(kind, base[kind]) for kind in ("shares", "outputs")}
        lists = {name: tuple(base[name]) for name in ("resumed", "recipients")}
        found = Checkpoint(**{**base, **lists, **arrays})
        self._resumed = (*found.resumed, found.step)
        return found

    def write(
        self,
        step: int,
        shares: Mapping[str, Integers],
        *,
        optimizer: Mapping[str, Any],
        source: Mapping[str, Any] | None,
    ) -> None:
        self._ask("write", {"step": step, "optimizer": optimizer, "source": source}, shares)
        self._any = True

    def store(
        self,
        shares: Mapping[str, Integers],
        outputs: Mapping[str, Integers],
        *,
        optimizer: Mapping[str, Any],
        source: Mapping[str, Any] | None,
    ) -> str:
        given = {**full_names("shares", shares), **full_names("outputs", outputs)}
        name: str = self._ask("store", {"optimizer": optimizer, "source": source}, given)
        self._any = True
        return name

    def mark(self) -> None:
        self._ask("mark")

    def write_result(self, report: str, opened: Mapping[str, npt.ArrayLike]) -> None:
        self._ask("result", {"report": report}, opened)

    def complete(self) -> None:
        self._ask("complete")

    def _ask(self, *asked: Any) -> Any:
        said = self._shelf.ask(*asked)
        self._released = (said["released"][0], said["released"][1])
        return said["answer"]
