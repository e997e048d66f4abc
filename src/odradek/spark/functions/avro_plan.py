# Schemas are JSON, which has no types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Reader of Avro records as rows of plain values, by a function that is generated for one pair of schemas: writer and reader.

A library decodes value by value into dicts, which then have to be taken apart; that takes most of the time. This module writes the steps of
a schema once, as Python source. The source contains no text of the schema: names, symbols and defaults are constants beside it.

Every length is checked against the available bytes before use. `AvroGuard` skips fields that the reader does not want, and bounds how deep
recursive types may nest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, Final, NamedTuple, NoReturn

from odradek.client.schemas.avro_guard import MAX_EMPTY_ITEMS, AvroGuard
from odradek.client.schemas.errors import SchemaError, UndecodableValue
from odradek.spark.functions.avro_defaults import MICROS, branch_of, decimal_value, default_value, is_promoted, matches, member
from odradek.spark.functions.avro_schema import AvroType, kind_of
from odradek.spark.functions.avro_types import decimal_of
from odradek.spark.functions.layout import Group, Layout, Leaf, places

Row = tuple[Any, ...]
_LONGEST: Final = 1 << 63
_SCRATCH: Final = 1_000_000_000
_FIXED_SIZES: Final = {"boolean": 1, "float": 4, "double": 8}


class Plan(NamedTuple):
    """Generated function that reads values of one schema as values of another."""

    read: Callable[[bytes, int], Row]
    """Function (bytes, start of the value) -> row. Raises UndecodableValue; IndexError and struct.error where the bytes end too early."""
    layout: Layout
    width: int
    """Number of places in a row."""


def plan(writer: AvroType, reader: AvroType | None = None) -> Plan:
    """Return the plan for values that `writer` wrote, read as `reader` (Avro's schema resolution). `spark_type` must accept both schemas.

    Raises SchemaError for schemas that can never agree. Where schemas agree for some values only, the other values are errors.
    """
    return _Source(writer, reader or writer).plan()


