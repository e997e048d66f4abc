# Schemas are JSON, which has no types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Spark type of a JSON Schema.

    integer -> bigint    number -> double    string -> string    boolean -> boolean
    array -> array of its items    object with properties -> struct    other objects -> map<string, T>

A value of several types is a string, the JSON text. null beside other types is ignored, as every field is nullable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import unquote

from pyspark.sql.types import ArrayType, BooleanType, DataType, DoubleType, LongType, MapType, StringType, StructField, StructType

from odradek.client.schemas.errors import SchemaError, one_line
from odradek.spark.functions.limits import MAX_DEPTH, MAX_FIELDS

_SCALARS: Final[dict[str, type[DataType]]] = {
    "string": StringType,
    "integer": LongType,
    "number": DoubleType,
    "boolean": BooleanType,
}


def json_schema_type(text: str, referred: Mapping[str, str] | None = None) -> DataType:
    """Return the type of the values of a JSON Schema. `referred` are the texts of other documents that `$ref` names, by their names.

    Raises SchemaError for an invalid schema, for unknown references, and for recursive types.
    """
    documents = {name: _parsed(each) for name, each in (referred or {}).items()}
    document = _parsed(text)
    identity: Any = cast(Any, document).get("$id") if isinstance(document, dict) else None
    if isinstance(identity, str):
        documents.setdefault(identity.rstrip("#"), document)
    found = _Reader(documents).type_of(document, document, ())
    return StringType() if found is None else found


class _Reader:
    """Reader of one schema."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents
        self._fields = 0

    def type_of(self, schema: Any, document: Any, inside: tuple[str, ...]) -> DataType | None:
        """Return the type of a schema, None for a schema that allows only null."""
        if len(inside) > MAX_DEPTH:
            raise SchemaError(f"the JSON schema nests types more than {MAX_DEPTH} levels deep")
        if schema is True or schema == {}:
            return StringType()
        if not isinstance(schema, dict):
            raise SchemaError(f"a JSON schema must be an object, not {one_line(json.dumps(schema))[:60]}")
        given = cast(dict[str, Any], schema)
        reference = given.get("$ref")
        if isinstance(reference, str):
            return self._referred(reference, document, inside)
        found: list[DataType | None] = []
        for part in ("anyOf", "oneOf"):
            if part in given:
                found.append(self._any_of([self.type_of(each, document, (*inside, "")) for each in _list(given[part], part)]))
        if "allOf" in given:
            found.append(_all_of([self.type_of(each, document, (*inside, "")) for each in _list(given["allOf"], "allOf")]))
        own = self._own(given, document, (*inside, ""))
        if own is not None or not found:
            found.append(own)
        return _all_of(found)

    def _referred(self, reference: str, document: Any, inside: tuple[str, ...]) -> DataType | None:
        name, _, pointer = reference.partition("#")
        key = f"{id(document)}{reference}" if not name else reference
        if key in inside:
            raise SchemaError(f"{reference} of the JSON schema contains itself: Spark does not support recursive types")
        if name:
            there = self._documents.get(name, self._documents.get(name.rpartition("/")[2]))
            if there is None:
                raise SchemaError(f"the JSON schema refers to {name}, which is not among its references")
            document = there
        target = document
        for step in unquote(pointer).split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            try:
                target = target[int(step)] if isinstance(target, list) else target[step]
            except (KeyError, IndexError, TypeError, ValueError):
                raise SchemaError(f"{reference} of the JSON schema does not exist") from None
        return self.type_of(target, document, (*inside, key))

    def _own(self, schema: dict[str, Any], document: Any, inside: tuple[str, ...]) -> DataType | None:
        kinds = schema.get("type")
        if kinds is None:
            kinds = _implied(schema)
            if kinds is None:
                return None if any(part in schema for part in ("anyOf", "oneOf", "allOf")) else StringType()
        return self._any_of([self._kind(str(each), schema, document, inside) for each in (kinds if isinstance(kinds, list) else [kinds])])

    def _kind(self, kind: str, schema: dict[str, Any], document: Any, inside: tuple[str, ...]) -> DataType | None:
        if kind == "null":
            return None
        if kind == "object":
            return self._object(schema, document, inside)
        if kind == "array":
            items = schema.get("prefixItems", schema.get("items", True))
            # The positions of a tuple become items of one type.
            each = [self.type_of(item, document, inside) for item in (items if isinstance(items, list) else [items])]
            return ArrayType(self._any_of(each) or StringType(), True)
        if kind not in _SCALARS:
            raise SchemaError(f"{kind} is not a type of JSON Schema")
        return _SCALARS[kind]()

    def _object(self, schema: dict[str, Any], document: Any, inside: tuple[str, ...]) -> DataType:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            self._fields += len(cast(dict[str, Any], properties))
            if self._fields > MAX_FIELDS:
                raise SchemaError(f"the JSON schema has more than {MAX_FIELDS} fields")
            return StructType(
                [
                    StructField(str(name), self.type_of(each, document, inside) or StringType(), True)
                    for name, each in cast(dict[str, Any], properties).items()
                ]
            )
        others: list[Any] = []
        for part in ("patternProperties", "additionalProperties"):
            found = schema.get(part)
            if part == "patternProperties" and isinstance(found, dict):
                others += cast(dict[str, Any], found).values()
            elif isinstance(found, dict):
                others.append(found)
        values = self._any_of([self.type_of(each, document, inside) for each in others]) or StringType()
        return MapType(StringType(), values, True)

    def _any_of(self, found: Sequence[DataType | None]) -> DataType | None:
        there = [each for each in found if each is not None]
        output = there[0] if there else None
        for each in there[1:]:
            output = _either(cast(DataType, output), each)
        return output


def _either(one: DataType, other: DataType) -> DataType:
    """Return a type for values of either type."""
    if one == other:
        return one
    if {type(one), type(other)} == {LongType, DoubleType}:
        return DoubleType()
    if isinstance(one, StructType) and isinstance(other, StructType):
        return _merged(one, other)
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return ArrayType(_either(one.elementType, other.elementType), True)
    if isinstance(one, MapType) and isinstance(other, MapType):
        return MapType(StringType(), _either(one.valueType, other.valueType), True)
    return StringType()


def _all_of(found: Sequence[DataType | None]) -> DataType | None:
    """Return a type for values of all types at once: objects get the properties of all, and other types override string."""
    there = [each for each in found if each is not None]
    structs = [each for each in there if isinstance(each, StructType)]
    if structs:
        output = structs[0]
        for each in structs[1:]:
            output = _merged(output, each)
        return output
    told = [each for each in there if not isinstance(each, StringType)]
    return told[0] if told else (there[0] if there else None)


def _merged(one: StructType, other: StructType) -> StructType:
    fields = {field.name: field for field in one.fields}
    for field in other.fields:
        known = fields.get(field.name)
        fields[field.name] = field if known is None else StructField(field.name, _either(known.dataType, field.dataType), True)
    return StructType(list(fields.values()))


def _implied(schema: dict[str, Any]) -> str | list[str] | None:
    """Return the types of a schema without `type`, from its other keywords."""
    if "properties" in schema or "additionalProperties" in schema or "patternProperties" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    values = schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else []
    return [_kind_of(each) for each in values] or None


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _list(given: Any, what: str) -> list[Any]:
    if not isinstance(given, list):
        raise SchemaError(f"{what} of a JSON schema must be a list")
    return given


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the JSON schema is not JSON: {one_line(error)}") from None
