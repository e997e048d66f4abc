"""Configuration keys of registries, under Confluent's names; the TLS keys are those of the clients."""

from __future__ import annotations

from typing import Final

from odradek.client.settings.common_keys import COMMON_KEYS
from odradek.config.definition import HIGH, INT, LIST, LONG, LOW, MEDIUM, PASSWORD, REQUIRED, STRING, Key, OneOf, at_least, keys_in

SCHEMA_REGISTRY_URL: Final = Key(
    "schema.registry.url", LIST, REQUIRED, HIGH, "Addresses of the registry, http:// or https://; the client tries them in order."
)
BASIC_AUTH_CREDENTIALS_SOURCE: Final = Key(
    "basic.auth.credentials.source",
    STRING,
    "URL",
    MEDIUM,
    "Where name and password come from: the URL, or basic.auth.user.info (USER_INFO, the default where that key is given).",
    OneOf("URL", "USER_INFO"),
)
BASIC_AUTH_USER_INFO: Final = Key("basic.auth.user.info", PASSWORD, None, MEDIUM, "name:password for basic authentication.")
BEARER_AUTH_CREDENTIALS_SOURCE: Final = Key(
    "bearer.auth.credentials.source",
    STRING,
    "STATIC_TOKEN",
    MEDIUM,
    "Must be STATIC_TOKEN: the value of bearer.auth.token.",
    OneOf("STATIC_TOKEN"),
)
BEARER_AUTH_TOKEN: Final = Key("bearer.auth.token", PASSWORD, None, MEDIUM, "Token for bearer authentication.")
BEARER_AUTH_LOGICAL_CLUSTER: Final = Key(
    "bearer.auth.logical.cluster", STRING, None, LOW, "Value of the header target-sr-cluster, sent with a token."
)
BEARER_AUTH_IDENTITY_POOL_ID: Final = Key(
    "bearer.auth.identity.pool.id", STRING, None, LOW, "Value of the header Confluent-Identity-Pool-Id, sent with a token."
)
HTTP_CONNECT_TIMEOUT_MS: Final = Key(
    "http.connect.timeout.ms", INT, "30000", MEDIUM, "Time limit for opening a connection, milliseconds.", at_least(1)
)
HTTP_READ_TIMEOUT_MS: Final = Key("http.read.timeout.ms", INT, "30000", MEDIUM, "Time limit for a response, milliseconds.", at_least(1))
MAX_RETRIES: Final = Key(
    "max.retries",
    INT,
    "3",
    MEDIUM,
    "Number of retries to the same URL, without a response or after the statuses 408, 429 and 5xx.",
    at_least(0),
)
RETRIES_WAIT_MS: Final = Key(
    "retries.wait.ms", INT, "1000", LOW, "Longest pause before the first retry, milliseconds; doubles with every failure.", at_least(0)
)
RETRIES_MAX_WAIT_MS: Final = Key(
    "retries.max.wait.ms",
    INT,
    "20000",
    LOW,
    "Longest pause before any retry, milliseconds, including one that Retry-After requests.",
    at_least(0),
)
CACHE_CAPACITY: Final = Key(
    "cache.capacity", INT, "1000", LOW, "Number of cached schemas, separately by id, GUID and version.", at_least(1)
)
MISSING_ID_CACHE_TTL_SEC: Final = Key(
    "missing.id.cache.ttl.sec",
    LONG,
    "10",
    LOW,
    "How long the client remembers that the registry does not have a schema, seconds. A column of foreign bytes then needs one "
    "request for each id instead of one for each value.",
    at_least(0),
)
LATEST_CACHE_TTL_SEC: Final = Key(
    "latest.cache.ttl.sec",
    LONG,
    "-1",
    LOW,
    "How long the latest version of a subject is cached, seconds; -1 without limit.",
    at_least(-1),
)
SECURITY_PROTOCOL: Final = Key("security.protocol", STRING, "PLAINTEXT", LOW, "Not used: the URL decides it.", internal=True)

REGISTRY_KEYS: Final = (*keys_in(globals()), *(key for key in COMMON_KEYS if key.name.startswith("ssl.")))
