"""Parties that were started by hand tell each other what they are about to run, where they meet.

It happens before CrypTen is set up: parties of different numbers, providers or widths would wait
for each other there without end, or break off without a word.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from extensions.errors import ArgumentError
from extensions.protocols.agreement import Statement, check_equal

_SAID, _HEARD = "present/", "heard/"
_ASKING = 0.1
_STRAGGLERS = 2.0
_GOODBYE = 5.0


def compare_manifests(store: Any, rank: int, manifest: Statement, deadline: float) -> list[int]:
    """Returns who has not come in time: nobody, once all parties are present and state the same.

    Args:
        store: at which they meet.
        rank: of this party.
        manifest: of this party; it says how many there are.
        deadline: by the monotonic clock, until which all must have come.

    Raises:
        ArgumentError: at every party that has come, whatever they differ in. Whoever keeps the
            store leaves last, so that all learn of it.
    """
    store.set(f"{_SAID}{rank}", manifest.to_bytes().decode())
    heard: dict[int, Statement] = {}
    try:
        missing = _hear(store, heard, manifest, deadline)
        check_equal(heard)
    except ArgumentError:
        store.set(f"{_HEARD}{rank}", "")
        _wait_for_all(store, heard)
        raise
    return missing


def _hear(store: Any, heard: dict[int, Statement], own: Statement, deadline: float) -> list[int]:
    """Hears the parties; returns those that have not come in time.

    Where parties do not even agree on their number, those that some expect and others do not have
    only moments to come. What one says that is no manifest is told when the others have been heard.
    """
    unreadable: list[ArgumentError] = []
    while True:
        numbers = {parties_of(each) for each in (own, *heard.values())}
        if len(numbers) > 1:
            deadline = min(deadline, time.monotonic() + _STRAGGLERS)
        missing = [one for one in range(max(numbers)) if one not in heard]
        came = [one for one in missing if store.check([f"{_SAID}{one}"])]
        for one in came:
            try:
                heard[one] = Statement.from_bytes(store.get(f"{_SAID}{one}"), one)
            except ArgumentError as error:
                heard[one] = own
                unreadable.append(error)
        if not missing or (not came and time.monotonic() >= deadline):
            if unreadable:
                raise unreadable[0]
            return missing
        if not came:
            time.sleep(_ASKING)


def parties_of(manifest: Statement) -> int:
    """Returns the number of parties that a manifest states."""
    stated = manifest.run.get("parties")
    return stated if isinstance(stated, int) else 0


def _wait_for_all(store: Any, parties: Collection[int]) -> None:
    """Returns when all of them have heard, or the time is over, or the store is gone."""
    deadline = time.monotonic() + _GOODBYE
    try:
        while time.monotonic() < deadline:
            if store.check([f"{_HEARD}{one}" for one in parties]):
                return
            time.sleep(_ASKING)
    except RuntimeError:  # whoever kept the store has left: all have heard
        return