class _Source:
    def __init__(self, writer: AvroType, reader: AvroType) -> None:
        self._writer = writer
        self._reader = reader
        self._lines: list[str] = []
        self._functions: list[str] = []
        self._constants: dict[str, Any] = {
            "long_": _long,
            "int_": _int,
            "size_": _size,
            "cut": _cut,
            "f4": Struct("<f").unpack_from,
            "f8": Struct("<d").unpack_from,
            "wrong": _wrong,
            "left": _left,
        }
        self._places = 0
        self._scratches = 0

    def plan(self) -> Plan:
        layout = self._layout(self._reader.schema)
        if not places(layout):
            layout = self._leaf()
        self._emit(self._writer.schema, self._reader.schema, layout, 1)
        row = "".join(f"v{place}, " for place in range(self._places))
        source = [
            *self._functions,
            "def read(data, p):",
            "    end = len(data)",
            *self._lines,
            "    if p != end: left(p, end)",
            f"    return ({row})",
        ]
        exec(compile("\n".join(source), "<avro>", "exec"), self._constants)
        return Plan(self._constants["read"], layout, self._places)

    def _leaf(self) -> Leaf:
        self._places += 1
        return Leaf(self._places - 1)

    def _layout(self, schema: Any) -> Layout:
        """Return places for a type of the reader, outside of arrays, maps and unions of several types."""
        schema = self._reader.definition(schema)
        optional = False
        if isinstance(schema, list):
            others = [each for each in map(self._reader.definition, schema) if kind_of(each) != "null"]
            optional = len(others) < len(schema)
            schema = others[0] if len(others) == 1 else schema
        if kind_of(schema) != "record" or not schema["fields"]:
            return self._leaf()
        place = self._leaf().place if optional else None
        return Group(place, tuple((field["name"], self._layout(field["type"])) for field in schema["fields"]))

    def _constant(self, value: Any) -> str:
        name = f"c{len(self._constants)}"
        self._constants[name] = value
        return name

    def _add(self, depth: int, *lines: str) -> None:
        self._lines += ["    " * depth + line for line in lines]

    def _never(self, depth: int, why: str) -> None:
        self._add(depth, f"wrong({self._constant(why)})")

    def _emit(self, writer: Any, reader: Any, slot: Layout, depth: int) -> None:
        """Write code that reads a value of `writer` into the places `slot` of `reader`."""
        same = writer is reader
        writer, reader = self._writer.definition(writer), self._reader.definition(reader)
        same = same or writer is reader
        if isinstance(writer, list):
            self._index("i", depth)
            for index, branch in enumerate(writer):
                self._add(depth, f"{'elif' if index else 'if'} i == {index}:")
                if same:
                    self._emit_branch(branch, reader, index, slot, depth + 1)
                else:
                    self._emit(branch, reader, slot, depth + 1)
            self._add(
                depth, f"{'else' if writer else 'if True'}: wrong('the union has {len(writer)} branches, but the value has branch %d' % i)"
            )
        elif isinstance(reader, list):
            found = branch_of(self._reader, reader, writer)
            if found is None:
                self._never(depth, f"the reader's union has no branch for a value of the type {_named(writer)}")
            else:
                self._emit_branch(writer, reader, found, slot, depth)
        else:
            self._emit_one(writer, reader, slot, depth)

    def _emit_branch(self, writer: Any, union: list[Any], index: int, slot: Layout, depth: int) -> None:
        if kind_of(self._reader.definition(union[index])) == "null":
            self._nothing(slot, depth)
            return
        self._emit(writer, union[index], slot, depth)
        name = member(self._reader, union, index)
        if name is not None:
            assert isinstance(slot, Leaf)
            self._add(depth, f"v{slot.place} = {{{self._constant(name)}: v{slot.place}}}")

    def _emit_one(self, writer: Any, reader: Any, slot: Layout, depth: int) -> None:
        kind, target = kind_of(writer), kind_of(reader)
        if kind == target == "record":
            self._record(writer, reader, slot, depth)
            return
        assert isinstance(slot, Leaf) or kind != target
        var = "" if isinstance(slot, Group) else f"v{slot.place}"
        if kind == target == "array":
            self._blocks(writer["items"], reader["items"], var, depth, is_map=False)
        elif kind == target == "map":
            self._blocks(writer["values"], reader["values"], var, depth, is_map=True)
        elif kind == target == "enum":
            self._enum(writer, reader, var, depth)
        elif kind == target == "fixed" and (writer["size"] != reader["size"] or not matches(writer, reader)):
            self._never(
                depth, f"a {_named(writer)} of {writer['size']} bytes does not fit the reader's {_named(reader)} of {reader['size']} bytes"
            )
        elif kind == target or is_promoted(writer, reader):
            self._primitive(writer, reader, var, depth)
        else:
            self._never(depth, f"a value of the type {_named(writer)} does not fit the reader's type {_named(reader)}")

    def _record(self, writer: Any, reader: Any, slot: Layout, depth: int) -> None:
        if isinstance(slot, Group):
            slots = dict(slot.fields)
            if slot.place is not None:
                self._add(depth, f"v{slot.place} = True")
        else:
            slots = {field["name"]: self._scratch() for field in reader["fields"]}
        wanted = {field["name"]: field for field in reader["fields"]}
        aliases = {alias: field for field in reader["fields"] for alias in field.get("aliases", ())}
        found: set[str] = set()
        for field in writer["fields"]:
            mine = wanted.get(field["name"], aliases.get(field["name"]))
            if mine is None or mine["name"] in found:
                self._skip(field["type"], depth)
                continue
            found.add(mine["name"])
            self._emit(field["type"], mine["type"], slots[mine["name"]], depth)
        for field in reader["fields"]:
            if field["name"] in found:
                continue
            if "default" not in field:
                raise SchemaError(
                    f"the field {field['name']} of the reader's schema has no default, and the schema of the value does not have it"
                )
            self._default(default_value(self._reader, field["type"], field["default"]), slots[field["name"]], depth)
        if isinstance(slot, Leaf):
            pairs = ", ".join(f"{self._constant(name)}: v{_place(each)}" for name, each in slots.items())
            self._add(depth, f"v{slot.place} = {{{pairs}}}")

    def _scratch(self) -> Leaf:
        """Return a place that is not in the row."""
        self._scratches += 1
        return Leaf(_SCRATCH + self._scratches)

    def _default(self, value: Any, slot: Layout, depth: int) -> None:
        if isinstance(slot, Leaf):
            self._add(depth, f"v{slot.place} = {self._constant(value)}")
        elif value is None:
            self._nothing(slot, depth)
        else:
            if slot.place is not None:
                self._add(depth, f"v{slot.place} = True")
            for name, each in slot.fields:
                self._default(value[name], each, depth)

    def _nothing(self, slot: Layout, depth: int) -> None:
        taken = places(slot)
        self._add(depth, f"{' = '.join(f'v{place}' for place in taken)} = None")
        if isinstance(slot, Group) and slot.place is not None:
            self._add(depth, f"v{slot.place} = False")

    def _index(self, var: str, depth: int) -> None:
        self._add(
            depth, f"{var} = data[p]; p += 1", f"if {var} > 127: {var}, p = int_(data, p - 1)", f"else: {var} = ({var} >> 1) ^ -({var} & 1)"
        )

    def _sized(self, var: str, depth: int) -> None:
        self._add(depth, "n = data[p]; p += 1", "if n & 129: n, p = size_(data, p - 1)", "else: n >>= 1")
        self._taken("p + n", var, depth)

    def _taken(self, end: str, var: str, depth: int) -> None:
        self._add(depth, f"e = {end}", "if e > end: cut(p, e, end)")
        self._add(depth, f"{var} = data[p:e]; p = e" if var else "p = e")

    def _enum(self, writer: Any, reader: Any, var: str, depth: int) -> None:
        known, other = set(reader["symbols"]), reader.get("default")
        symbols = tuple(each if each in known else other for each in writer["symbols"])
        self._index("i", depth)
        self._add(depth, f"if not 0 <= i < {len(symbols)}: wrong('the enum has {len(symbols)} symbols, but the value has symbol %d' % i)")
        self._add(depth, f"{var} = {self._constant(symbols)}[i]")
        if None in symbols:
            self._add(
                depth,
                f"if {var} is None: wrong('the reader does not have the symbol %s, and has no default' % "
                f"{self._constant(tuple(writer['symbols']))}[i])",
            )

    def _primitive(self, writer: Any, reader: Any, var: str, depth: int) -> None:
        kind, target = kind_of(writer), kind_of(reader)
        if kind == "null":
            self._add(depth, f"{var} = None")
        elif kind == "boolean":
            self._add(depth, f"{var} = data[p] == 1; p += 1")
        elif kind in ("int", "long"):
            self._add(
                depth,
                f"{var} = data[p]; p += 1",
                f"if {var} > 127: {var}, p = {kind}_(data, p - 1)",
                f"else: {var} = ({var} >> 1) ^ -({var} & 1)",
            )
            if target in ("float", "double"):
                self._add(depth, f"{var} = float({var})")
        elif kind in ("float", "double"):
            size = _FIXED_SIZES[kind]
            self._add(depth, f"{var} = f{size}(data, p)[0]; p += {size}")
        elif kind == "fixed":
            self._taken(f"p + {int(writer['size'])}", var, depth)
        else:
            self._sized(var, depth)
        self._logical(reader, target, var, depth)

    def _logical(self, reader: Any, target: str, var: str, depth: int) -> None:
        if not isinstance(reader, dict):
            return
        decimal = decimal_of(reader)
        if decimal is not None:
            value = self._constant(partial(decimal_value, decimal=decimal, limit=10**decimal.precision))
            self._add(depth, f"{var} = {value}({var})")
        elif target == "long" and MICROS.get(str(reader.get("logicalType")), 1) == 1000:
            self._add(
                depth, f"{var} *= 1000", f"if not -{_LONGEST} <= {var} < {_LONGEST}: wrong('a timestamp is beyond 64 bits of microseconds')"
            )

    def _blocks(self, writer: Any, reader: Any, var: str, depth: int, *, is_map: bool) -> None:
        """Write code for an array or a map, as a separate function: Python nests at most 20 loops."""
        outer, self._lines = self._lines, []
        item = self._scratch()
        name = f"blocks{item.place}"
        self._add(
            1,
            "out = []",
            "while True:",
            "    n = data[p]; p += 1",
            "    if n > 127: n, p = long_(data, p - 1)",
            "    else: n = (n >> 1) ^ -(n & 1)",
            "    if n == 0: return out, p",
            "    if n < 0:",
            "        n = -n",
            "        _, p = long_(data, p)",
        )
        smallest = 1 if is_map or not _may_be_empty(self._writer, writer, ()) else 0
        room = "end - p" if smallest else f"{MAX_EMPTY_ITEMS} - len(out)"
        self._add(
            2,
            f"if n > {room}: wrong('there are fewer than %d items' % n)"
            if smallest
            else f"if n > {room}: wrong('there are too many items of zero bytes')",
        )
        self._add(2, "for _ in range(n):")
        key = self._scratch() if is_map else None
        if key is not None:
            self._sized(f"v{key.place}", 3)
        self._emit(writer, reader, item, 3)
        self._add(3, f"out.append((v{key.place}, v{item.place}))" if key is not None else f"out.append(v{item.place})")
        self._functions += [f"def {name}(data, p, end):", *self._lines]
        self._lines = outer
        self._add(depth, f"{var}, p = {name}(data, p, end)")

    def _skip(self, schema: Any, depth: int) -> None:
        schema = self._writer.definition(schema)
        kind = kind_of(schema)
        if kind in ("int", "long", "enum"):
            self._add(depth, "n, p = long_(data, p)")
        elif kind in ("string", "bytes"):
            self._sized("", depth)
        elif kind in _FIXED_SIZES or kind == "fixed":
            self._taken(f"p + {int(schema['size']) if kind == 'fixed' else _FIXED_SIZES[kind]}", "", depth)
        elif kind != "null":
            self._add(depth, f"p = {self._constant(AvroGuard(schema, self._writer.names).end)}(data, p)")


