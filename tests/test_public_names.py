"""Public surface of the clients, the test kit and the Spark source: what a release promises to keep.

`tests/public_names.txt` lists each public class, method and function with its parameters. A change of the list is a change that users see:
it belongs into the changelog. `python -m tests.test_public_names` writes the list anew.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

LISTED = Path(__file__).with_name("public_names.txt")
MODULES = ("odradek.client", "odradek.testing", "odradek.spark")


def _parameters(function: object) -> str:
    """Return names and kinds of a function's parameters; `=` marks those with a default. Types are the type checker's work."""
    try:
        signature = inspect.signature(function)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    parameters = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    shown = [each if each.default is inspect.Parameter.empty else each.replace(default=...) for each in parameters]
    return str(signature.replace(parameters=shown, return_annotation=inspect.Signature.empty)).replace("=Ellipsis", "=...")


def _members(name: str, item: object) -> Iterator[str]:
    if not inspect.isclass(item):
        yield f"{name}{_parameters(item)}"
        return
    yield f"class {name}{_parameters(item)}"
    for member in sorted(dir(item)):
        if member.startswith("_") or any(member in vars(base) for base in (object, tuple, str, int, BaseException)):
            continue
        value = inspect.getattr_static(item, member)
        function = getattr(value, "__func__", value)
        yield f"    {member}{_parameters(function) if callable(function) else ''}"


def surface() -> Iterator[str]:
    """Yield the lines of the list."""
    for module_name in MODULES:
        module = import_module(module_name)
        yield f"# {module_name}"
        for name in sorted(module.__all__):
            yield from _members(name, getattr(module, name))


def test_public_names_are_listed() -> None:
    assert "\n".join(surface()) + "\n" == LISTED.read_text(), "a public name changed: python -m tests.test_public_names, and the changelog"


if __name__ == "__main__":
    LISTED.write_text("\n".join(surface()) + "\n")
