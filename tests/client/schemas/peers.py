"""confluent-kafka's serializers, which ours are held to."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.common.serde import SchemaId as SchemaId
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext


def context(topic: str, headers: list[Any] | None = None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


class Peer:
    """All of them, with one registry."""

    def __init__(self, url: str) -> None:
        self.client = SchemaRegistryClient({"url": url})

    def write_avro(self, schema: str, value: Any, topic: str) -> bytes:
        return AvroSerializer(self.client, schema)(value, context(topic))

    def write_avro_in_header(self, schema: str, value: Any, topic: str) -> tuple[bytes, list[tuple[str, bytes]]]:
        headers: list[tuple[str, bytes]] = []
        written = AvroSerializer(self.client, schema, conf={"schema.id.serializer": header_schema_id_serializer})
        return written(value, context(topic, headers)), headers

    def read_avro(self, data: bytes, topic: str) -> Any:
        return AvroDeserializer(self.client)(data, context(topic))

    def write_json(self, schema: str, value: Any, topic: str) -> bytes:
        return JSONSerializer(schema, self.client)(value, context(topic))

    def read_json(self, data: bytes, topic: str) -> Any:
        return JSONDeserializer(json.dumps({"title": "Anything"}), schema_registry_client=self.client)(data, context(topic))

    def write_protobuf(self, message: Any, topic: str) -> bytes:
        return ProtobufSerializer(type(message), self.client)(message, context(topic))

    def read_protobuf(self, kind: Any, data: bytes, topic: str) -> Any:
        return ProtobufDeserializer(kind, {}, self.client)(data, context(topic))
