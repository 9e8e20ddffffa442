"""One change of a program: a statement, found in the syntax tree, and what stands in its place.

Neither format nor comments matter, and a statement that moves takes its edit along by a name.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Block = list[ast.stmt]
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, kw_only=True)
class Edit:
    """Replaces a statement.

    Attributes:
        at: the module and, behind a colon, the class or function: `fl.rounds:Round.close`.
        old: a whole statement, of which there is one there; functions inside it do not count.
            `...` as a body stands for any body, so that `if found: ...` names an if.
        new: what comes instead, nothing if it is deleted. `...` as a body is what it stood for in
            `old`, in the same order.
    """

    at: str
    old: str
    new: str

    def file(self, tree: Path) -> Path:
        """Returns the module's file below a folder."""
        path = tree / self.at.partition(":")[0].replace(".", "/")
        return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")

    def find(self, program: ast.Module) -> tuple[Block, ast.stmt, list[Block]]:
        """Returns the block with the statement, the statement and the bodies that `...` stands for.

        Raises:
            LookupError: there is no such statement, or there are several.
        """
        [wanted] = ast.parse(self.old).body
        found = []
        for scope, block in _blocks(program):
            for statement in block if scope == self.at.partition(":")[2] else []:
                bodies: list[Block] = []
                if _fits(wanted, statement, bodies):
                    found.append((block, statement, bodies))
        if len(found) != 1:
            raise LookupError(f"{len(found)} statements in {self.at} are: {self.old}")
        return found[0]


def apply(edits: list[Edit], program: ast.Module) -> None:
    """Changes a program; every statement is found in what it was before.

    Raises:
        LookupError: a statement is not there, or there are several.
    """
    places = [(edit, *edit.find(program)) for edit in edits]
    for edit, block, statement, bodies in places:
        new = ast.parse(edit.new)
        _fill(new, iter(bodies))
        place = block.index(statement)
        block[place : place + 1] = new.body or ([ast.Pass()] if len(block) == 1 else [])


def _blocks(node: ast.AST, scope: str = "") -> Iterator[tuple[str, Block]]:
    """Yields every list of statements below a node, with the dotted name of where it stands."""
    for _, value in ast.iter_fields(node):
        if not isinstance(value, list):
            continue
        if value and isinstance(value[0], ast.stmt):
            yield scope, value
        for child in value:
            if isinstance(child, _SCOPES):
                yield from _blocks(child, f"{scope}.{child.name}".lstrip("."))
            elif isinstance(child, ast.AST):
                yield from _blocks(child, scope)


def _is_dots(value: Any) -> bool:
    """Tells whether this is a body that consists of `...`."""
    match value:
        case [ast.Expr(value=ast.Constant(value=constant))]:
            return constant is ...
    return False


def _fits(wanted: Any, found: Any, bodies: list[Block]) -> bool:
    """Tells whether two parts of a program are the same, and adds what `...` stands for."""
    if _is_dots(wanted) and found:
        bodies.append(found)
        return True
    if type(wanted) is not type(found):
        return False
    if isinstance(wanted, list):
        return len(wanted) == len(found) and all(map(_fits, wanted, found, [bodies] * len(found)))
    if isinstance(wanted, ast.AST):
        return all(_fits(part, getattr(found, k), bodies) for k, part in ast.iter_fields(wanted))
    return bool(wanted == found)


def _fill(node: ast.AST, bodies: Iterator[Block]) -> None:
    """Puts the bodies where `...` is."""
    for name, value in ast.iter_fields(node):
        if _is_dots(value):
            setattr(node, name, next(bodies, value))
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                _fill(child, bodies)
