"""What is found in the tree that the rules of the house forbid, and how large its rooms are.

1. No public name of a package is defined in two of its modules.
2. A value is checked where it comes in: no rule about an argument stands in two modules.
3. No option (``--x``) stands in a string outside the modules of commands: errors have fields.
4. Each room has a budget of lines.
"""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.paths import ROOT

PACKAGES = ("extensions", "crypten_ext", "tfe_ext", "fl")
COMMANDS = (
    "extensions/cli/",
    "fl/cli/",
    "crypten_ext/run/commands.py",
    "crypten_ext/pencil/commands.py",
    "crypten_ext/pencil/__main__.py",
    "tfe_ext/players/command.py",
)
_OPTION = re.compile(r"(?:^|[\s`'(])--[a-z]")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

Found = dict[str, list[str]]
"""What breaks a rule, with the modules in which it stands."""


def modules(package: str) -> Iterator[tuple[str, ast.Module]]:
    """Yields the modules of a package by their paths."""
    for path in sorted((ROOT / package).rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def defined_twice() -> Found:
    """Returns the public names that several modules of one package define."""
    return _several(
        (f"{package}: {node.name}", path)
        for package in PACKAGES
        for path, tree in modules(package)
        for node in tree.body
        if isinstance(node, _DEFINITIONS) and not node.name.startswith("_")
    )


def checked_twice() -> Found:
    """Returns the arguments about which several modules of one package state the same rule."""
    return _several(
        (f"{package}: {argument}: {rule}", path)
        for package in PACKAGES
        for path, tree in modules(package)
        for argument, rule in _rules(tree)
    )


def _rules(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yields argument and rule of each error, and of each check by a rule that has a name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name, *rest = [*node.args, None]
        if not isinstance(name, ast.Constant):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "ArgumentError" and rest[1:]:
            rule = node.args[2]
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "check":
            rule = node.func.value
        else:
            continue
        if not (isinstance(rule, ast.Name) and rule.id.islower()):  # what a variable holds
            yield str(name.value), ast.unparse(rule)


def options_in_strings() -> Found:
    """Returns the sentences with options outside the modules of commands, but docstrings."""
    found: Found = {}
    for package in PACKAGES:
        for path, tree in modules(package):
            if not path.startswith(COMMANDS):
                found |= {f"{path}: {text}": [path] for text in _with_options(tree)}
    return found


def _with_options(tree: ast.Module) -> Iterator[str]:
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            is_sentence = " " in node.value  # and not a word of a command line
            yield from [node.value] if is_sentence and _OPTION.search(node.value) else []


def _several(places: Iterator[tuple[str, str]]) -> Found:
    found = defaultdict[str, set[str]](set)
    for what, path in places:
        found[what].add(path)
    return {what: sorted(paths) for what, paths in sorted(found.items()) if len(paths) > 1}


def budgets() -> dict[str, int]:
    """Returns the most lines of each room, by its folder or module."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return dict(settings["tool"]["pea"]["rooms"])


def size_of(room: str) -> int:
    """Returns the number of lines of a room: of its own modules and folders that are no rooms."""
    rooms = [ROOT / other for other in budgets() if other.startswith(f"{room}/")]
    return sum(
        len(path.read_text().splitlines())
        for path in (ROOT / room).rglob("*.py")
        if not any(path.is_relative_to(other) for other in rooms)
    )


EXCEPTIONS = Path(__file__).with_name("exceptions.json")
"""What breaks the first three rules still, by rule; later changes shorten it."""
RULES = {
    "defined twice": defined_twice,
    "checked twice": checked_twice,
    "options in strings": options_in_strings,
}
