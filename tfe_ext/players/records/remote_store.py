"""What a program asks of players: their owners' records, and to keep their shares of a run.

Each player keeps shares in files of its own, on its own host.
"""

import inspect
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.protocols.agreement import canonical
from extensions.protocols.host import named
from extensions.runs.checkpoints import (
    Checkpoint,
    CheckpointOptions,
    Offer,
    PartyCheckpoints,
    run_concurrently,
)
from extensions.runs.model import LocalShareStore, SharedModel
from tfe_ext.players.client import RemotePlayers
from tfe_ext.players.records.request_handler import ASK, TAKE
from tfe_ext.players.records.share_store import full_names, get, put

import tf_encrypted as tfe

_NOTHING: Mapping[str, Any] = {}
_ARRAYS = ("shares", "outputs", "opened")
"""Arguments of `PartyCheckpoints` that are arrays by name."""
_Parts = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class FarOwner:
    """An owner, as a client knows it: the name of its player, and that one's device."""

    name: str
    device: str

    def ask(self, what: str, arrays: Sequence[Any] = (), **fields: Any) -> Mapping[str, Any]:
        """Returns the owner's answer; see `RequestHandler.answer`.

        Arrays that go with the request stay on the owner's device if they are there; no word passes
        between servers. The owner's own output has the reason of a refusal, an ArgumentError here.
        """
        message = canonical({"ask": what, **fields})
        with tf.device(self.device):
            given = [tf.constant(message), *arrays]
            (said,) = tf.raw_ops.PyFunc(input=given, token=ASK, Tout=[tf.string])
        answer: dict[str, Any] = json.loads(said.numpy())
        if "none" in answer:
            advice = "Start it by `pea players` with its owner's {records}."
            raise ArgumentError("players", f"{self.name} without records", "owners", advice)
        if (refused := answer.get("refused")) is not None:
            text = f"refused by player {self.name}"
            advice = f"The reason is in the output of player {self.name}."
            name, rule, code = (refused[each] for each in ("name", "rule", "code"))
            raise ArgumentError(name, text, rule, advice, code=code)
        return answer

    def take(self, name: str) -> tf.Tensor:
        """Returns an array of the owner's as a tensor on its device; none of it comes here."""
        with tf.device(self.device):
            message = tf.constant(name)
            (tensor,) = tf.raw_ops.PyFunc(input=[message], token=TAKE, Tout=[tf.int64])
        return tensor


def ask_all(owners: Sequence[FarOwner], what: str, **fields: Any) -> list[Mapping[str, Any]]:
    """Returns the answers of all owners, who work at once; each hears its rank to prepare.

    The first refusal is raised once all have answered.
    """

    def ask(rank: int) -> Mapping[str, Any]:
        own: dict[str, Any] = {"rank": rank} if what == "prepare" else {}
        return owners[rank].ask(what, **fields, **own)

    return run_concurrently(ask, range(len(owners)))


class RemoteShareStore:
    """The players' shelves, as the program that directs a run sees them.

    What is kept goes from a player's device to its own files, and back: it never comes here. All
    servers are asked at once; no word passes between them.
    """

    def __init__(self, owners: Sequence[FarOwner]) -> None:
        keeper = secrets.token_hex(8)
        self._shelves = [_RemoteStore(owner, keeper) for owner in owners]

    def checkpoints(
        self, options: CheckpointOptions, settings: Mapping[str, Any]
    ) -> list[PartyCheckpoints]:
        """Returns every server's checkpoints, whose folder is one at each player."""

        def begin(rank: int, shelf: _RemoteStore) -> PartyCheckpoints:
            return _RemoteCheckpoints(shelf, options, rank, **settings)

        return run_concurrently(begin, range(len(self._shelves)), self._shelves)

    def check_free(self, folder: Path, checkpoints: CheckpointOptions | None) -> None:
        """Checks that no player's folder has another run's model."""
        kept = None if checkpoints is None else str(checkpoints.folder)
        resume = checkpoints is not None and checkpoints.resume
        asked = {"folder": str(folder), "kept": kept, "resume": resume}
        run_concurrently(lambda shelf: shelf.ask("vacant", asked), self._shelves)

    def save(self, folder: Path, shared: Sequence[SharedModel]) -> None:
        """Writes every server's share in its player's folder, as `write_shares` does."""
        names = ("rank", "save", "entry", "run", "release")

        def save(shelf: _RemoteStore, own: SharedModel) -> None:
            facts = {name: getattr(own, name) for name in names}
            facts |= {"folder": str(folder), "header": own.header.to_json()}
            shelf.ask("save", facts, parts=named(own.parts))

        run_concurrently(save, self._shelves, shared)

    def kept(self, parts: _Parts) -> _Parts:
        """Returns tensors on the servers' devices as they are kept: there."""
        return parts

    def put(self, folder: Path, facts: Mapping[str, Any], parts: _Parts) -> list[Path]:
        """Returns where every player has written its server's share of a model, and `FACTS`."""

        def ask(rank: int, shelf: _RemoteStore, own: Mapping[str, Any]) -> Path:
            fields = {"folder": str(folder), "rank": rank, "facts": facts}
            return Path(shelf.ask("put", fields, arrays=own))

        return run_concurrently(ask, range(len(self._shelves)), self._shelves, parts)

    def get(self, folder: Path) -> _Parts:
        """Returns what `put` was given, as tensors on the servers' devices, and `FACTS`."""

        def ask(rank: int, shelf: _RemoteStore) -> Mapping[str, Any]:
            said = shelf.ask("get", {"folder": str(folder), "rank": rank})
            facts = {name: np.array(fact) for name, fact in said["facts"].items()}
            return {**facts, **shelf.take("put", said["names"])}

        return run_concurrently(ask, range(len(self._shelves)), self._shelves)


