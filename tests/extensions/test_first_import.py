"""A block around the first import of a module runs once, whoever imports it and however often."""

import importlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from types import ModuleType

import pytest

from extensions.first_import import FirstImport

NAME = "imported_once"


class Block:
    """What is done around the import: notes it, and imports the module itself at the end."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.finder = FirstImport(NAME, self)

    @contextmanager
    def __call__(self, module: ModuleType) -> Iterator[None]:
        self.done.append("before")
        assert not hasattr(module, "value")
        yield
        assert importlib.import_module(NAME) is module
        self.done.append(f"after {module.value}")


@pytest.fixture
def block(tmp_path, monkeypatch):
    """The block; the module imports itself, and fails where it finds a file `failing`."""
    folder = tmp_path / NAME
    folder.mkdir()
    (folder / "__init__.py").write_text(
        f"import pathlib, {NAME}\n"
        "if pathlib.Path(__file__).with_name('failing').exists():\n"
        "    raise ImportError('failing')\n"
        "value = 7\n"
    )
    (folder / "inner.py").write_text(f"from {NAME} import value\n")
    monkeypatch.syspath_prepend(tmp_path)
    block = Block()
    yield block
    block.finder.remove()
    for name in [one for one in sys.modules if one.partition(".")[0] == NAME]:
        del sys.modules[name]


@pytest.mark.parametrize("name", [NAME, f"{NAME}.inner"])
def test_the_first_import_is_in_the_block_and_no_later_one(block, name):
    importlib.import_module(name)
    assert block.done == ["before", "after 7"]
    assert block.finder not in sys.meta_path
    module = sys.modules[NAME]
    assert type(module.__loader__) is type(module.__spec__.loader) is SourceFileLoader
    importlib.reload(module)
    del sys.modules[NAME]
    importlib.import_module(NAME)
    assert block.done == ["before", "after 7"]


def test_a_search_imports_nothing_and_finds_all(block):
    for _ in range(2):
        spec = importlib.util.find_spec(NAME)
        assert spec.loader.is_package(NAME)
        assert "value = 7" in spec.loader.get_source(NAME)
        assert importlib.util.find_spec(f"{NAME}_of_another") is None
    assert block.done == []
    assert NAME not in sys.modules
    importlib.import_module(NAME)
    assert block.done == ["before", "after 7"]


def test_after_a_failure_the_next_import_is_the_first(block, tmp_path):
    failing = tmp_path / NAME / "failing"
    failing.touch()
    for _ in range(2):
        with pytest.raises(ImportError, match="failing"):
            importlib.import_module(NAME)
    failing.unlink()
    assert importlib.import_module(NAME).value == 7
    assert block.done == ["before"] * 3 + ["after 7"]


def test_threads_that_import_at_once_find_it_after_the_block(block):
    found = []
    start = threading.Barrier(8)

    def find(name: str) -> None:
        start.wait()
        found.append((importlib.import_module(name).value, [*block.done]))

    threads = [threading.Thread(target=find, args=(n,)) for n in [NAME, f"{NAME}.inner"] * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(7, ["before", "after 7"])] * 8
