"""Tuples dealt beforehand and kept on disk: one file a party, each of use for one run.

A file holds the party's key and one sealed frame for every tuple of the run: which tuple it is
and this party's portion of its correction. The first use overwrites the key, so that what stays
on disk opens nothing.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from crypten_ext.dealer import messages
from crypten_ext.dealer.messages import Tag
from crypten_ext.dealer.requests import Request
from crypten_ext.masks.keystream import KEY_BYTES, derive_key
from crypten_ext.world import exchange
from extensions import durable
from extensions.errors import ArgumentError, MaterialError
from extensions.protocols.agreement import Statement, Subject, agree

from crypten import communicator

MAGIC = b"tuples of one run, 1\n"
FRESH, USED = b"F", b"U"
LENGTH = struct.Struct(">I")
GENERATION = 0
MADE_BY = "made by"
"""A setting of the run: a dealer's files hold corrections, those of the parties shares."""
_MATERIAL = Subject("material", "valid at every party", "No file was used.", "file")
_STATE_AT = len(MAGIC)
_KEY_AT = _STATE_AT + len(FRESH)
_HEADER_AT = _KEY_AT + KEY_BYTES
_LONGEST_HEADER = 1 << 20
_REGISTRY = "used-material"
_AGAIN = "Prepare new files with `pea prepare`, and give each party its own."


def unusable(given: str, rule: str, hint: str = "") -> ArgumentError:
    """Returns the error about a file of material that cannot be used."""
    return ArgumentError("material", given, rule, hint, code="file")


@dataclass(frozen=True, kw_only=True)
class Header:
    """What is public about a file.

    `run` names the run that it was dealt for, the same at all parties. Another run, with other
    `settings`, asks for other tuples.
    """

    run: str
    rank: int
    parties: int
    tuples: int
    settings: dict[str, Any]

    def check(self, rank: int, settings: dict[str, Any]) -> None:
        """Raises ArgumentError if the file is another party's, or for another run."""
        if self.rank != rank:
            raise unusable(f"the file of party {self.rank}", f"party {rank}'s")
        for name, value in self.settings.items():
            if settings.get(name, value) != value:
                raise unusable(
                    f"prepared for {name} = {value!r}",
                    f"prepared for {name} = {settings[name]!r}, as this run has it",
                    "Prepare it with the options of the run.",
                )


