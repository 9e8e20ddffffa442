"""What an owner's player keeps of runs that another program directs: its own shares, in files."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from extensions.data.datasets import write_private
from extensions.errors import ArgumentError
from extensions.npz import read_npz
from extensions.protocols.host import unnamed
from extensions.ring.fixed_point import Integers
from extensions.runs.checkpoints import CheckpointOptions, Offer, PartyCheckpoints
from extensions.runs.model import Header, SharedModel, check_free, path_of, write_shares
from extensions.runs.model.shares import RANK

CHECKPOINT_REQUESTS = (
    "check",
    "settle",
    "write",
    "charge",
    "store",
    "mark",
    "write_result",
    "complete",
)
"""Methods of `PartyCheckpoints`."""
STORE_REQUESTS = ("vacant", "keep", *CHECKPOINT_REQUESTS, "save", "put", "get")
"""What a shelf is asked."""
earlier_run = partial(
    ArgumentError, "run", "an earlier one", "the one that began last", "Start again."
)
"""Makes the error of a request that is of no run, or of one before."""
FACTS = ("frac_bits", "save")
"""What a file of `put` has beside a server's share of a model; public."""
T = TypeVar("T")


def full_names(kind: str, arrays: Mapping[str, T]) -> dict[str, T]:
    """Returns arrays by names that begin with the kind, which is shares, outputs or put."""
    return {f"{kind} {name}": array for name, array in arrays.items()}


def put(folder: Path, rank: int, facts: Mapping[str, Any], arrays: Mapping[str, Integers]) -> Path:
    """Returns where a server's share of a model is written, with `FACTS` and its rank."""
    return write_private(path_of(folder, rank), **facts, **{RANK: rank}, **arrays)


def get(folder: Path, rank: int) -> dict[str, Any]:
    """Returns all that `put` wrote but the rank, which files of earlier versions do not have."""
    path = path_of(folder, rank)
    try:
        found = read_npz(path)
    except ValueError as error:
        allowed = "a file that save_shares wrote"
        raise ArgumentError("folder", str(path), allowed, str(error), code="file") from error
    own = np.asarray(found.pop(RANK, rank)).tolist()
    if own != rank:
        given = f"{path}, the share of server {own}"
        raise ArgumentError("folder", given, f"the share of server {rank}", code="file")
    return found


class PlayerShareStore:
    """The shares that one owner keeps of one run, as `PartyCheckpoints` and `write_shares` do.

    What the run resumes from, or a model is restored from, is in `arrays` by `full_names`.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Integers] = {}
        self._keeper = ""
        self._party: PartyCheckpoints | None = None

    def answer(
        self, what: str, keeper: str, fields: dict[str, Any], arrays: Sequence[Integers]
    ) -> Any:
        """Returns the answer to one of the requests `STORE_REQUESTS`, for JSON.

        The client of a run is known by `keeper`. "arrays" of the fields has the names, by kind, of
        the arrays that came with the request. Another client that has come since is refused.
        """
        words, kinds = iter(arrays), fields.pop("arrays").items()
        fields |= {kind: {name: next(words) for name in names} for kind, names in kinds}
        if what == "keep":
            self._keeper = keeper
        if what not in CHECKPOINT_REQUESTS:
            return getattr(self, f"_{what}")(**fields)
        party = self._party
        if keeper != self._keeper or party is None:
            raise earlier_run()
        call = partial(self._settle, party) if what == "settle" else getattr(party, what)
        return {"answer": call(**fields), "released": party.released}

    def _vacant(self, folder: str, kept: str | None, resume: bool) -> None:
        of_run = None if kept is None else CheckpointOptions(folder=Path(kept), resume=resume)
        check_free(Path(folder), of_run)

    def _keep(
        self, folder: str, every: int | None, resume: bool, rank: int, **settings: Any
    ) -> dict[str, Any]:
        options = CheckpointOptions(folder=Path(folder), every=every, resume=resume)
        self.arrays = {}
        self._party = PartyCheckpoints(options, rank, **settings)
        return {"offer": self._party.offer().to_bytes().decode(), "entry": self._party.entry}

    def _put(self, folder: str, **given: Any) -> str:
        return str(put(Path(folder), **given))

    def _get(self, folder: str, rank: int) -> dict[str, Any]:
        found = get(Path(folder), rank)
        facts = {name: found.pop(name).tolist() for name in FACTS if name in found}
        self.arrays |= full_names("put", found)
        return {"facts": facts, "names": [*found]}

    def _save(
        self, folder: str, rank: int, header: str, save: Sequence[int], parts: Any, **names: Any
    ) -> None:
        known, own = Header.of_json(header), unnamed(parts)
        shared = SharedModel(header=known, save=tuple(save), rank=rank, parts=own, **names)
        write_shares(path_of(Path(folder), rank), shared)

    def _settle(self, party: PartyCheckpoints, offers: Sequence[str]) -> dict[str, Any]:
        base = party.settle([Offer.from_bytes(each.encode()) for each in offers])
        if base is None:
            return {"base": None, "spent": party.spent}
        self.arrays = {**full_names("shares", base.shares), **full_names("outputs", base.outputs)}
        named = {"shares": [*base.shares], "outputs": [*base.outputs]}
        return {"base": {**vars(base), **named}, "spent": party.spent}
