"""Which configuration keys the sources use: a key counts when its name reaches a call that reads a value, and nowhere else.

A name in a docstring, a table, a rule between keys or a default is not a use. Names are followed

- into calls of the accessors of `BrokerConfig` and `DynamicBrokerConfig` (`config.integer("the.key")`),
- through functions that hand a parameter on to one (`every("name", "the.key", work)`),
- through module constants that a loop or an unpacking takes them from,
- through the properties of `BrokerConfig` and the attributes of `TopicConfig`, when something else asks for these.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ACCESSORS = frozenset({"integer", "optional_integer", "number", "flag", "text", "optional_text", "items"})
NOT_USES = frozenset({"describe.py", "deviations.py", "document.py", "dynamic.py", "rules.py", "unserved.py", "without_effect.py"})
"""Modules of `config` that show, check or list keys."""
ELSEWHERE = frozenset({"client", "spark", "cli", "testing", "protocol"})
"""Rooms that have configurations of their own, or none."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    path: str
    tree: ast.Module
    constants: dict[str, ast.expr]


class Place(NamedTuple):
    """A call and the functions around it, the innermost last."""

    module: Module
    call: ast.Call
    around: tuple[Function, ...]


def modules(source: Path) -> Iterator[Module]:
    """What may use a broker's configuration."""
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).parts
        if parts[0] in ELSEWHERE or parts[:2] == ("config", "keys") or (parts[0] == "config" and path.name in NOT_USES):
            continue
        yield module("/".join(parts), path.read_text(encoding="utf-8"))


def module(path: str, text: str) -> Module:
    tree = ast.parse(text)
    constants: dict[str, ast.expr] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            constants[statement.targets[0].id] = statement.value
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value is not None:
            constants[statement.target.id] = statement.value
    return Module(path, tree, constants)


def used_keys(sources: Iterable[Module], names: Iterable[str]) -> dict[str, set[str]]:
    """Key -> the modules that use it; `names` are the keys there are."""
    known = set(names)
    found: dict[str, set[str]] = {}
    everything = list(sources)
    places = [place for each in everything for place in _calls(each, each.tree, ())]
    forwarders: dict[str, set[int | str]] = {
        "effective_topic_value": {0, "name"},
        "listener_value": {2, "key"},
        "own_value": {2, "key"},
    }
    before = -1
    while before != sum(map(len, forwarders.values())):
        before = sum(map(len, forwarders.values()))
        for place in places:
            for argument in _key_arguments(place.call, forwarders):
                for text in _texts(argument, place, forwarders):
                    if text in known and place.module.path not in ("config/broker.py", "config/topic.py"):
                        found.setdefault(text, set()).add(place.module.path)
    attributes, properties = _attributes(everything), _properties(everything)
    for each in everything:
        for (path, name), keys in properties.items():
            if each.path != path and name in attributes.get(each.path, ()):
                for key in keys & known:
                    found.setdefault(key, set()).add(each.path)
    return found


def _calls(where: Module, node: ast.AST, around: tuple[Function, ...]) -> Iterator[Place]:
    inner = (*around, node) if isinstance(node, Function) else around
    if isinstance(node, ast.Call):
        yield Place(where, node, inner)
    for child in ast.iter_child_nodes(node):
        yield from _calls(where, child, inner)


