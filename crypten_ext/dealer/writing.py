"""Writing the files of prepared tuples (`crypten_ext.dealer.material`)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from crypten_ext.dealer import messages
from crypten_ext.dealer.material import FRESH, GENERATION, LENGTH, MAGIC, Header, Seal
from crypten_ext.dealer.messages import Tag
from crypten_ext.dealer.recipe import Shares
from crypten_ext.dealer.requests import Request
from crypten_ext.dealer.streams import correction_of, portion
from crypten_ext.masks.keystream import KEY_BYTES
from extensions.errors import ArgumentError


def prepare(
    folder: Path,
    parties: int,
    requests: Sequence[Request],
    settings: dict[str, Any],
    progress: Callable[[int], None] = lambda done: None,
) -> list[Path]:
    """Writes ``party-R.material`` for each party, and returns the paths.

    Whoever runs this knows all tuples, as a dealer does. The folder is made, for its owner only.

    Raises ArgumentError if the folder holds such a file already.
    """
    paths = paths_in(folder, parties)
    check_vacant(paths)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    run, keys = os.urandom(16).hex(), [os.urandom(KEY_BYTES) for _ in paths]
    dealers_key = os.urandom(KEY_BYTES)
    partial = [path.with_suffix(".partial") for path in paths]
    try:
        with ExitStack() as stack:
            files = []
            for rank, path in enumerate(partial):
                header = Header(
                    run=run, rank=rank, parties=parties, tuples=len(requests), settings=settings
                )
                files.append(stack.enter_context(Writer(path, keys[rank], header)))
            kept: dict[Request, Shares] = {}
            for sequence, request in enumerate(requests):
                tag = Tag(GENERATION, sequence, request.digest)
                correction = correction_of(keys, dealers_key, sequence, request, kept)
                for rank, file in enumerate(files):
                    own = portion(len(correction), sequence, rank, parties)
                    file.write(messages.pack(tag, correction[own]))
                progress(sequence + 1)
        for path, final in zip(partial, paths, strict=True):
            path.rename(final)
    finally:
        for path in partial:
            path.unlink(missing_ok=True)
    return paths


def paths_in(folder: Path, parties: int) -> list[Path]:
    """Returns where the parties' files are in a folder, by rank."""
    return [folder / f"party-{rank}.material" for rank in range(parties)]


def check_vacant(paths: Sequence[Path]) -> None:
    """Raises ArgumentError if one of the files is there already."""
    if taken := [path for path in paths if path.exists()]:
        raise ArgumentError("out", str(taken[0]), "a folder without prepared files", code="file")


class Writer:
    """A new file of mode 0600, complete on disk when it is left without an error.

    `key` is that of the party's streams, and seals the frames.
    """

    def __init__(self, path: Path, key: bytes, header: Header) -> None:
        self._file = os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")
        self._seal = Seal(key)
        plain = json.dumps(asdict(header)).encode()
        self._file.write(MAGIC + FRESH + key + LENGTH.pack(len(plain)) + plain)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        with self._file:
            self.flush()

    def flush(self) -> None:
        """What was written so far is on disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def write(self, message: bytes) -> None:
        """Adds a frame."""
        sealed = self._seal.close(message)
        self._file.write(LENGTH.pack(len(sealed)) + sealed)
