"""Names of packages and what commands need are there before any host is imported."""

import ast
import json
import subprocess
import sys

import pytest

from extensions import lazy_names
from tests.helpers.paths import ROOT

HEAVY = ("crypten", "gmpy2", "tensorflow", "tf_encrypted", "tf_keras", "torch")
NOT_FOR_HELP = (*HEAVY, "cryptography", "dp_accounting", "onnx", "pyarrow", "scipy", "sklearn")
PACKAGES = ("crypten_ext", "fl", "tfe_ext")


def heavy_after(code: str, heavy: tuple[str, ...] = HEAVY) -> list[str]:
    """Returns which of the heavy packages the code has imported, in a process of its own."""
    code = f"import json, sys\n{code}\nprint(json.dumps([n for n in {heavy} if n in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_alone_imports_nothing_heavy(package):
    names = "__version__, __all__"
    assert heavy_after(f"from {package} import {names}; import {package}; dir({package})") == []


def test_commands_and_backends_are_read_without_their_hosts():
    assert (
        heavy_after("""
from importlib.metadata import entry_points
for group in ("pea.backends", "pea.commands"):
    for point in entry_points(group=group):
        point.load()
""")
        == []
    )


def test_help_imports_nothing_that_computes_and_looks_for_no_garbage_in_the_rest():
    code = """
import gc
from extensions.cli.main import PeaCommands
PeaCommands.call("pea", "train", "--help")
assert gc.isenabled()
assert gc.get_freeze_count() > 0
"""
    assert heavy_after(code, NOT_FOR_HELP) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_and_programs_see_the_same_names(package):
    tree = ast.parse((ROOT / package / "__init__.py").read_text())
    (checked,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imported = {
        (node.module, alias.name, alias.asname)
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    (table,) = [node.value for node in checked.orelse if ast.unparse(node).startswith("_MODULES")]
    named = {(module, n, n) for module, names in ast.literal_eval(table).items() for n in names}
    assert imported == named
    assert len({name for _, name, _ in named}) == len(named)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with a module `inner`, whose `value` is its own, and a module of its name."""
    folder = tmp_path / "lazy_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "inner.py").write_text("value = 7\n")
    (folder / "sibling.py").write_text("from lazy_package import inner\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "lazy_package"
    for name in [one for one in sys.modules if one.partition(".")[0] == "lazy_package"]:
        del sys.modules[name]


def test_a_name_is_imported_when_it_is_used(package):
    import lazy_package

    checks = []
    table = {f"{package}.inner": ("value",), package: ("sibling",)}
    lazy_package.__getattr__, lazy_package.__dir__ = lazy_names.lazy_names(
        package, table, lambda: checks.append(len(sys.modules))
    )
    assert {"value", "sibling"} <= set(dir(lazy_package))
    assert lazy_package.__all__ == ["value", "sibling"]
    assert f"{package}.inner" not in sys.modules
    assert not checks
    assert lazy_package.value == 7
    assert len(checks) == 1
    assert lazy_package.value == vars(lazy_package)["value"]
    assert lazy_package.sibling.inner is lazy_package.inner
    assert len(checks) == 2
    for name in ("nothing", "_inner", "__wrapped__"):
        with pytest.raises(AttributeError, match=f"'lazy_package' has no attribute '{name}'"):
            getattr(lazy_package, name)


def test_what_is_not_installed_is_said_before_a_name_is_imported(package):
    import lazy_package

    def refuse() -> None:
        raise ImportError("not here")

    table = {f"{package}.inner": ("value",)}
    lazy_package.__getattr__, _ = lazy_names.lazy_names(package, table, refuse)
    with pytest.raises(ImportError, match="not here"):
        _ = lazy_package.value
    assert f"{package}.inner" not in sys.modules
    assert lazy_package.inner.value == 7
