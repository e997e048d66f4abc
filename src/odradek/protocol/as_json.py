"""JSON form of messages, as Kafka's generated JsonConverter classes and Jackson write them.

Names are those of Kafka's message definitions (`leader_epoch` is `leaderEpoch`); bytes are base64, ids their text form. A field that the
version does not have is left out, and so is a tagged field at its default.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, cast
from uuid import UUID

from odradek.base.ids import uuid_to_string
from odradek.protocol.errors import UnsupportedVersionError
from odradek.protocol.schema import Array, Field, Scalar, Struct

Json: TypeAlias = "bool | int | float | str | bytes | Sequence[Json] | Mapping[str, Json] | None"
"""JSON values; bytes stand for base64 text, so that a caller who knows their content can replace them by it."""

_ESCAPES: Final = {
    **{code: f"\\u{code:04X}" for code in range(0x20)},
    **{ord(plain): "\\" + letter for plain, letter in zip('"\\\b\t\n\f\r', '"\\btnfr', strict=True)},
}


def message_json(message: Struct, version: int) -> dict[str, Json]:
    """Return the fields that `version` has.

    Raises UnsupportedVersionError when a field that `version` lacks is set and must not be dropped.
    """
    found: dict[str, Json] = {}
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if not field.versions.includes(version):
            if not field.ignorable and not _is_default(message, field, value):
                raise UnsupportedVersionError(f"{type(message).__name__} version {version} has no field {field.name}")
        elif not (field.tagged.includes(version) and _is_default(message, field, value)):
            found[_camel(field.name)] = _value(value, version)
    return found


def json_text(value: Json) -> str:
    """Return the text as Jackson's JsonNode.toString: no spaces, and only the escapes that JSON requires."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _double(value)
        case str():
            return f'"{value.translate(_ESCAPES)}"'
        case bytes():
            return f'"{base64.b64encode(value).decode()}"'
        case Mapping():
            return "{" + ",".join([f"{json_text(name)}:{json_text(each)}" for name, each in value.items()]) + "}"
        case _:
            return "[" + ",".join(map(json_text, value)) + "]"


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join([other[:1].upper() + other[1:] for other in others])


def _is_default(message: Struct, field: Field, value: object) -> bool:
    if field.default_is_none:
        return value is None
    if isinstance(field.type, Array):
        return value == []
    if isinstance(field.type, Scalar):
        return value == field.default
    return value == type(message).struct(field.type)()


def _value(value: object, version: int) -> Json:
    match value:
        case Struct():
            return message_json(value, version)
        case list():
            return [_value(each, version) for each in cast("list[object]", value)]
        case UUID():
            return uuid_to_string(value)
        case bytearray() | memoryview():
            return bytes(cast("bytes", value))
        case _:
            return cast("Json", value)


def _double(value: float) -> str:
    """Return the text as Java's Double.toString."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else f'"{"-" if value < 0 else ""}Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, power = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = int(power or 0) + len(digits) - len(fraction) - 1
    digits = digits.rstrip("0")
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{exponent}"
