# protobuf has no complete types:
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Conversion of Protobuf messages to dicts and back.

Keys are the field names of the schema. Fields with presence (messages, `optional`, members of a oneof) appear only if set; all others
always. Integers become int, even those of 64 bits; bytes become bytes; a map becomes a dict. An enum becomes its name, or its number if
that does not have a name.

Well-known types: a Timestamp becomes a datetime in UTC, a Duration a timedelta (both truncated to microseconds), a wrapper its value.
Struct, Value and ListValue become the JSON value that they stand for. Any stays a dict of type_url and value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from odradek.client.schemas.errors import UndecodableValue, UnencodableValue, one_line

_MESSAGE: Final = 10
_ENUM: Final = 8
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_GOOGLE: Final = "google.protobuf."
_WRAPPERS: Final = frozenset(
    f"{_GOOGLE}{name}Value" for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


def plain(message: Any) -> Any:
    """Return a message as Python values. Raises UndecodableValue for an invalid value of a well-known type."""
    descriptor = message.DESCRIPTOR
    name = descriptor.full_name
    if name.startswith(_GOOGLE):
        if name in _WRAPPERS:
            return message.value
        special = _READERS.get(name)
        if special is not None:
            return special(message)
    found: dict[str, Any] = {}
    for field in _plan(descriptor):
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if field.read is not None:
            value = field.read(value)
        found[field.name] = value
    return found


def fill(message: Any, value: Any) -> None:
    """Set a message from the form that `plain` returns; None leaves a field unset. Raises UnencodableValue, which names the field."""
    _fill(message, value, message.DESCRIPTOR.full_name, 0)


class _Field(NamedTuple):
    name: str
    has_presence: bool
    read: Callable[[Any], Any] | None


@lru_cache(maxsize=4096)
def _plan(descriptor: Any) -> tuple[_Field, ...]:
    return tuple(_Field(field.name, bool(field.has_presence), _reader(field)) for field in descriptor.fields)


def _reader(field: Any) -> Callable[[Any], Any] | None:
    if _is_map(field):
        of = _single(field.message_type.fields_by_name["value"])
        return dict if of is None else lambda entries: {key: of(entries[key]) for key in entries}
    single = _single(field)
    if not _is_repeated(field):
        return single
    return list if single is None else lambda values: [single(value) for value in values]


def _single(field: Any) -> Callable[[Any], Any] | None:
    if field.cpp_type == _MESSAGE:
        return plain
    if field.cpp_type != _ENUM:
        return None
    names = {number: str(value.name) for number, value in field.enum_type.values_by_number.items()}
    return lambda number: names.get(number, number)


def _is_repeated(field: Any) -> bool:
    # Releases before 6.31 have only the label; later releases warn when it is used.
    found = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if found is None else found)


def _is_map(field: Any) -> bool:
    return field.cpp_type == _MESSAGE and _is_repeated(field) and bool(field.message_type.GetOptions().map_entry)


def _timestamp(message: Any) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=message.seconds, microseconds=_nanos(message, 0) // 1000)
    except OverflowError:
        raise UndecodableValue(f"a Timestamp of {message.seconds} seconds is outside of the years 1 to 9999") from None


def _duration(message: Any) -> timedelta:
    nanos = _nanos(message, -999_999_999)
    if abs(message.seconds) > 315_576_000_000 or nanos * message.seconds < 0:
        raise UndecodableValue(f"a Duration of {message.seconds} seconds and {nanos} nanoseconds is not valid")
    return timedelta(seconds=message.seconds, microseconds=int(nanos / 1000))


def _nanos(message: Any, least: int) -> int:
    if not least <= message.nanos <= 999_999_999:
        raise UndecodableValue(f"a {message.DESCRIPTOR.name} of {message.nanos} nanoseconds is not valid")
    return int(message.nanos)


def _struct(message: Any) -> dict[str, Any]:
    return {name: _value(message.fields[name]) for name in message.fields}


def _list(message: Any) -> list[Any]:
    return [_value(each) for each in message.values]


def _value(message: Any) -> Any:
    kind = message.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    found = getattr(message, kind)
    if kind == "struct_value":
        return _struct(found)
    return _list(found) if kind == "list_value" else found


