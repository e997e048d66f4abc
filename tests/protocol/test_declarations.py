"""The declarations are consistent: annotations say what the wire types say, versions nest, tags are unique."""

from __future__ import annotations

import pytest

from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.registry import metadata_record_class, request_class, response_class
from odradek.protocol.schema import Array, Field, Message, MessageType, Scalar, Struct
from tests.protocol.generate import all_messages, versions_of

PYTHON_TYPES = {
    "Bool": "bool",
    "Float64": "float",
    "String": "str",
    "Bytes": "bytes",
    "Records": "RecordsData",
    "Uuid": "UUID",
}


def structs_of(message: type[Message]) -> list[type[Struct]]:
    nested = [value for value in vars(message).values() if isinstance(value, MessageType) and value is not message]
    return [message, *nested]  # type: ignore[list-item]


def expected_annotation(message: type[Message], owner: type[Struct], item: Field) -> str:
    wire_type = item.type.element if isinstance(item.type, Array) else item.type
    if isinstance(wire_type, Scalar):
        text = PYTHON_TYPES.get(wire_type.name, "int")
    else:
        text = wire_type if owner is message else f"{message.__name__}.{wire_type}"
    if isinstance(item.type, Array):
        text = f"list[{text}]"
    return f"{text} | None" if item.nullable_text != "none" or item.default_is_none else text


@pytest.mark.parametrize("message", all_messages(), ids=lambda cls: cls.__name__)
def test_a_declaration_is_consistent(message: type[Message]) -> None:
    assert message.__doc__
    assert message.VALID_VERSIONS.low <= message.VALID_VERSIONS.high
    for owner in structs_of(message):
        tags = [item.tag for item in owner.FIELDS if item.tag is not None]
        assert len(tags) == len(set(tags))
        for item in owner.FIELDS:
            assert owner.__annotations__[item.name] == expected_annotation(message, owner, item), (owner, item)
            for version in versions_of(message):
                if item.tagged.includes(version):
                    assert item.versions.includes(version)
                    assert message.FLEXIBLE_VERSIONS.includes(version), (owner, item)
            if not isinstance(item.type, Array | Scalar):
                owner.struct(item.type)


def test_every_struct_is_used() -> None:
    for message in all_messages():
        structs = structs_of(message)
        named = {item.type.element if isinstance(item.type, Array) else item.type for owner in structs for item in owner.FIELDS}
        assert {cls.__name__ for cls in structs[1:]} == {name for name in named if isinstance(name, str)}


@pytest.mark.parametrize("key", list(ApiKey), ids=lambda key: key.name)
def test_the_table_of_apis_agrees_with_the_messages(key: ApiKey) -> None:
    info = API_INFO[key]
    for cls in (request_class(key), response_class(key)):
        assert key == cls.API_KEY
        assert (info.min_version, info.max_version) == cls.VALID_VERSIONS
        for version in versions_of(cls):
            assert info.is_flexible(version) == cls.FLEXIBLE_VERSIONS.includes(version)
    assert info.latest_version_unstable == request_class(key).LATEST_UNSTABLE


def test_every_api_and_record_type_is_there() -> None:
    assert list(ApiKey) == list(range(93))
    types = [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 14, 15, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28]
    assert [metadata_record_class(record_type).API_KEY for record_type in types] == types
