"""One change a function of a program, chosen by a fixed seed."""

import ast
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SEED = 59
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NOT_RUN = {"annotation", "returns", "decorator_list", "type_params"}
_COMPARED: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_COMPUTED: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Add, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
}  # fmt: skip
_TWINS = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"}


@dataclass(frozen=True)
class Change:
    """A function, what is changed in it, and the module's program after that."""

    function: str
    change: str
    file: Path
    program: str


def functions(program: ast.AST, name: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yields the functions that compute anything, also nested ones, with dotted names."""
    for child in ast.iter_child_nodes(program):
        inside = name
        if isinstance(child, (*_DEFINITIONS, ast.ClassDef)):
            inside = f"{name}.{child.name}".lstrip(".")
        if isinstance(child, _DEFINITIONS) and _computes(child):
            yield inside, child  # type: ignore[misc]
        yield from functions(child, inside)


def change_of(file: Path, module: str, name: str) -> Change | None:
    """Returns a change of the function, by which its name and text alone decide."""
    program = ast.parse(file.read_bytes())
    function = dict(functions(program))[name]
    by_kind = defaultdict(list)
    for statement, node, kind, new in _possible(function):
        by_kind[kind].append((statement, node, new))
    if len(by_kind) > 1:
        by_kind.pop("nothing", None)
    if not by_kind:
        return None
    choice = random.Random(f"{SEED} {module}:{name}")
    statement, node, new = choice.choice(by_kind[choice.choice(sorted(by_kind))])
    old = _first_line(statement)
    changed = _Replace(node, new)
    made = changed.visit(statement) if statement is not node else new
    _Replace(statement, made).visit(program)
    change = f"{old} -> {_first_line(made)}"
    return Change(f"{module}:{name}", change, file, ast.unparse(ast.fix_missing_locations(program)))


def _first_line(statement: ast.AST) -> str:
    lines = ast.unparse(ast.fix_missing_locations(statement)).splitlines()
    return next(line for line in lines if not line.startswith("@"))


def _computes(function: Any) -> bool:
    """Tells whether its body is more than a docstring, dots or a word that it is abstract."""
    return any(
        not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        and not (isinstance(statement, ast.Raise) and "NotImpl" in ast.unparse(statement))
        and not isinstance(statement, ast.Pass)
        for statement in function.body
    )


def _within(node: ast.AST, statement: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yields what a function runs itself, each with the statement that it belongs to."""
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if field in _NOT_RUN or not isinstance(child, ast.AST):
                continue
            if isinstance(child, (*_DEFINITIONS, ast.ClassDef, ast.JoinedStr)):
                continue
            if isinstance(child, ast.keyword) and child.arg == "strict":
                continue
            inside = child if isinstance(child, ast.stmt) else statement
            yield inside, child
            yield from _within(child, inside)


def _possible(function: Any) -> Iterator[tuple[ast.AST, ast.AST, str, ast.AST]]:
    """Yields statement, node, kind of change and new node."""
    for statement, node in _within(function, function):
        for kind, new in _instead(node):
            yield statement, node, kind, new


def _instead(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yields what may stand in place of a node, with the kind of change."""
    match node:
        case ast.Compare(left, [op, *ops], others):
            yield "compare", ast.Compare(left, [_COMPARED[type(op)](), *ops], others)
        case ast.BinOp(left, op, right) if type(op) in _COMPUTED:
            yield "compute", ast.BinOp(left, _COMPUTED[type(op)](), right)
        case ast.BoolOp(op, values):
            yield "both", ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield "sign", operand
        case ast.Constant(bool() as value):
            yield "constant", ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield "constant", ast.Constant(value + 1)
        case ast.IfExp(test, body, orelse):
            yield "negate", ast.IfExp(test, orelse, body)
        case ast.If(test, body, orelse):
            yield "negate", ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Call(ast.Name(name), args, keywords) if name in _TWINS:
            yield "twin", ast.Call(ast.Name(_TWINS[name]), args, keywords)
        case ast.Call(function, [first, second, *rest], keywords) if _differ(first, second):
            yield "swap", ast.Call(function, [second, first, *rest], keywords)
        case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Raise():
            yield "drop", ast.Pass()
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield "drop", ast.Pass()
        case ast.Return(ast.expr() as value) if ast.unparse(value) != "None":
            yield "nothing", ast.Return(ast.Constant(None))


def _differ(first: ast.expr, second: ast.expr) -> bool:
    starred = isinstance(first, ast.Starred) or isinstance(second, ast.Starred)
    return not starred and ast.dump(first) != ast.dump(second)


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._old else self.generic_visit(node)
