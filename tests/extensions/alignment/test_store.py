"""What is kept of an alignment: whole blocks, of one alignment, readable by its owner alone."""

import os
import stat

import pytest

from extensions.alignment import ListStore
from extensions.alignment.curve import POINT
from extensions.alignment.store import BLOCK


@pytest.fixture
def store(tmp_path):
    found = ListStore(tmp_path / "kept", "subject")
    found.begin("session")
    return found


def test_it_goes_on_from_the_last_whole_block(store, tmp_path):
    """Wherever it was interrupted: what stands behind the block is overwritten."""
    first, second = os.urandom(BLOCK * POINT), os.urandom(7 * POINT)
    store.append("list-0-1", 0, first)
    store.append("list-0-1", BLOCK, second[: 3 * POINT])
    path = tmp_path / "kept" / "list-0-1.part"
    path.write_bytes(path.read_bytes()[:-5])
    again = ListStore(tmp_path / "kept", "subject")
    assert again.counts() == {"list-0-1": BLOCK}
    assert not again.is_complete("list-0-1")
    again.append("list-0-1", BLOCK, second)
    assert again.begun("list-0-1") == first + second
    again.complete("list-0-1", again.begun("list-0-1"))
    assert again.is_complete("list-0-1")
    assert again.counts() == {"list-0-1": BLOCK + 7}
    assert [*again.blocks("list-0-1")] == [first, second]
    assert [*again.blocks("list-0-1", BLOCK)] == [second]
    assert [*again.blocks("list-0-1", BLOCK + 7)] == []


def test_another_subject_or_session_has_another_key(store, tmp_path):
    store.append("list-own", 0, bytes(POINT))
    same, other = (ListStore(tmp_path / "kept", subject) for subject in ("subject", "other"))
    assert (same.session, same.keys) == ("session", store.keys)
    assert other.session == ""
    same.begin("session")
    assert same.begun("list-own")
    same.begin("another session")
    assert same.keys != store.keys
    assert not same.counts()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"subject": 3}', "\x00"])
def test_what_is_damaged_does_not_count(store, tmp_path, text):
    (tmp_path / "kept" / "alignment.key").write_text(text)
    assert ListStore(tmp_path / "kept", "subject").session == ""


def test_only_its_owner_can_read_it(store, tmp_path):
    store.append("list-own", 0, bytes(POINT))
    store.complete("list-0-0", bytes(POINT))
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o700
    store.remove()
    assert not [*(tmp_path / "kept").iterdir()]
