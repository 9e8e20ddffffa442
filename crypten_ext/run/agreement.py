"""What all parties must agree on before anything is shared, and who disagrees."""

import hashlib
import struct
from dataclasses import astuple, dataclass

import torch

from extensions.errors import ArgumentError

from crypten import communicator


@dataclass(frozen=True)
class Announcement:
    """Public facts about one party's records.

    Attributes:
        records: their number.
        features: columns of the features.
        classes: outputs that the labels need.
        columns: columns of the labels if they are targets, 0 if they are integers.
    """

    records: int = 0
    features: int = 0
    classes: int = 0
    columns: int = 0


def agree(
    own: Announcement, settings: tuple[float, ...], problem: ArgumentError | None
) -> list[Announcement]:
    """Returns every party's announcement, or fails in every party; one round.

    Args:
        own: what this party announces.
        settings: numbers that must be equal everywhere.
        problem: what is wrong with this party's own records, if anything.

    Raises:
        ArgumentError: `problem` in the party that has one; in the others, who it was. Likewise
            where settings or the widths of features or targets differ.
    """
    digest = hashlib.sha256(struct.pack(f"{len(settings)}d", *settings)).digest()[:7]
    message = torch.tensor(
        [int(problem is not None), int.from_bytes(digest, "big"), *astuple(own)], dtype=torch.int64
    )
    everybody = [t.tolist() for t in communicator.get().all_gather(message)]
    if problem is not None:
        raise problem
    failed = [rank for rank, row in enumerate(everybody) if row[0]]
    if failed:
        raise ArgumentError(
            "records",
            f"refused by party {failed[0]}",
            "valid at every party",
            f"Nothing was shared. The reason is in the output of party {failed[0]}.",
        )
    odd = [rank for rank, row in enumerate(everybody) if row[1] != everybody[0][1]]
    if odd:
        raise ArgumentError(
            "settings",
            f"different at party {odd[0]} than at party 0",
            "equal at every party",
            "Start all parties with the same arguments and crypten.cfg.",
        )
    announcements = [Announcement(*row[2:]) for row in everybody]
    widths = {a.features for a in announcements if a.records}
    if len(widths) > 1:
        raise ArgumentError(
            "x", f"rows of {sorted(widths)} features", "of one width at every party"
        )
    outputs = max(a.classes for a in announcements)
    if any(a.columns not in (0, outputs) for a in announcements):
        needed = sorted({a.classes for a in announcements if a.records})
        raise ArgumentError("y", f"labels for {needed} classes", "for one number of classes")
    return announcements
