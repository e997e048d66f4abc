"""Which configuration keys the sources use: a key counts when code reads its constant (`config[THE_KEY]`), and nowhere else.

A key in a docstring, in a list of keys by name, in a rule between keys or in a default is not a use. A key that a property of
`BrokerConfig` or an attribute of `TopicConfig` reads counts when another module asks for that property or attribute. `network` may not
import `config`: there the names count that it gives to the methods of `TlsKeys`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

KEYS = "odradek.config.keys."
NOT_USES = frozenset({"describe.py", "deviations.py", "document.py", "dynamic.py", "rules.py", "unsupported.py", "without_effect.py"})
"""Modules of `config` that show, check or list keys."""
ELSEWHERE = frozenset({"client", "spark", "cli", "testing", "protocol"})
"""Packages that have configurations of their own, or none."""
HOLDERS = ("config/broker.py", "config/topic.py")
"""Modules whose classes give names to values."""
TLS_KEYS = frozenset({"text", "items", "_optional", "_type"})
"""Methods of `network.keystores.TlsKeys` that read a value, and the functions there that pass a name on to them."""


class Module(NamedTuple):
    path: str
    tree: ast.Module
    keys: dict[str, str]
    """Name of the key by the name that the module has for its constant."""


def modules(source: Path) -> Iterator[Module]:
    """What may use a broker's configuration."""
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).parts
        if parts[0] in ELSEWHERE or parts[:2] == ("config", "keys") or (parts[0] == "config" and path.name in NOT_USES):
            continue
        yield module("/".join(parts), path.read_text(encoding="utf-8"))


def module(path: str, text: str) -> Module:
    tree = ast.parse(text)
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(KEYS))
    return Module(path, tree, {each.asname or each.name: each.name for node in imports for each in node.names})


def constant(name: str) -> str:
    """The name of a key's constant."""
    return name.upper().replace(".", "_")


def used_keys(sources: Iterable[Module], names: Iterable[str]) -> dict[str, set[str]]:
    """Key -> the modules that use it; `names` are the keys there are."""
    known = {constant(name): name for name in names}
    everything = list(sources)
    found: dict[str, set[str]] = {}
    for each in everything:
        used = _tls_names(each) if each.path.startswith("network/") else () if each.path in HOLDERS else _read_in(each, each.tree)
        for name in used:
            if name in known:
                found.setdefault(known[name], set()).add(each.path)
    attributes = {each.path: _attributes(each) for each in everything}
    for (path, attribute), keys in _properties(everything).items():
        for other, asked in attributes.items():
            if other != path and attribute in asked:
                for name in keys & known.keys():
                    found.setdefault(known[name], set()).add(other)
    return found


def _read_in(where: Module, node: ast.AST) -> set[str]:
    """The constants of keys in an expression or a function."""
    return {where.keys[each.id] for each in ast.walk(node) if isinstance(each, ast.Name) and each.id in where.keys}


def _tls_names(where: Module) -> Iterator[str]:
    for node in ast.walk(where.tree):
        name = "" if not isinstance(node, ast.Call) else getattr(node.func, "attr", getattr(node.func, "id", ""))
        if isinstance(node, ast.Call) and name in TLS_KEYS:
            yield from (constant(each.value) for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _properties(sources: list[Module]) -> dict[tuple[str, str], set[str]]:
    """(module, property of BrokerConfig or attribute of TopicConfig) -> the keys that its value is made of, through others as well."""
    keys: dict[tuple[str, str], set[str]] = {}
    others: dict[tuple[str, str], set[str]] = {}
    for each in sources:
        if each.path not in HOLDERS:
            continue
        for body in (node for node in ast.walk(each.tree) if isinstance(node, ast.ClassDef)):
            for function in (node for node in body.body if isinstance(node, ast.FunctionDef)):
                for name, value in [(function.name, function), *_assigned(function)]:
                    parts = [value, *(bound for local in _names(value) for bound in _bound(function, local))]
                    for part in parts:
                        keys.setdefault((each.path, name), set()).update(_read_in(each, part))
                    others.setdefault((each.path, name), set()).update(_self_attributes(value) - {name})
    for _ in range(4):
        for where, names in others.items():
            for name in names:
                keys[where] |= keys.get((where[0], name), set())
    return {where: found for where, found in keys.items() if where[1] != "__init__"}


def _assigned(function: ast.FunctionDef) -> Iterator[tuple[str, ast.AST]]:
    """What a method assigns to attributes of its object."""
    for node in ast.walk(function):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AnnAssign) else None
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        for each in targets:
            if isinstance(each, ast.Attribute) and isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                yield each.attr, node.value


def _bound(function: ast.FunctionDef, name: str) -> Iterator[ast.expr]:
    """The expressions that a local name gets its value from."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and any(isinstance(each, ast.Name) and each.id == name for each in node.targets):
            yield node.value


def _self_attributes(node: ast.AST) -> set[str]:
    return {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _attributes(where: Module) -> set[str]:
    """The attributes that a module reads of something that is called a configuration."""
    found: set[str] = set()
    for node in ast.walk(where.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            owner = ast.unparse(node.value)
            if any(word in owner for word in ("config", "current", "static", "old", "new")):
                found.add(node.attr)
    return found