class LocalFileStore(LocalShareStore):
    """Files of this program, which directs servers that are devices of its own process."""

    def kept(self, parts: _Parts) -> _Parts:
        """Returns tensors as they are kept: in this program."""
        return [{name: np.asarray(part) for name, part in own.items()} for own in parts]

    def put(self, folder: Path, facts: Mapping[str, Any], parts: _Parts) -> list[Path]:
        """As `RemoteShareStore.put`."""
        return [put(folder, rank, facts, own) for rank, own in enumerate(self.kept(parts))]

    def get(self, folder: Path) -> _Parts:
        """As `RemoteShareStore.get`."""
        return [get(folder, rank) for rank in self._holders]


def share_store_on(devices: Sequence[str]) -> RemoteShareStore | LocalFileStore:
    """Returns where the servers on these devices keep their shares.

    Each does in its player's own files if the present configuration is `tfe_ext.remote_config`, and
    else this program does for all of them.
    """
    config = tfe.get_config()
    if not isinstance(config, RemotePlayers):
        return LocalFileStore(range(len(devices)))
    names = {player.device_name: player.name for player in config.players}
    return RemoteShareStore([FarOwner(names[device], device) for device in devices])


class _RemoteStore:
    """A player's `PlayerShareStore`, reached from here; it knows this program as its keeper."""

    def __init__(self, owner: FarOwner, keeper: str) -> None:
        self._owner, self._keeper = owner, keeper

    def ask(
        self, what: str, fields: Mapping[str, Any] = _NOTHING, **arrays: Mapping[str, Any]
    ) -> Any:
        """Returns what it answers to a request, with arrays of some kinds by their names."""
        names = {kind: [*own] for kind, own in arrays.items()}
        given = [each for own in arrays.values() for each in own.values()]
        text = json.dumps({**fields, "arrays": names})
        said = self._owner.ask(what, given, keeper=self._keeper, fields=text)
        return json.loads(said["said"])

    def take(self, kind: str, names: Sequence[str]) -> dict[str, Any]:
        """Returns its arrays of a kind, by name, as tensors on the player's device."""
        full = full_names(kind, {name: name for name in names})
        return {name: self._owner.take(each) for each, name in full.items()}


def _asked(method: str) -> Any:
    signature = inspect.signature(getattr(PartyCheckpoints, method))

    def ask(self: "_RemoteCheckpoints", *args: Any, **more: Any) -> Any:
        given = signature.bind(self, *args, **more).arguments
        fields = {name: each for name, each in given.items() if name not in ("self", *_ARRAYS)}
        return self.ask(method, fields, **{kind: given[kind] for kind in _ARRAYS if kind in given})

    return ask


class _RemoteCheckpoints(PartyCheckpoints):
    """A server's checkpoints, which its player has in place of this program.

    Words of releases on the way are none of them: `tfe_ext.run.backend.check` refuses such runs.
    """

    def __init__(
        self, shelf: _RemoteStore, options: CheckpointOptions, rank: int, **settings: Any
    ) -> None:
        super().__init__(options, rank, **settings)
        self._shelf = shelf
        asked = {"folder": str(options.folder), "every": options.every, "resume": options.resume}
        said = shelf.ask("keep", {**asked, "rank": rank, **settings})
        self._offered = Offer.from_bytes(said["offer"].encode())
        self._name: str = said["entry"]
        self._released = ("", "")
        self._any = any((self._offered.held, self._offered.stored, self._offered.charged))

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
            self.ask("check")

    def settle(self, offers: Sequence[Offer]) -> Checkpoint | None:
        said = self.ask("settle", {"offers": [each.to_bytes().decode() for each in offers]})
        base, self.spent = said["base"], said["spent"]
        if base is None:
            return None
        arrays = {kind: self._shelf.take(kind, base[kind]) for kind in ("shares", "outputs")}
        lists = {name: tuple(base[name]) for name in ("resumed", "recipients")}
        found = Checkpoint(**{**base, **lists, **arrays})
        self.resumed = (*found.resumed, found.step)
        return found

    write, charge, store, mark, write_result, complete = map(
        _asked, ("write", "charge", "store", "mark", "write_result", "complete")
    )

    def ask(self, what: str, fields: Mapping[str, Any] = _NOTHING, **arrays: Any) -> Any:
        """Returns what the player's own checkpoints answer."""
        said = self._shelf.ask(what, fields, **arrays)
        self._released = (said["released"][0], said["released"][1])
        self._any = self._any or what in ("write", "charge", "store")
        return said["answer"]