_READERS: Final = {
    f"{_GOOGLE}Timestamp": _timestamp,
    f"{_GOOGLE}Duration": _duration,
    f"{_GOOGLE}Struct": _struct,
    f"{_GOOGLE}ListValue": _list,
    f"{_GOOGLE}Value": _value,
}


def _fill(message: Any, value: Any, where: str, depth: int) -> None:
    if depth > 100:
        raise UnencodableValue(f"{where[:80]}... is nested more than 100 levels deep")
    name = message.DESCRIPTOR.full_name
    try:
        if name in _WRAPPERS:
            message.value = value
        elif name == f"{_GOOGLE}Timestamp" and isinstance(value, datetime):
            moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            message.seconds, micros = divmod((moment - _EPOCH) // _MICROSECOND, 1_000_000)
            message.nanos = micros * 1000
        elif name == f"{_GOOGLE}Duration" and isinstance(value, timedelta):
            micros = value // _MICROSECOND
            sign = -1 if micros < 0 else 1
            message.seconds, message.nanos = sign * (abs(micros) // 1_000_000), sign * (abs(micros) % 1_000_000) * 1000
        elif name == f"{_GOOGLE}Struct" and isinstance(value, Mapping):
            message.SetInParent()
            for key, each in value.items():
                _fill(message.fields[key], each, f"{where}.{key}", depth + 1)
        elif name == f"{_GOOGLE}ListValue" and isinstance(value, (list, tuple)):
            message.SetInParent()
            for each in value:
                _fill(message.values.add(), each, f"{where}[]", depth + 1)
        elif name == f"{_GOOGLE}Value":
            _fill_value(message, value, where, depth)
        elif isinstance(value, Mapping):
            message.SetInParent()
            for key, each in value.items():
                _fill_field(message, key, each, where, depth)
        else:
            raise TypeError(f"a message {name} must be a dict, not {type(value).__name__}")
    except (TypeError, ValueError, OverflowError) as error:
        raise UnencodableValue(f"{where}: {one_line(error)}") from None


def _fill_field(message: Any, key: Any, value: Any, where: str, depth: int) -> None:
    field = message.DESCRIPTOR.fields_by_name.get(key)
    where = f"{where}.{key}"
    if field is None:
        raise UnencodableValue(f"{where}: the field does not exist")
    is_value = getattr(field.message_type, "full_name", None) == f"{_GOOGLE}Value"
    if value is None and (_is_repeated(field) or not is_value):
        return
    if _is_repeated(field):
        if _is_map(field):
            of: Any = field.message_type.fields_by_name["value"]
            _fill_map(getattr(message, key), of, value, where, depth)
        elif field.cpp_type == _MESSAGE:
            for index, each in enumerate(cast(Iterable[Any], value)):
                _fill(getattr(message, key).add(), each, f"{where}[{index}]", depth + 1)
        else:
            getattr(message, key).extend([_scalar(field, each, where) for each in cast(Iterable[Any], value)])
    elif field.cpp_type == _MESSAGE:
        getattr(message, key).SetInParent()
        _fill(getattr(message, key), value, where, depth + 1)
    else:
        try:
            setattr(message, key, _scalar(field, value, where))
        except (TypeError, ValueError) as error:
            raise UnencodableValue(f"{where}: {one_line(error)}") from None


def _fill_map(entries: Any, of: Any, value: Any, where: str, depth: int) -> None:
    for key, each in value.items():
        if of.cpp_type == _MESSAGE:
            _fill(entries[key], each, f"{where}[{key!r}]", depth + 1)
        else:
            entries[key] = _scalar(of, each, where)


def _scalar(field: Any, value: Any, where: str) -> Any:
    if field.cpp_type != _ENUM or not isinstance(value, str):
        return value
    found = field.enum_type.values_by_name.get(value)
    if found is None:
        raise UnencodableValue(f"{where}: {field.enum_type.full_name} has no {value}")
    return found.number


def _fill_value(message: Any, value: Any, where: str, depth: int) -> None:
    if value is None:
        message.null_value = 0
    elif isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, (int, float)):
        message.number_value = value
    elif isinstance(value, str):
        message.string_value = value
    elif isinstance(value, Mapping):
        _fill(message.struct_value, value, where, depth + 1)
    elif isinstance(value, (list, tuple)):
        _fill(message.list_value, value, where, depth + 1)
    else:
        raise TypeError(f"JSON does not support {type(value).__name__}")
