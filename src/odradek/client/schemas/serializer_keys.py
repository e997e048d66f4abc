"""Configuration keys of serializers, under Confluent's names."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import BOOLEAN, HIGH, INT, LOW, MEDIUM, STRING, Key, OneOf, at_least, keys_in

AUTO_REGISTER_SCHEMAS: Final = Key(
    "auto.register.schemas",
    BOOLEAN,
    "true",
    HIGH,
    "Whether a schema that is not registered under the subject is registered; otherwise it is an error.",
)
USE_LATEST_VERSION: Final = Key(
    "use.latest.version",
    BOOLEAN,
    "false",
    HIGH,
    "Write with the latest schema of the subject (see latest.cache.ttl.sec). Needs auto.register.schemas=false.",
)
USE_SCHEMA_ID: Final = Key(
    "use.schema.id", INT, "-1", MEDIUM, "Write with the schema of this id. Needs auto.register.schemas=false.", at_least(-1)
)
NORMALIZE_SCHEMAS: Final = Key(
    "normalize.schemas", BOOLEAN, "false", MEDIUM, "Whether the registry treats schemas with the same meaning as equal."
)
SUBJECT_NAME_STRATEGY: Final = Key(
    "subject.name.strategy",
    STRING,
    "topic",
    HIGH,
    "topic (TOPIC-value), record (the record's full name), topic-record "
    "(TOPIC-NAME), the name of Java's class, or a function of topic, part (key or value) and record name.",
)
SCHEMA_ID_LOCATION: Final = Key(
    "schema.id.location",
    STRING,
    "prefix",
    LOW,
    "Where the schema is named: in front of the value, by id, or in a header of the record, by GUID.",
    OneOf("prefix", "header"),
)

SERIALIZER_KEYS: Final = keys_in(globals())