def _key_arguments(call: ast.Call, forwarders: dict[str, set[int | str]]) -> Iterator[ast.expr]:
    """The arguments of a call that are read as names of keys."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""
    if name in ACCESSORS and isinstance(call.func, ast.Attribute | ast.Name) and len(call.args) == 1 and not call.keywords:
        yield call.args[0]
    for position in forwarders.get(name, ()):
        if isinstance(position, int) and position < len(call.args):
            yield call.args[position]
        yield from (keyword.value for keyword in call.keywords if keyword.arg == position)


def _texts(node: ast.expr, place: Place, forwarders: dict[str, set[int | str]]) -> Iterator[str]:
    """The texts that an expression may be; a parameter makes its function one that hands it on."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    if isinstance(node, ast.Starred):
        yield from _texts(node.value, place, forwarders)
    if not isinstance(node, ast.Name):
        return
    if node.id in place.module.constants:
        yield from _strings(place.module.constants[node.id])
    for function in reversed(place.around):
        parameters = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        if node.id in parameters:
            offset = 1 if parameters[0] in ("self", "cls") else 0
            forwarders.setdefault(function.name, set()).update({parameters.index(node.id) - offset, node.id})
        elif node.id in [argument.arg for argument in function.args.kwonlyargs]:
            forwarders.setdefault(function.name, set()).add(node.id)
        elif function.args.vararg is not None and node.id == function.args.vararg.arg:
            forwarders.setdefault(function.name, set()).update(range(len(parameters), 8))
        else:
            for source in _bound(function, node.id):
                yield from _strings_of(source, place)


def _bound(function: Function, name: str) -> Iterator[ast.expr]:
    """The expressions that a local name gets its value from."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.For | ast.comprehension):
            targets, value = [node.target], node.iter
        else:
            continue
        if any(isinstance(each, ast.Name) and each.id == name for target in targets for each in ast.walk(target)):
            yield value


def _strings_of(node: ast.expr, place: Place, depth: int = 4) -> Iterator[str]:
    """The texts in the constants and local names that an expression is made of."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each.id in place.module.constants:
            yield from _strings(place.module.constants[each.id])
        elif isinstance(each, ast.Name) and depth:
            for function in place.around:
                for source in _bound(function, each.id):
                    yield from _strings_of(source, place, depth - 1)
    if isinstance(node, ast.Tuple | ast.List):
        yield from _strings(node)


def _strings(node: ast.AST) -> Iterator[str]:
    yield from (each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _properties(sources: list[Module]) -> dict[tuple[str, str], set[str]]:
    """(module, property of BrokerConfig or attribute of TopicConfig) -> the keys that its value is made of, through others as well."""
    keys: dict[tuple[str, str], set[str]] = {}
    others: dict[tuple[str, str], set[str]] = {}
    for each in sources:
        if each.path not in ("config/broker.py", "config/topic.py"):
            continue
        for body in (node for node in ast.walk(each.tree) if isinstance(node, ast.ClassDef)):
            for function in (node for node in body.body if isinstance(node, ast.FunctionDef)):
                for name, value in [(function.name, function), *_assigned(function)]:
                    parts = [value, *(bound for local in _names(value) for bound in _bound(function, local))]
                    keys.setdefault((each.path, name), set()).update(*map(_read_in, parts))
                    others.setdefault((each.path, name), set()).update(_self_attributes(value) - {name})
    for _ in range(4):
        for where, names in others.items():
            for name in names:
                keys[where] |= keys.get((where[0], name), set())
    return {where: found for where, found in keys.items() if where[1] not in ("__init__", *ACCESSORS)}


def _assigned(function: ast.FunctionDef) -> Iterator[tuple[str, ast.AST]]:
    """What a method assigns to attributes of its object."""
    for node in ast.walk(function):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AnnAssign) else None
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        for each in targets:
            if isinstance(each, ast.Attribute) and isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                yield each.attr, node.value


def _read_in(node: ast.AST) -> set[str]:
    found: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and each.args:
            name = each.func.attr if isinstance(each.func, ast.Attribute) else each.func.id if isinstance(each.func, ast.Name) else ""
            if name in ACCESSORS | {"get"} and isinstance(each.args[0], ast.Constant):
                found.add(str(each.args[0].value))
        elif isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Constant):
            found.add(str(each.slice.value))
    return found


def _self_attributes(node: ast.AST) -> set[str]:
    return {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _attributes(sources: list[Module]) -> dict[str, set[str]]:
    """Module -> the attributes that it reads of something that is called a configuration."""
    found: dict[str, set[str]] = {}
    for each in sources:
        for node in ast.walk(each.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                owner = ast.unparse(node.value)
                if any(word in owner for word in ("config", "current", "static", "old", "new")):
                    found.setdefault(each.path, set()).add(node.attr)
    return found
