"""Resolution of a schema's references, direct and indirect, in the order in which they have to be parsed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from odradek.client.schemas.errors import SchemaError
from odradek.client.schemas.types import Schema, SchemaSource

MAX_DEPTH: Final = 32
MAX_SCHEMAS: Final = 1000


def resolved(source: SchemaSource, schema: Schema) -> dict[str, Schema]:
    """Return the referenced schemas by the names under which they are used. Each schema stands after the schemas that it uses itself.

    Raises SchemaError for a cycle, for chains longer than 32 references, for more than 1,000 schemas, and for a name of two schemas.
    """
    found: dict[str, Schema] = {}
    places: dict[str, tuple[str, int]] = {}
    open_: list[tuple[str, int]] = []

    def visit(schema: Schema) -> None:
        for name, subject, version in schema.references:
            place = (subject, version)
            if place in open_:
                raise SchemaError(f"the references of {subject} version {version} lead back to it")
            if name in found:
                if places[name] != place:
                    other, older = places[name]
                    raise SchemaError(f"{name} refers to both {subject} version {version} and {other} version {older}")
                continue
            if len(open_) >= MAX_DEPTH:
                raise SchemaError(f"references are nested more than {MAX_DEPTH} levels deep, at {subject} version {version}")
            if len(found) >= MAX_SCHEMAS:
                raise SchemaError(f"there are more than {MAX_SCHEMAS} referenced schemas")
            target = source.version(subject, version).schema
            open_.append(place)
            visit(target)
            open_.pop()
            found[name] = target
            places[name] = place

    visit(schema)
    return found


def named(found: dict[str, Schema], type: str) -> Iterator[tuple[str, Schema]]:
    """Yield the names and schemas of `found`. Raises SchemaError for a schema of another type than `type`."""
    for name, schema in found.items():
        if schema.type != type:
            raise SchemaError(f"{name} is a schema of type {schema.type}, but a schema of type {type} refers to it")
        yield name, schema
