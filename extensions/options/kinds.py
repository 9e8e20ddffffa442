"""Options of what is one of several objects: which one, and the arguments of each.

An argument of the object's class is an option if it is a number, a text or a flag, or a dataclass
of these: ``--masked.threshold``, ``--masked.graph.corrupt``. Its type, default and help are stated
where the class is: in its signature, and in its docstring under `Args:` or `Attributes:`.
"""

import inspect
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, is_dataclass, replace
from functools import lru_cache
from importlib import import_module
from operator import attrgetter
from typing import Any, Literal, get_origin, get_type_hints

from extensions.errors import ArgumentError
from extensions.options import Option
from extensions.options.leaves import Leaf, descriptions, leaf_of, unwrapped

_SIMPLE = (int, float, bool, str)
_OWN = object()


@dataclass(frozen=True)
class Chosen:
    """One of several objects, and the arguments that were given for it.

    Attributes:
        given: values by the names of their options.
        usual: likewise, of all arguments that have a default.
    """

    name: str
    kind: type
    given: Mapping[str, Any]
    usual: Mapping[str, Any]

    def make(self, **more: Any) -> Any:
        """Returns the object.

        Args:
            **more: further arguments; what was given wins.
        """
        return _made(self.kind, self.name, self.given, more)


def with_arguments(leaves: Collection[Leaf]) -> list[Leaf]:
    """Returns options, and then the arguments of all that some of them choose from."""
    found = [*leaves]
    for chooser in leaves:
        if chooser.kinds is None:
            continue
        for name, path in chooser.kinds.of.items():
            title = f"{chooser.typed} {name}"
            for leaf in _leaves(_imported(path), name, chooser.kinds.without):
                found.append(replace(leaf, title=title, optional=True))
    return found


def all_chosen(leaves: Collection[Leaf], made: Mapping[str, Any]) -> dict[str, Chosen]:
    """Returns what each option that chooses has chosen, by its key."""
    choosers = (leaf for leaf in leaves if leaf.kinds is not None)
    return {leaf.key: _chosen(leaf, leaves, made) for leaf in choosers}


def _chosen(chooser: Leaf, leaves: Collection[Leaf], made: Mapping[str, Any]) -> Chosen:
    assert chooser.kinds is not None
    assert chooser.rule is not None
    name = made.get(chooser.key, chooser.kinds.usual)
    chooser.rule.check(chooser.name, name)
    given, usual = {}, {}
    for leaf in leaves:
        kind, dot, _ = leaf.name.partition(".")
        if not dot or kind not in chooser.kinds.of:
            continue
        if kind == name and not leaf.required:
            usual[leaf.name] = leaf.default
        if leaf.key in made:
            if kind != name:
                rule, hint = (
                    f"with {{{chooser.name}={name}}}",
                    f"It belongs to {{{chooser.name}={kind}}}.",
                )
                raise ArgumentError(leaf.name, made[leaf.key], rule, hint, code="conflict")
            given[leaf.name] = made[leaf.key]
    return Chosen(name, _imported(chooser.kinds.of[name]), given, usual)


def without_tables(leaves: Collection[Leaf], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a file's options without tables: that of an option that chooses has its `kind`."""
    choosers = {leaf.word for leaf in leaves if leaf.kinds is not None}
    found = dict[str, Any]()
    for key, value in given.items():
        if not isinstance(value, dict) or not value or not choosers:
            found[key] = value
            continue
        prefix, rest = key, dict(value)
        if key.replace("_", "-") in choosers and isinstance(rest.get("kind"), str):
            prefix = found[key] = rest.pop("kind")
        found |= {f"{prefix}.{name}": one for name, one in without_tables(leaves, rest).items()}
    return found


def named(leaves: Collection[Leaf], names: Collection[str], argument: str) -> Leaf | None:
    """Returns the option of an argument that an error names; None: it is none.

    Args:
        names: of what was chosen: an argument of that may be named alone.
    """
    if (single := next((leaf for leaf in leaves if argument in leaf.names), None)) is not None:
        return single
    parts = {leaf.name.partition("."): leaf for leaf in reversed([*leaves])}
    own = {path: leaf for (kind, _, path), leaf in parts.items() if kind in names}
    nested = (leaf for path, leaf in own.items() if path.endswith(f".{argument}"))
    return own.get(argument) or next(nested, None)


@lru_cache
def _imported(path: str) -> type:
    module, _, name = path.partition(":")
    kind: type = attrgetter(name)(import_module(module))
    return kind


def _leaves(
    kind: type, prefix: str, without: Collection[str] = (), default: Any = _OWN
) -> Iterator[Leaf]:
    """Yields the arguments of a class that are options.

    Args:
        default: object of the class, whose values are the defaults; None: there are none.
    """
    told = descriptions(kind)
    for name, hint, usual in _parameters(kind):
        inner, _, _ = unwrapped(hint)
        if name in without:
            continue
        path = f"{prefix}.{name}"
        own = usual if default is _OWN else getattr(default, name, None)
        if isinstance(inner, type) and is_dataclass(inner):
            yield from _leaves(inner, path, default=own)
        elif inner in _SIMPLE or get_origin(inner) is Literal:
            leaf = leaf_of(path, hint, own, told.get(name, ""))
            if own is True:
                word = f"{prefix}.no-{name}".replace("_", "-")
                option = Option(name=word, negated=True)
                leaf = replace(leaf, option=option, help=f"Do not {told.get(name, name)}")
            yield leaf


def _parameters(kind: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yields name, type and default, or MISSING, of a class's arguments."""
    hints = get_type_hints(kind.__init__, include_extras=True)
    for name, parameter in inspect.signature(kind).parameters.items():
        missing = parameter.default is inspect.Parameter.empty
        yield name, hints[name], MISSING if missing else parameter.default


def _made(kind: Any, prefix: str, given: Mapping[str, Any], more: Mapping[str, Any]) -> Any:
    arguments, names = dict(more), set[str]()
    for name, hint, usual in _parameters(kind):
        names.add(name)
        path = f"{prefix}.{name}"
        inner = {key: value for key, value in given.items() if key.startswith(f"{path}.")}
        if path in given:
            arguments[name] = given[path]
        elif inner:
            own = arguments.get(name, usual)
            fields = vars(own) if is_dataclass(own) else {}
            arguments[name] = _made(unwrapped(hint)[0], path, inner, fields)
        elif usual is MISSING and name not in arguments:
            raise ArgumentError(path, None, "", code="missing")
    try:
        return kind(**arguments)
    except ArgumentError as error:
        name = error.argument.rpartition(".")[2]
        raise error.of(f"{prefix}.{name}") if name in names else error from error
