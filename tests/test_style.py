"""What every reader may rely on: small folders, small functions, one spelling of sections."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.helpers.paths import ROOT

PACKAGES = ("extensions", "crypten_ext", "tfe_ext", "fl", "benchmarks")
MODULES, PARAMETERS, LINES = 15, 8, 60
Function = ast.FunctionDef | ast.AsyncFunctionDef

HOSTS_SIGNATURES = {"tfe_ext/aby3/protocol.py:ABY3._ot"}
"""Methods that override a host's, with its parameters."""
VOCABULARY = {
    "crypten_ext/nn/optim.py:DPSGD.__init__",
    "extensions/estimator/estimators.py:_Private.__init__",
    "tfe_ext/keras/optimizers.py:DPSGD.__init__",
    "tfe_ext/keras/sequential.py:Sequential.fit",
}
"""Public calls, whose keyword-only parameters are those of a host, Opacus or scikit-learn."""

NAMED_BY_OTHERS = {
    "benchmarks/instruments/child_process.py",  # a task of another process
    "benchmarks/instruments/flower_copies.py",  # what a deployment asks for
    "benchmarks/network/calling.py",  # a task of another process
    "crypten_ext/compat.py",  # the hosts' modules, after what makes them importable
    "extensions/errors.py",  # a package that an extra installs
    "extensions/lazy_names.py",  # names of a package, when they are used
    "extensions/options/kinds.py",  # what an option may choose
    "extensions/user_functions.py",  # a function of the user's
    "extensions/runs/processes/copies.py",  # what a launcher asks for
    "extensions/runs/processes/channel.py",  # a task of another process
    "tfe_ext/compat.py",
}
"""Where modules are imported by a name in a string, which import-linter cannot see."""


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """Returns the modules of our packages by their paths."""
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text())
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


def functions(node: ast.AST, place: str) -> Iterator[tuple[str, Function]]:
    """Yields every function with its place, such as ``fl/plain.py:PlainAggregator.sum``."""
    for child in ast.iter_child_nodes(node):
        inner = place
        if isinstance(child, ast.ClassDef | Function):
            inner += (":" if place.endswith(".py") else ".") + child.name
        if isinstance(child, Function):
            yield inner, child
        yield from functions(child, inner)


def parameters(function: Function, *, keyword_only: bool) -> int:
    """Returns the number of parameters, without an object's own."""
    given = function.args
    named = [*given.posonlyargs, *given.args, given.vararg, given.kwarg]
    named += given.kwonlyargs if keyword_only else []
    return len([one for one in named if one and one.arg not in ("self", "cls")])


def lines(function: Function) -> int:
    """Returns the number of lines of a function, without the examples that its docstring shows."""
    examples = (ast.get_docstring(function) or "").partition("\nExamples:\n")[2]
    shown = len(examples.splitlines()) + 2 if examples else 0  # the heading, and the line above it
    return function.end_lineno - function.lineno + 1 - shown


def test_no_folder_has_more_than_15_modules(trees):
    folders = [place.rpartition("/")[0] for place in trees]
    assert not {folder for folder in folders if folders.count(folder) > MODULES}


def test_functions_have_at_most_8_parameters_and_60_lines(trees):
    found = {place: one for path in trees for place, one in functions(trees[path], path)}
    large = {
        place
        for place, function in found.items()
        if lines(function) > LINES
        or parameters(function, keyword_only=place not in VOCABULARY) > PARAMETERS
    }
    assert large == HOSTS_SIGNATURES
    assert set(found) >= VOCABULARY


def test_modules_of_ours_are_never_imported_by_a_string(trees):
    names = {"import_module", "__import__"}
    places = {
        path
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names
    }
    assert places == NAMED_BY_OTHERS


def test_sections_of_docstrings_are_spelt_one_way(trees):
    """A heading stands alone on its line, with a colon, as Google's do."""
    spelt = "Args Attributes Cost Deviation Examples Guarantees Limits Raises Returns Source Yields"
    stems = "|".join(["Argument", *(name.rstrip("s") for name in spelt.split())])
    heading = re.compile(rf"^[ *]*(?:{stems})s?[ *]*[:.].*$", re.MULTILINE)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | Function):
                for line in heading.findall(ast.get_docstring(node) or ""):
                    assert line.strip() in {f"{one}:" for one in spelt.split()}, (path, line)
