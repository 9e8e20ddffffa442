"""A file is there whole or as it was before; an entry is added to a registry once."""

import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from extensions import durable
from extensions.errors import ArgumentError
from tests.helpers.refused import refused


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_file_takes_its_place_for_its_owner_alone(tmp_path):
    path = tmp_path / "new" / "file"
    for content in (b"first", b"second"):
        with durable.write(path) as file:
            file.write(content)
            assert not path.exists() or path.read_bytes() == b"first"
        assert path.read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [*path.parent.iterdir()] == [path]


def test_a_block_that_fails_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"first")
    with pytest.raises(TypeError), durable.write(path) as file:
        file.writelines([b"half", None])
    assert path.read_bytes() == b"first"
    assert [*tmp_path.iterdir()] == [path]


def test_a_new_file_takes_the_place_of_none(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    with pytest.raises(TypeError), durable.write(path, anew=True) as file:
        file.writelines([b"half", None])
    assert not [*tmp_path.iterdir()]
    with durable.write(path, anew=True) as file:
        file.write(b"first")
    link.symlink_to(tmp_path / "nowhere")
    for taken in (path, link):
        with pytest.raises(FileExistsError), durable.write(taken, anew=True):
            pass
    assert path.read_bytes() == b"first"
    assert link.is_symlink()


def test_an_entry_is_new_once_whoever_asks():
    assert not durable.contains("used", "a 1")
    with ThreadPoolExecutor(8) as threads:
        answers = [*threads.map(durable.add_once, ["used"] * 8, ["a 1"] * 8)]
    assert sorted(answers) == [False] * 7 + [True]
    assert durable.contains("used", "a 1")
    assert not durable.contains("used", "a")
    assert not durable.contains("others", "a 1")


def test_a_name_keeps_the_value_that_was_claimed_first():
    assert durable.claimed("finished", "run 0") is None
    with ThreadPoolExecutor(8) as threads:
        values = {*threads.map(lambda i: durable.claim("finished", "run 0", f"v{i}"), range(8))}
    assert values == {durable.claimed("finished", "run 0")}
    assert durable.claim("finished", "run 1", "other") == "other"
    durable.add_once("finished", "alone 2")
    assert durable.claimed("finished", "alone 2") == ""
    assert durable.claim("finished", "alone 2", "value") == ""


@pytest.mark.parametrize("left", ["run 0 val", "run 0", "r"])
def test_an_entry_that_was_not_written_to_its_end_does_not_count(tmp_path, left):
    durable.claim("finished", "other 0", "value")
    path = tmp_path / "state" / "pea" / "finished"
    with path.open("a") as file:
        file.write(left)
    assert durable.claimed("finished", "run 0") is None
    assert not durable.contains("finished", left)
    assert durable.claim("finished", "run 0", "value") == "value"
    assert path.read_text() == "other 0 value\nrun 0 value\n"


def test_a_folder_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with refused("XDG_STATE_HOME", "file", str(tmp_path / "file/pea")):
        durable.contains("used", "a")


@pytest.mark.parametrize("given", ["state", "./state", "../state", "~/state", ".", " ", ""])
def test_a_relative_state_folder_is_none(tmp_path, monkeypatch, given):
    """Each working folder would have registries of its own: an entry would be new in each."""
    monkeypatch.setenv("XDG_STATE_HOME", given)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for number, folder in enumerate(("one", "two")):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        assert durable.add_once("used", "a 1") is (number == 0)
        assert durable.claim("finished", "run 0", folder) == "one"
        assert not [*(tmp_path / folder).iterdir()]
    assert durable.contains("used", "a 1")
    assert (tmp_path / "home" / ".local" / "state" / "pea" / "used").read_text() == "a 1\n"


def test_the_state_folder_needs_no_home(tmp_path, monkeypatch):
    monkeypatch.delenv("HOME")
    assert durable.add_once("used", "a 1")
    assert (tmp_path / "state" / "pea" / "used").exists()


@pytest.mark.parametrize("home", ["home", ".", None])
def test_a_home_that_is_relative_or_unknown_is_told(tmp_path, monkeypatch, home):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    if home is None:
        monkeypatch.delenv("HOME")
        monkeypatch.setattr("os.getuid", lambda: 3_999_999_999)
    else:
        monkeypatch.setenv("HOME", home)
    with pytest.raises(ArgumentError) as refused:
        durable.add_once("used", "a 1")
    assert refused.value.argument == "XDG_STATE_HOME"
    assert not [*tmp_path.iterdir()]