class Seal:
    """AES-256-GCM with a counter, so that a frame opens only in its place."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(derive_key(key, "frames of prepared tuples"))
        self._count = 0

    def close(self, message: bytes) -> bytes:
        """Returns the next frame."""
        return self._cipher.encrypt(self._next(), message, None)

    def open(self, sealed: bytes) -> bytes:
        """Returns what the next frame holds; InvalidTag if it is altered or not the next."""
        return self._cipher.decrypt(self._next(), sealed, None)

    def _next(self) -> bytes:
        self._count += 1
        return self._count.to_bytes(12, "big")


class Material:
    """One party's prepared tuples.

    Raises:
        ArgumentError: no such file, others than its owner may read it, or it is damaged.
        MaterialError: it was used before.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file: BinaryIO = path.open("r+b")
        except OSError as error:
            raise unusable(str(path), "a file of `pea prepare`") from error
        try:
            self.header = self._read_header()
            self._check_unused()
        except BaseException:
            self._file.close()
            raise
        self._frames_at = self._file.tell()
        self._seal: Seal | None = None

    def _read_header(self) -> Header:
        if os.fstat(self._file.fileno()).st_mode & 0o077:
            raise unusable(
                f"{self.path}, which others may read",
                "readable by its owner only",
                f"Type: chmod 600 {self.path}",
            )
        damaged = unusable(str(self.path), "an undamaged file of `pea prepare`")
        start = self._file.read(_HEADER_AT)
        length = self._file.read(LENGTH.size)
        if not start.startswith(MAGIC) or len(length) < LENGTH.size:
            raise damaged
        try:
            plain = self._file.read(min(LENGTH.unpack(length)[0], _LONGEST_HEADER))
            header = Header(**json.loads(plain))
            if [type(each) for each in vars(header).values()] != [str, int, int, int, dict]:
                raise ValueError("a value of another kind")
            return header
        except (TypeError, ValueError, RecursionError) as error:
            raise damaged from error

    def _check_unused(self) -> None:
        state = os.pread(self._file.fileno(), len(FRESH), _STATE_AT)
        if state != FRESH or durable.contains(_REGISTRY, self._name):
            raise self._used()

    def _used(self) -> MaterialError:
        return MaterialError(
            f"{self.path} was used before, and masks that are used twice reveal secrets. {_AGAIN}"
        )

    @property
    def _name(self) -> str:
        return f"{self.header.run} {self.header.rank}"

    def begin(self) -> bytes:
        """Returns the key of this party's streams; from here on nobody can use the file again.

        Raises MaterialError if it was used since it was opened.
        """
        file = self._file.fileno()
        key = os.pread(file, KEY_BYTES, _KEY_AT)
        if not durable.add_once(_REGISTRY, self._name):
            self.finish()
            raise self._used()
        os.pwrite(file, USED + bytes(KEY_BYTES), _STATE_AT)
        os.fsync(file)
        self._seal = Seal(key)
        return key

    def take(self, sequence: int, request: Request, words: int) -> torch.Tensor:
        """Returns this party's `words` of the correction of the tuple with this number.

        Raises MaterialError if another tuple was prepared.
        """
        if sequence >= self.header.tuples:
            raise MaterialError(
                f"The run asks for more than the {self.header.tuples} tuples that were prepared. "
                + _AGAIN
            )
        tag, payload = messages.unpack(self._next_frame())
        if tag != Tag(GENERATION, sequence, request.digest) or len(payload) != 8 * words:
            raise MaterialError(
                f"The run asks for another tuple (number {sequence}) than was prepared, because it "
                "has other settings or sizes. " + _AGAIN
            )
        if not words:
            return torch.empty(0, dtype=torch.int64)
        return torch.frombuffer(bytearray(payload), dtype=torch.int64)

    def _next_frame(self) -> bytes:
        assert self._seal is not None
        try:
            return self._seal.open(self._sealed())
        except InvalidTag:
            raise MaterialError(f"{self.path} is damaged. {_AGAIN}") from None

    def _sealed(self) -> bytes:
        """The next frame as it lies in the file, without more memory than the file has bytes."""
        length = self._file.read(LENGTH.size)
        size = LENGTH.unpack(length)[0] if len(length) == LENGTH.size else 0
        return self._file.read(min(size, os.fstat(self._file.fileno()).st_size))

    def unfinished(self) -> Iterator[bytes]:
        """Yields the messages of an incomplete file, up to its last whole frame.

        This does not use the file: who goes on writing it seals them anew.
        """
        self._file.seek(self._frames_at)
        seal = Seal(os.pread(self._file.fileno(), KEY_BYTES, _KEY_AT))
        while sealed := self._sealed():
            try:
                message = seal.open(sealed)
            except InvalidTag:
                return
            yield message

    def expected(self, count: int) -> Sequence[Request]:
        """Returns none: what comes next is not known before it is asked for."""
        return ()

    def take_ahead(self, sequence: int, request: Request, words: int) -> torch.Tensor | None:
        """Returns None: nothing is expected."""

    def begin_step(self, sequence: int) -> None:
        """Does nothing: all tuples are here already."""

    def finish(self) -> None:
        """Closes the file, and empties it if it was used."""
        if not self._file.closed:
            with self._file:
                if self._seal is not None:
                    self._file.truncate(self._frames_at)


def check_matching(path: Path, settings: dict[str, Any]) -> Material:
    """Returns this party's material if every party has its own of one run; one round.

    Raises ArgumentError or MaterialError at every party if one party's file cannot be used, and
    ArgumentError if the files are of different runs.
    """
    world = communicator.get()
    material: Material | None = None
    stated: Statement | None = None
    problem: ArgumentError | MaterialError | None = None
    try:
        material = Material(path)
        material.header.check(world.get_rank(), settings)
        _check_parties(material, world.get_world_size())
        stated = Statement(run={"material": f"of run {material.header.run}"})
    except (ArgumentError, MaterialError) as error:
        problem = error
    try:
        agree(exchange, [()], stated, problem, _MATERIAL)
    except (ArgumentError, MaterialError):
        if material is not None:
            material.finish()
        raise
    assert material is not None
    return material


def _check_parties(material: Material, parties: int) -> None:
    prepared = material.header.parties
    if prepared != parties:
        raise unusable(f"prepared for {prepared} parties", f"prepared for {parties} parties")
