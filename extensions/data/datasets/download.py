"""Files from where they are published, kept only if they have their published digest."""

import hashlib
import tarfile
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from extensions import durable
from extensions.errors import ArgumentError

TIMEOUT = 30.0
CHUNK = 1 << 20


@dataclass(frozen=True)
class Published:
    """A file: its address, and the digest that its publisher gives, as ``algorithm:hex``."""

    url: str
    digest: str

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.url.rpartition("/")[2]


def fetch(published: Published, folder: Path) -> Path:
    """Returns the file in the folder, which is downloaded and checked if it is not there.

    A file appears under its name only whole and with the right digest.
    """
    path = folder / published.name
    if path.is_file():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    algorithm, _, expected = published.digest.partition(":")
    digest = hashlib.new(algorithm, usedforsecurity=False)
    try:
        with (
            durable.write(path) as out,
            urllib.request.urlopen(published.url, timeout=TIMEOUT) as response,
        ):
            while chunk := response.read(CHUNK):
                digest.update(chunk)
                out.write(chunk)
            if digest.hexdigest() != expected:
                allowed = f"a file of {algorithm} {expected}"
                advice = f"What came has {digest.hexdigest()}."
                raise ArgumentError("download", published.url, allowed, advice, code="file")
    except (urllib.error.URLError, HTTPException, OSError) as error:
        if isinstance(error, urllib.error.HTTPError):  # it is an answer, whose socket is open
            error.close()
        allowed = "reachable from this machine"
        advice = f"{error}. Download it elsewhere and give its folder as {{data_dir}}."
        raise ArgumentError("download", published.url, allowed, advice) from error
    return path


def fetch_folder(published: Published, folder: Path, name: str) -> Path:
    """Returns the folder of that name in a published archive, unpacked into `folder`, whole."""
    unpacked = folder / name
    if not unpacked.is_dir():
        path = fetch(published, folder)
        with tempfile.TemporaryDirectory(dir=folder) as part, tarfile.open(path) as archive:
            archive.extractall(part, filter="data")
            (Path(part) / name).replace(unpacked)
    return unpacked
