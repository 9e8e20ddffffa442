"""Features on disk, so that they are taken once: for their owner alone, whole or not at all."""

import hashlib
import io
import json
from pathlib import Path

import numpy as np

from extensions import durable
from extensions.data.datasets.records import Raw
from extensions.data.features.extractor import Extractor, Features
from extensions.errors import ArgumentError
from extensions.machine import cache_home

FORMAT = "1"
DIGEST_BYTES = hashlib.sha256().digest_size


def digest_of(x: Raw) -> str:
    """Returns a digest of the records: of their kind, number, shape, and every value."""
    digest = hashlib.sha256(f"{x.dtype} {x.shape} ".encode())
    if x.dtype == object:
        for text in x:
            encoded = str(text).encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
    else:
        digest.update(np.ascontiguousarray(x).data)
    return digest.hexdigest()


class Cache:
    """Features by what they were taken from and how, in ``pea/features`` of the user's cache.

    A file begins with the SHA-256 of its rest, so that one that is damaged counts as absent; it
    appears under its name only whole; only its owner can read it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = cache_home() / "features" if folder is None else folder

    def path(self, extractor: Extractor, x: Raw) -> Path:
        """Returns the file of the features of these records."""
        assert extractor.identity is not None
        fixed = [FORMAT, extractor.name, sorted(extractor.identity.items()), digest_of(x)]
        return self._folder / hashlib.sha256(json.dumps(fixed).encode()).hexdigest()

    def read(self, path: Path) -> Features | None:
        """Returns the features in the file; None if there are none, or it is damaged."""
        try:
            content = path.read_bytes()
        except OSError:
            return None
        stated, body = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        if hashlib.sha256(body).digest() != stated:
            return None
        return np.load(io.BytesIO(body), allow_pickle=False)  # type: ignore[no-any-return]

    def write(self, path: Path, features: Features) -> None:
        """Writes the features to the file."""
        buffer = io.BytesIO()
        np.save(buffer, features, allow_pickle=False)
        body = buffer.getvalue()
        try:
            with durable.write(path) as file:
                file.write(hashlib.sha256(body).digest() + body)
        except OSError as error:
            raise ArgumentError(
                "XDG_CACHE_HOME",
                str(path.parent),
                "a folder that can be written",
                f"{error.strerror}. Or give {{feature_cache=False}}.",
                code="file",
            ) from error
