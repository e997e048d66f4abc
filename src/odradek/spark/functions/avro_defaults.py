# Schemas are JSON, which has no types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Parts of reading Avro that depend only on schemas: defaults, and the branch of a union for a type."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any, Final, cast

from odradek.client.schemas.errors import SchemaError, UndecodableValue
from odradek.spark.functions.avro_schema import AvroType, kind_of
from odradek.spark.functions.avro_types import DecimalOf, decimal_of, wider

MICROS: Final = {"timestamp-micros": 1, "local-timestamp-micros": 1, "timestamp-millis": 1000, "local-timestamp-millis": 1000}
_PROMOTIONS: Final[dict[str, tuple[str, ...]]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_EXACT: Final = Context(prec=100)


def matches(writer: Any, reader: Any) -> bool:
    """Return whether two schemas, neither a union, are of the same type. Named types match by name without namespace, or by alias."""
    kind = kind_of(writer)
    if kind != kind_of(reader):
        return False
    if kind not in ("record", "enum", "fixed"):
        return True
    short = _short(writer["name"])
    return short == _short(reader["name"]) or any(short == _short(each) for each in reader.get("aliases", ()))


def is_promoted(writer: Any, reader: Any) -> bool:
    """Return whether values of one primitive type can be read as another."""
    return kind_of(reader) in _PROMOTIONS.get(kind_of(writer), ())


def branch_of(avro: AvroType, union: list[Any], writer: Any) -> int | None:
    """Return the index of the union's branch for values of another schema, or None if no branch takes them."""
    branches = [avro.definition(each) for each in union]
    for fits in (matches, is_promoted):
        found = next((index for index, each in enumerate(branches) if fits(writer, each)), None)
        if found is not None:
            return found
    # The only record of a union takes records of other names, as it would without the union.
    records = [index for index, each in enumerate(branches) if kind_of(each) == kind_of(writer) == "record"]
    return records[0] if len(records) == 1 else None


def member(avro: AvroType, union: list[Any], index: int) -> str | None:
    """Return the field for a branch in the struct of a union. None for null, and for a union that does not become a struct."""
    branches = [avro.definition(each) for each in union]
    others = [each for each in branches if kind_of(each) != "null"]
    if len(others) < 2 or wider(others) is not None or kind_of(branches[index]) == "null":
        return None
    return f"member{sum(kind_of(each) != 'null' for each in branches[:index])}"


def decimal_value(data: bytes, decimal: DecimalOf, limit: int) -> Decimal:
    """Return the number in an Avro decimal. `limit` is 10**precision. Raises UndecodableValue for more digits, and for empty data."""
    number = int.from_bytes(data, "big", signed=True)
    if not data or not -limit < number < limit:
        raise UndecodableValue(f"a decimal has more than {decimal.precision} digits" if data else "a decimal has no bytes")
    return _EXACT.scaleb(Decimal(number), -decimal.scale)


def default_value(avro: AvroType, schema: Any, given: Any) -> Any:
    """Return a JSON default as a row contains it (see `layout.Leaf`). Raises SchemaError for a default that does not fit."""
    schema = avro.definition(schema)
    kind = kind_of(schema)
    try:
        return _default(avro, schema, kind, given)
    except (TypeError, ValueError, KeyError, AttributeError):
        raise SchemaError(f"{given!r} is not a valid default of the Avro type {kind}") from None


def _default(avro: AvroType, schema: Any, kind: str, given: Any) -> Any:
    if kind == "union":
        return _of_union(avro, schema, given)
    if kind == "record":
        return {
            field["name"]: default_value(avro, field["type"], given[field["name"]] if field["name"] in given else field["default"])
            for field in schema["fields"]
        }
    if kind == "array":
        return [default_value(avro, schema["items"], each) for each in cast(list[Any], given)]
    if kind == "map":
        return [(key, default_value(avro, schema["values"], each)) for key, each in given.items()]
    if kind in ("bytes", "fixed"):
        data = given.encode("latin-1")
        decimal = decimal_of(schema)
        return data if decimal is None else decimal_value(data, decimal, 10**decimal.precision)
    if kind in ("float", "double"):
        return float(given)
    if kind in ("int", "long"):
        if isinstance(given, bool) or int(given) != given:
            raise ValueError
        logical = schema.get("logicalType") if isinstance(schema, dict) else None
        return int(given) * (MICROS.get(str(logical), 1) if kind == "long" else 1)
    expected = {"null": type(None), "boolean": bool}.get(kind, str)
    if not isinstance(given, expected):
        raise TypeError
    return given


def _of_union(avro: AvroType, union: list[Any], given: Any) -> Any:
    # The default is of the first branch; since Avro 1.12 of any branch.
    for index, branch in enumerate(union):
        try:
            value = default_value(avro, branch, given)
        except (SchemaError, UndecodableValue):
            continue
        name = member(avro, union, index)
        return value if name is None else {name: value}
    raise ValueError


def _short(name: str) -> str:
    return name.rpartition(".")[2]
