"""Where parties meet: each hears what the others are about to run, whoever comes when."""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
from torch.distributed import HashStore

from crypten_ext.processes import manifest_exchange
from crypten_ext.processes.manifest_exchange import compare_manifests
from extensions.errors import ArgumentError
from extensions.protocols.agreement import Statement
from tests.helpers.patience import PATIENCE, wait_until
from tests.helpers.refused import fields_of, refused

Found = dict[int, list[int] | str]


def meet(runs: Mapping[int, dict[str, Any] | None], seconds: float = PATIENCE) -> Found:
    """Returns by rank who was missing, or the error; parties without a run say what is none."""
    store = HashStore()

    def attempt(rank: int) -> list[int] | str:
        try:
            manifest = Statement(run=runs[rank] or {})
            return compare_manifests(store, rank, manifest, time.monotonic() + seconds)
        except ArgumentError as error:
            return fields_of(error)

    for rank in [rank for rank, run in runs.items() if run is None]:
        store.set(f"present/{rank}", "")
    present = [rank for rank, run in runs.items() if run is not None]
    with ThreadPoolExecutor(len(present)) as pool:
        return dict(zip(present, pool.map(attempt, present), strict=True))


THREE = {"parties": 3, "lr": 1.0}


def test_parties_with_one_manifest_meet():
    assert meet(dict.fromkeys(range(3), THREE)) == {0: [], 1: [], 2: []}


@pytest.mark.parametrize("odd", range(3))
def test_all_hear_who_has_another(odd):
    found = meet({rank: THREE | {"lr": 1.0 + (rank == odd)} for rank in range(3)})
    others = " and ".join(str(rank) for rank in range(3) if rank != odd)
    for message in found.values():
        assert f"1 at parties {others}" in str(message)
        assert f"2 at party {odd}" in str(message)


@pytest.mark.parametrize("odd", range(3))
@pytest.mark.parametrize(("most", "other"), [(3, 2), (3, 4)])
def test_a_number_of_parties_that_differs_is_no_reason_to_wait(odd, most, other, monkeypatch):
    """Whoever expects more parties than there are hears why they do not come."""
    monkeypatch.setattr(manifest_exchange, "_STRAGGLERS", 0.5)
    found = meet({rank: {"parties": other if rank == odd else most} for rank in range(3)})
    heard = [message for message in found.values() if "parties = " in str(message)]
    assert len(heard) == 3


def test_who_does_not_come_is_missed():
    assert meet({0: THREE, 2: THREE}, seconds=1.0) == {0: [1], 2: [1]}


def test_what_differs_is_told_though_somebody_is_missing():
    found = meet({0: THREE, 2: THREE | {"lr": 2.0}}, seconds=1.0)
    assert all("lr = 1 at party 0, 2 at party 2" in str(said) for said in found.values())


def test_a_party_that_states_nothing_is_named(monkeypatch):
    monkeypatch.setattr(manifest_exchange, "_GOODBYE", 0.2)
    found = meet({0: THREE, 1: None, 2: THREE})
    assert all("manifest = 'unreadable at party 1'" in str(said) for said in found.values())


def test_who_keeps_the_store_leaves_last():
    """Party 0 waits until party 1 has heard."""
    store = HashStore()
    store.set("present/1", Statement(run={"parties": 2, "lr": 2.0}).to_bytes().decode())
    own = Statement(run={"parties": 2, "lr": 1.0})
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(compare_manifests, store, 0, own, time.monotonic() + PATIENCE)
        wait_until(lambda: store.check(["heard/0"]), "what party 0 has heard")
        assert wait([told], timeout=0.5).not_done
        store.set("heard/1", "")
        with refused("lr", "value", "1 at party 0, 2 at party 1"):
            told.result(PATIENCE)


def test_who_waits_for_the_others_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(manifest_exchange, "_GOODBYE", 0.2)
    store = HashStore()
    store.set("present/1", "")
    with refused("manifest", "value", "unreadable at party 1"):
        compare_manifests(store, 0, Statement(run={"parties": 2}), time.monotonic() + PATIENCE)
