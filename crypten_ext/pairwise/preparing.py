"""All tuples of a run made beforehand: each party writes its own file, of use once.

If a party is lost, what was made stays in a file beside. When all prepare the same again, they go
on from as many tuples as every party has. These are sealed under a new key, so that no number of a
frame serves twice under one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crypten_ext.dealer import messages
from crypten_ext.dealer.material import (
    GENERATION,
    MADE_BY,
    Header,
    Material,
    check_matching,
    unusable,
)
from crypten_ext.dealer.messages import Tag
from crypten_ext.dealer.recipes import STANDING, recipe_of
from crypten_ext.dealer.requests import Request
from crypten_ext.dealer.writing import Writer
from crypten_ext.masks.keystream import KEY_BYTES
from crypten_ext.pairwise import maker
from crypten_ext.pairwise.maker import Maker, portions
from crypten_ext.world import exchange
from extensions.errors import ArgumentError, MaterialError, PeaError
from extensions.protocols.agreement import exchange_bytes
from extensions.ring.fixed_point import Integers

from crypten import communicator

RUN_BYTES = 16
TUPLES = "tuples"
"""A setting of the run: what names the list of them."""


def prepare(
    path: Path,
    requests: Sequence[Request],
    settings: dict[str, Any],
    progress: Callable[[int], None] = lambda done: None,
) -> None:
    """Writes this party's file; all parties call it, with the same requests and settings.

    `progress` is called with the number of tuples made so far.

    Guarantees:
        The file has its name once all parties have all tuples. What was made before a party was
        lost lies in ``PATH.partial``, of mode 0600; the next call for the same tuples and settings
        goes on with it.

    Raises:
        ArgumentError: more than four parties.
        PartyLostError: a party is lost; it is named.
        CiphertextError, TransferError: a party sent what cannot be used; it is named.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    world = communicator.get()
    rank, parties = world.get_rank(), world.get_world_size()
    settings = settings | {MADE_BY: "parties", TUPLES: digest_of(requests)}
    partial = path.with_name(path.name + ".partial")
    before = _unfinished(partial, rank, parties, settings, len(requests))
    run, kept = _agreed(before)
    header = Header(run=run, rank=rank, parties=parties, tuples=len(requests), settings=settings)
    following = path.with_name(path.name + ".following")
    following.unlink(missing_ok=True)
    with Writer(following, os.urandom(KEY_BYTES), header) as file:
        standing = _copy(before, requests[:kept], file)
        file.flush()
        following.rename(partial)
        progress(kept)
        together = Maker(rank, parties, world.main_group)
        together.peers.standing.update(standing)
        for portion in portions(requests[kept:], parties):
            for request, shares in zip(portion, together.make(portion), strict=True):
                words = torch.cat([share.reshape(-1) for share in shares]).numpy()
                tag = Tag(GENERATION, kept, request.digest)
                file.write(messages.pack(tag, words))
                kept += 1
            file.flush()
            progress(kept)
    exchange([[kept]])  # all parties have all
    partial.rename(path)


def digest_of(requests: Sequence[Request]) -> str:
    """Returns what names a list of tuples."""
    return hashlib.sha256(b"".join(request.digest for request in requests)).hexdigest()[:32]


def _unfinished(
    partial: Path, rank: int, parties: int, settings: dict[str, Any], tuples: int
) -> Material | None:
    """Returns what an earlier call has left of the same tuples, if anything."""
    with suppress(ArgumentError, MaterialError):
        material = Material(partial)
        header = material.header
        found = header.rank, header.parties, header.tuples, header.settings
        if found == (rank, parties, tuples, settings):
            return material
        material.finish()
    return None


def _agreed(before: Material | None) -> tuple[str, int]:
    """Returns what the run is called, and how many tuples all parties have; two rounds."""
    run = bytes(RUN_BYTES) if before is None else bytes.fromhex(before.header.run)
    count = 0 if before is None else sum(1 for _ in before.unfinished())
    said = exchange_bytes(exchange, [run + os.urandom(RUN_BYTES) + count.to_bytes(8, "big")])
    runs = {each[:RUN_BYTES] for each in said}
    counts = [int.from_bytes(each[2 * RUN_BYTES :], "big") for each in said]
    if len(runs) == 1 and min(counts):
        return run.hex(), min(counts)
    drawn = b"".join(each[RUN_BYTES : 2 * RUN_BYTES] for each in said)
    return hashlib.sha256(drawn).hexdigest()[: 2 * RUN_BYTES], 0


def _copy(
    before: Material | None, requests: Sequence[Request], file: Writer
) -> dict[int, Integers]:
    """Copies the first tuples, and returns masks among them that later ones take, by number."""
    standing: dict[int, Integers] = {}
    if before is not None:
        for number, (request, frame) in enumerate(zip(requests, before.unfinished(), strict=False)):
            file.write(frame)
            if request.kind == STANDING:
                words = np.frombuffer(messages.unpack(frame)[1], dtype=np.int64)
                standing[number] = words.reshape(
                    recipe_of(request).masks[0].shape_at(before.header.rank)
                )
        before.finish()
    return standing


class Prepared:
    """The tuples of a file, in the order in which they were made.

    Raises ArgumentError if a dealer made it, MaterialError if it was used before.
    """

    def __init__(self, material: Material) -> None:
        if material.header.settings.get(MADE_BY) != "parties":
            material.finish()
            raise unusable(str(material.path), "made by the parties, for {provider=parties}")
        material.begin()
        self._material, self.number = material, 0

    def deal(self, request: Request) -> list[torch.Tensor]:
        """Returns this party's shares of one tuple; MaterialError if another one was prepared."""
        recipe, rank = recipe_of(request), self._material.header.rank
        shapes = [piece.shape_at(rank) for piece in (*recipe.masks, *recipe.dependents)]
        sizes = [int(np.prod(shape)) for shape in shapes]
        words = self._material.take(self.number, request, sum(sizes))
        self.number += 1
        parts = torch.split_with_sizes(words, sizes)
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def begin_step(self) -> None:
        """Does nothing: all tuples are here already."""

    def close(self) -> None:
        """Closes the file, and empties it."""
        self._material.finish()


def use_material(path: Path, settings: dict[str, Any]) -> None:
    """Takes this party's tuples from its prepared file; every party calls this, with its own file.

    As `crypten_ext.dealer.use_material`, for files of `prepare`.

    Raises:
        ArgumentError, MaterialError: as there, in every party.
        PeaError: tuples were made already.
    """
    if maker.is_in_use():
        raise PeaError("Tuples were made already. Call use_material before the first computation.")
    maker.use(Prepared(check_matching(path, settings)))