def _place(slot: Layout) -> int:
    assert isinstance(slot, Leaf)
    return slot.place


def _may_be_empty(avro: AvroType, schema: Any, inside: tuple[str, ...]) -> bool:
    """Return whether a value may take no bytes."""
    schema = avro.definition(schema)
    kind = kind_of(schema)
    if kind == "record":
        name = schema["name"]
        return name not in inside and all(_may_be_empty(avro, each["type"], (*inside, name)) for each in schema["fields"])
    return kind == "null" or (kind == "fixed" and schema["size"] == 0)


def _named(schema: Any) -> str:
    return f"{schema['type']} {schema['name']}" if isinstance(schema, dict) and "name" in schema else kind_of(schema)


def _long(data: bytes, p: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[p]
        p += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return (value >> 1) ^ -(value & 1), p
        shift += 7
        if shift > 63:
            break
    raise UndecodableValue("a number has more than 64 bits")


def _int(data: bytes, p: int) -> tuple[int, int]:
    value, p = _long(data, p)
    if not -0x80000000 <= value <= 0x7FFFFFFF:
        raise UndecodableValue(f"{value} has more than 32 bits")
    return value, p


def _size(data: bytes, p: int) -> tuple[int, int]:
    value, p = _long(data, p)
    if value < 0:
        raise UndecodableValue(f"a length is {value}")
    return value, p


def _cut(p: int, wanted: int, end: int) -> NoReturn:
    raise UndecodableValue(f"the value is truncated: it needs {wanted - p} more bytes, there are {max(end - p, 0)}")


def _left(p: int, end: int) -> NoReturn:
    # A number that was read beyond the end leaves p beyond the end.
    if p > end:
        raise UndecodableValue("the value is truncated")
    raise UndecodableValue(f"{end - p} of {end} bytes remain after a value of the Avro schema: the value was written with another schema")


def _wrong(why: str) -> NoReturn:
    raise UndecodableValue(why)
