# protobuf has no complete types:
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingModuleSource=false
"""Codec of Protobuf messages by google.protobuf, from descriptors in base64 (a registry's `?format=serialized`)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final

from odradek.client.schemas.errors import SchemaError, UndecodableValue, UnencodableValue, WireFormatError, one_line
from odradek.client.schemas.optional_libraries import need_protobuf
from odradek.client.schemas.protobuf_plain import fill, plain
from odradek.client.schemas.references import named, resolved
from odradek.client.schemas.types import PROTOBUF, Schema, SchemaReference, SchemaSource
from odradek.client.schemas.wire import MAX_INDEXES

_WELL_KNOWN: Final = (
    *("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type", "wrappers"),
)
_FILE: Final = "default"
_MAX_TEXT: Final = 1 << 22


class ProtobufSchema:
    """Parsed Protobuf file in a separate descriptor pool, for reading and writing its messages."""

    def __init__(self, source: SchemaSource | None, schema: Schema) -> None:
        """Parse the schema.

        Raises OdradekError without protobuf, SchemaError for an invalid descriptor, and the errors of `source` for references.
        """
        need_protobuf()
        from google.protobuf import descriptor_pool

        if schema.type != PROTOBUF:
            raise SchemaError(f"the schema has the type {schema.type} instead of {PROTOBUF}")
        self.schema = schema
        pool: Any = descriptor_pool.DescriptorPool()
        known: set[str] = set()
        if schema.references and source is None:
            raise SchemaError(f"the schema refers to {schema.references[0].subject}: a schema registry is needed to look it up")
        files: list[Any] = []
        if schema.references and source is not None:
            for name, each in named(resolved(source, schema), PROTOBUF):
                files += _files(each, name)
        files += _files(schema, _FILE)
        for file in files:
            if file.name in known:
                continue
            _add(pool, known, file)
        self._pool = pool
        self._file: Any = pool.FindFileByName(files[-1].name)
        self._classes: dict[str, Any] = {}

    def message(self, indexes: Sequence[int]) -> Any:
        """Return the descriptor of the message at these indexes. Raises WireFormatError for a missing message."""
        kinds: Sequence[Any] = list(self._file.message_types_by_name.values())
        found: Any = None
        for depth, index in enumerate(indexes):
            if index >= len(kinds):
                where = f"message {found.full_name}" if found is not None else "the schema"
                what = "messages" if depth == 0 else "nested messages"
                raise WireFormatError(f"the message indexes {list(indexes)} are out of range: {where} has {len(kinds)} {what}")
            found = kinds[index]
            kinds = found.nested_types
        return found

    def named(self, name: str) -> Any:
        """Return the descriptor of a message by its full or short name; dots separate nested names. Raises SchemaError."""
        package = f"{self._file.package}." if self._file.package else ""
        for full in (name, package + name):
            try:
                return self._pool.FindMessageTypeByName(full)
            except KeyError:
                continue
        there = ", ".join(package + each for each in self._file.message_types_by_name) or "none"
        raise SchemaError(f"the schema does not have a message {name}; its messages are {there}")

    def message_class(self, descriptor: Any) -> Any:
        """Return the generated class of a message."""
        from google.protobuf import message_factory

        found = self._classes.get(descriptor.full_name)
        if found is None:
            found = self._classes[descriptor.full_name] = message_factory.GetMessageClass(descriptor)
        return found


class ProtobufDecoder:
    """Decoder of one type of message."""

    def __init__(self, schema: ProtobufSchema, descriptor: Any) -> None:
        self._class = schema.message_class(descriptor)
        self._name = descriptor.full_name

    def decode(self, data: bytes, start: int) -> Any:
        """Return the message that takes all bytes from `start` on, as a dict (see `protobuf_plain`). Raises UndecodableValue."""
        try:
            message = self._class.FromString(bytes(data[start:]))
        except Exception as error:
            raise UndecodableValue(f"malformed message {self._name}: {one_line(error)}") from None
        return plain(message)


def encode_message(schema: ProtobufSchema, descriptor: Any, value: Any) -> bytes:
    """Return the bytes of a dict, or of a message of this type. Raises UnencodableValue for a value that does not fit."""
    from google.protobuf.message import Message

    if isinstance(value, Message):
        if value.DESCRIPTOR.full_name != descriptor.full_name:
            raise UnencodableValue(f"the value is a message {value.DESCRIPTOR.full_name} instead of {descriptor.full_name}")
        message: Any = value
    else:
        message = schema.message_class(descriptor)()
        fill(message, value)
    try:
        return bytes(message.SerializeToString())
    except Exception as error:
        raise UnencodableValue(f"the message cannot be written: {one_line(error)}") from None


def schema_of(descriptor: Any, references: Sequence[SchemaReference] = ()) -> Schema:
    """Return the schema of the file that defines a generated message."""
    return Schema(base64.b64encode(descriptor.file.serialized_pb).decode(), PROTOBUF, tuple(references))


def indexes_of(descriptor: Any) -> tuple[int, ...]:
    """Return the message indexes of a message within its file."""
    indexes: list[int] = []
    while descriptor is not None:
        holder = descriptor.containing_type
        siblings = list(descriptor.file.message_types_by_name.values()) if holder is None else list(holder.nested_types)
        indexes.append([each.full_name for each in siblings].index(descriptor.full_name))
        descriptor = holder
    assert len(indexes) <= MAX_INDEXES
    return tuple(reversed(indexes))


def is_well_known(name: str) -> bool:
    """Return whether an import comes with protobuf itself and is therefore not registered."""
    return name.startswith("google/protobuf/") and name.removeprefix("google/protobuf/").removesuffix(".proto") in _WELL_KNOWN


def _files(schema: Schema, name: str) -> list[Any]:
    from google.protobuf import descriptor_pb2

    if len(schema.text) > _MAX_TEXT:
        raise SchemaError(f"a schema of {len(schema.text)} characters is too long: the limit is {_MAX_TEXT}")
    try:
        raw = base64.b64decode(schema.text, validate=True)
    except (binascii.Error, ValueError):
        raise SchemaError(
            "the Protobuf schema is text (.proto) instead of a descriptor: the registry must support ?format=serialized; for a "
            "folder use `protoc --include_imports --descriptor_set_out`"
        ) from None
    # Both types begin with field 1, so the bytes of one may parse as the other: in a file, field 1 is the file's name, in a set a whole
    # file.
    many = descriptor_pb2.FileDescriptorSet()
    one = descriptor_pb2.FileDescriptorProto()
    try:
        one.ParseFromString(raw)
        is_file = bool(one.message_type or one.enum_type or one.dependency or one.syntax or one.package) or not raw
    except Exception:
        is_file = False
    try:
        if not is_file:
            many.ParseFromString(raw)
            if many.file and all(each.name for each in many.file):
                return list(many.file)
            one.ParseFromString(raw)
    except Exception as error:
        raise SchemaError(f"malformed Protobuf descriptor: {one_line(error)}") from None
    one.name = name
    return [one]


def _add(pool: Any, known: set[str], file: Any) -> None:
    for name in file.dependency:
        if is_well_known(name):
            _add_well_known(pool, known, name)
    missing = next((each for each in file.dependency if each not in known), None)
    if missing is not None:
        raise SchemaError(f"the Protobuf schema imports {missing}, which is not among its references")
    try:
        pool.AddSerializedFile(file.SerializeToString())
        pool.FindFileByName(file.name)
    except Exception as error:
        raise SchemaError(f"the Protobuf schema cannot be used: {one_line(error)}") from None
    known.add(file.name)


def _add_well_known(pool: Any, known: set[str], name: str) -> None:
    from importlib import import_module

    if name in known:
        return
    module = import_module(name.replace("/", ".").removesuffix(".proto") + "_pb2")
    for each in module.DESCRIPTOR.dependencies:
        _add_well_known(pool, known, each.name)
    pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    known.add(name)
