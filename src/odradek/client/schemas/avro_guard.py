"""Guard against dangerous Avro values, which runs before decoding.

fastavro decodes a recursive type by recursion in C, where too deep a value crashes the process. An array of items without bytes may claim
to have 2**62 items. Only values of schemas with such types need the check.
"""

from __future__ import annotations

from typing import Any, Final

from odradek.client.schemas.errors import UndecodableValue

MAX_DEPTH: Final = 200
MAX_EMPTY_ITEMS: Final = 100_000
_FIXED_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINTS: Final = ("int", "long", "enum")


class AvroGuard:
    """Guard for one schema, as fastavro has parsed it, and the types that it names."""

    def __init__(self, schema: Any, named: dict[str, Any]) -> None:
        self._schema = schema
        self._named = named
        self._harmless: set[str] = set()
        self._empty: dict[str, bool] = {}

    def needed(self) -> bool:
        """Return whether values of this schema need a check."""
        return self._is_dangerous(self._schema, ())

    def check(self, data: bytes, start: int) -> None:
        """Raise UndecodableValue for a value with types nested deeper than 200, more than 100,000 items without bytes, or missing bytes."""
        self.end(data, start)

    def end(self, data: bytes, start: int) -> int:
        """Return the position after the value that begins at `start`. Raises UndecodableValue as `check` does."""
        return _Walk(self._named, data).skip(self._schema, start, 0)

    def _is_dangerous(self, schema: Any, inside: tuple[str, ...]) -> bool:
        kind = _kind(schema)
        if kind in self._named:
            if kind in inside or kind in self._harmless:
                return kind not in self._harmless
            if self._is_dangerous(self._named[kind], (*inside, kind)):
                return True
            # Each type is followed once: a cycle through a type is found at the first visit.
            self._harmless.add(kind)
            return False
        if kind == "union":
            return any(self._is_dangerous(branch, inside) for branch in schema)
        if kind == "array":
            return self._may_be_empty(schema["items"], ()) or self._is_dangerous(schema["items"], inside)
        if kind == "map":
            return self._is_dangerous(schema["values"], inside)
        if kind in ("record", "error"):
            name = str(schema.get("name"))
            if name in inside[:-1] or (name in inside and inside[-1:] != (name,)):
                return True
            return any(self._is_dangerous(field["type"], (*inside, name)) for field in schema["fields"])
        return False

    def _may_be_empty(self, schema: Any, inside: tuple[str, ...]) -> bool:
        kind = _kind(schema)
        if kind in self._named:
            if kind not in self._empty:
                self._empty[kind] = kind not in inside and self._may_be_empty(self._named[kind], (*inside, kind))
            return self._empty[kind]
        if kind in ("record", "error"):
            return all(self._may_be_empty(field["type"], inside) for field in schema["fields"])
        return kind == "null" or (kind == "fixed" and schema["size"] == 0)


class _Walk:
    """Cursor over the bytes of one value."""

    def __init__(self, named: dict[str, Any], data: bytes) -> None:
        self._named = named
        self._data = data
        self._empty_items = 0

    def skip(self, schema: Any, position: int, depth: int) -> int:
        """Return the position after the value of `schema` that begins at `position`."""
        if depth > MAX_DEPTH:
            raise UndecodableValue(f"the value nests types more than {MAX_DEPTH} deep")
        kind = _kind(schema)
        if kind in _FIXED_SIZES:
            return self._past(position, _FIXED_SIZES[kind])
        if kind in _VARINTS:
            return self._long(position)[1]
        if kind in ("bytes", "string"):
            size, position = self._long(position)
            return self._past(position, size)
        if kind == "fixed":
            return self._past(position, schema["size"])
        if kind == "union":
            index, position = self._long(position)
            if not 0 <= index < len(schema):
                raise UndecodableValue(f"the union has {len(schema)} branches, but the value has branch {index}")
            return self.skip(schema[index], position, depth + 1)
        if kind == "array":
            return self._blocks(None, schema["items"], position, depth)
        if kind == "map":
            return self._blocks("string", schema["values"], position, depth)
        if kind in ("record", "error"):
            for field in schema["fields"]:
                position = self.skip(field["type"], position, depth + 1)
            return position
        return self.skip(self._named[kind], position, depth)

    def _blocks(self, key: str | None, item: Any, position: int, depth: int) -> int:
        while True:
            count, position = self._long(position)
            if count == 0:
                return position
            if count < 0:
                count, (_, position) = -count, self._long(position)
            for _ in range(count):
                before = position
                if key is not None:
                    position = self.skip(key, position, depth + 1)
                position = self.skip(item, position, depth + 1)
                if position == before:
                    self._empty_items += 1
                    if self._empty_items > MAX_EMPTY_ITEMS:
                        raise UndecodableValue(f"the value has more than {MAX_EMPTY_ITEMS} items of zero bytes")

    def _past(self, position: int, size: int) -> int:
        if not 0 <= size <= len(self._data) - position:
            raise UndecodableValue(f"the value is truncated: it needs {size} more bytes, there are {max(len(self._data) - position, 0)}")
        return position + size

    def _long(self, position: int) -> tuple[int, int]:
        value = 0
        for shift in range(0, 70, 7):
            if position >= len(self._data):
                raise UndecodableValue("the value is truncated within a number")
            byte = self._data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1), position
        raise UndecodableValue("the value has a number of more than 64 bits")


def _kind(schema: Any) -> str:
    if isinstance(schema, list):
        return "union"
    if isinstance(schema, dict):
        return _kind(schema["type"])  # pyright: ignore[reportUnknownArgumentType]
    return str(schema)
