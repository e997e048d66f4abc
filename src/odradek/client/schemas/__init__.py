"""Serializers and deserializers of Avro, Protobuf and JSON values with a schema registry or a folder of schemas.

    from odradek.client.schemas import AvroSerializer, SchemaRegistry

Avro and Protobuf need `pip install 'odradek[schemas]'`. Each name of this module is imported at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.client.schemas.decoding import BareDecoder as BareDecoder
    from odradek.client.schemas.decoding import DecoderSettings as DecoderSettings
    from odradek.client.schemas.decoding import RegistryDecoder as RegistryDecoder
    from odradek.client.schemas.deserializers import AvroDeserializer as AvroDeserializer
    from odradek.client.schemas.deserializers import JsonDeserializer as JsonDeserializer
    from odradek.client.schemas.deserializers import ProtobufDeserializer as ProtobufDeserializer
    from odradek.client.schemas.deserializers import SchemaDeserializer as SchemaDeserializer
    from odradek.client.schemas.errors import RegistryError as RegistryError
    from odradek.client.schemas.errors import SchemaError as SchemaError
    from odradek.client.schemas.errors import UndecodableValue as UndecodableValue
    from odradek.client.schemas.errors import UnencodableValue as UnencodableValue
    from odradek.client.schemas.errors import UnknownSchema as UnknownSchema
    from odradek.client.schemas.errors import WireFormatError as WireFormatError
    from odradek.client.schemas.folder import SchemaFolder as SchemaFolder
    from odradek.client.schemas.json_values import json_text as json_text
    from odradek.client.schemas.registry import AsyncSchemaRegistry as AsyncSchemaRegistry
    from odradek.client.schemas.registry import SchemaRegistry as SchemaRegistry
    from odradek.client.schemas.serializers import AvroSerializer as AvroSerializer
    from odradek.client.schemas.serializers import JsonSerializer as JsonSerializer
    from odradek.client.schemas.serializers import ProtobufSerializer as ProtobufSerializer
    from odradek.client.schemas.types import RegisteredSchema as RegisteredSchema
    from odradek.client.schemas.types import Schema as Schema
    from odradek.client.schemas.types import SchemaReference as SchemaReference
    from odradek.client.schemas.types import SchemaSource as SchemaSource

_HOMES = {
    **dict.fromkeys(("BareDecoder", "DecoderSettings", "RegistryDecoder"), "decoding"),
    **dict.fromkeys(("AvroDeserializer", "JsonDeserializer", "ProtobufDeserializer", "SchemaDeserializer"), "deserializers"),
    **dict.fromkeys(("RegistryError", "SchemaError", "UndecodableValue", "UnencodableValue", "UnknownSchema", "WireFormatError"), "errors"),
    **dict.fromkeys(("AsyncSchemaRegistry", "SchemaRegistry"), "registry"),
    **dict.fromkeys(("AvroSerializer", "JsonSerializer", "ProtobufSerializer"), "serializers"),
    **dict.fromkeys(("RegisteredSchema", "Schema", "SchemaReference", "SchemaSource"), "types"),
    "SchemaFolder": "folder",
    "json_text": "json_values",
}

__all__ = [
    "AsyncSchemaRegistry",
    "AvroDeserializer",
    "AvroSerializer",
    "BareDecoder",
    "DecoderSettings",
    "JsonDeserializer",
    "JsonSerializer",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "RegisteredSchema",
    "RegistryDecoder",
    "RegistryError",
    "Schema",
    "SchemaDeserializer",
    "SchemaError",
    "SchemaFolder",
    "SchemaReference",
    "SchemaRegistry",
    "SchemaSource",
    "UndecodableValue",
    "UnencodableValue",
    "UnknownSchema",
    "WireFormatError",
    "json_text",
]


def __getattr__(name: str) -> Any:
    place = _HOMES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{place}"), name)
