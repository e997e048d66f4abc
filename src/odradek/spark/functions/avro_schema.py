# Schemas are JSON, which has no types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Normal form of Avro schemas: full names, each type defined at its first use, all references included.

The normal form is JSON too: as text it is a complete schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from odradek.client.schemas.errors import SchemaError

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED: Final = ("record", "enum", "fixed")
_KEPT: Final = ("logicalType", "precision", "scale", "size", "symbols", "default")


class AvroType(NamedTuple):
    """Schema in normal form, and its named types."""

    schema: Any
    names: dict[str, Any]

    def definition(self, schema: Any) -> Any:
        """Return the definition of a name, or the schema itself."""
        return self.names.get(schema, schema) if isinstance(schema, str) else schema


def avro_type(schema: Any, referred: Mapping[str, Any] | None = None) -> AvroType:
    """Return the normal form of a valid schema. `referred` are other schemas by the names under which they are used, in order.

    Raises SchemaError for an unknown name.
    """
    known: dict[str, Any] = {}
    try:
        for name, each in (referred or {}).items():
            found = _Normal(known)
            whole = found.of(each, "")
            known |= found.names
            known.setdefault(name, whole)
        normal = _Normal(known)
        return AvroType(normal.of(schema, ""), normal.names)
    except RecursionError:
        raise SchemaError("the Avro schema is nested too deeply") from None


def kind_of(schema: Any) -> str:
    """Return `union`, or the type of a schema that is not a reference by name."""
    if isinstance(schema, list):
        return "union"
    return schema if isinstance(schema, str) else str(schema["type"])


class _Normal:
    def __init__(self, known: Mapping[str, Any]) -> None:
        self._known = known
        self.names: dict[str, Any] = {}

    def of(self, schema: Any, space: str) -> Any:
        if isinstance(schema, str):
            return self._named(schema, space)
        if isinstance(schema, list):
            return [self.of(each, space) for each in schema]
        if not isinstance(schema, dict):
            raise SchemaError(f"{schema} is not an Avro schema")
        given = cast(dict[str, Any], schema)
        kind = given["type"]
        if kind == "error":
            kind = "record"
        if not isinstance(kind, str):
            return self.of(kind, space)
        if kind in NAMED:
            return self._definition(given, kind, space)
        if kind == "array":
            return {"type": kind, "items": self.of(given["items"], space)}
        if kind == "map":
            return {"type": kind, "values": self.of(given["values"], space)}
        if kind not in PRIMITIVES:
            return self._named(kind, space)
        kept = {name: given[name] for name in _KEPT if name in given and name != "default"}
        return {"type": kind, **kept} if "logicalType" in kept else kind

    def _definition(self, given: dict[str, Any], kind: str, space: str) -> Any:
        name = str(given["name"])
        if "." not in name:
            own = given.get("namespace", space)
            name = f"{own}.{name}" if own else name
        space = name.rpartition(".")[0]
        output: dict[str, Any] = {"type": kind, "name": name, **({} if space else {"namespace": ""})}
        output |= {key: given[key] for key in _KEPT if key in given}
        if given.get("aliases"):
            output["aliases"] = list(given["aliases"])
        self.names[name] = output
        if kind == "record":
            output["fields"] = [
                {**{key: each[key] for key in ("name", "default", "aliases") if key in each}, "type": self.of(each["type"], space)}
                for each in given["fields"]
            ]
        return output

    def _named(self, name: str, space: str) -> Any:
        if name in PRIMITIVES:
            return name
        for full in ([f"{space}.{name}"] if space and "." not in name else []) + [name]:
            if full in self.names:
                return full
            if full in self._known:
                return self.of(self._known[full], "")
        raise SchemaError(f"the Avro schema does not define the type {name}")
