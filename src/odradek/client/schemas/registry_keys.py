"""Configuration keys of registries, under Confluent's names; the TLS keys are those of the clients."""

from __future__ import annotations

from typing import Final

from odradek.client.common_keys import COMMON_KEYS
from odradek.config.definition import HIGH, INT, LIST, LONG, LOW, MEDIUM, PASSWORD, REQUIRED, STRING, Key, OneOf, at_least, keys_in

SCHEMA_REGISTRY_URL: Final = Key(
    "schema.registry.url", LIST, REQUIRED, HIGH, "http:// or https:// addresses of the registry; each is tried, one after the other."
)
BASIC_AUTH_CREDENTIALS_SOURCE: Final = Key(
    "basic.auth.credentials.source",
    STRING,
    "URL",
    MEDIUM,
    "Where name and password are: in the URL, or in basic.auth.user.info (USER_INFO, which is meant where that is given).",
    OneOf("URL", "USER_INFO"),
)
BASIC_AUTH_USER_INFO: Final = Key("basic.auth.user.info", PASSWORD, None, MEDIUM, "name:password for basic authentication.")
BEARER_AUTH_CREDENTIALS_SOURCE: Final = Key(
    "bearer.auth.credentials.source", STRING, "STATIC_TOKEN", MEDIUM, "Only STATIC_TOKEN: bearer.auth.token.", OneOf("STATIC_TOKEN")
)
BEARER_AUTH_TOKEN: Final = Key("bearer.auth.token", PASSWORD, None, MEDIUM, "Token for bearer authentication.")
BEARER_AUTH_LOGICAL_CLUSTER: Final = Key("bearer.auth.logical.cluster", STRING, None, LOW, "Sent as target-sr-cluster beside a token.")
BEARER_AUTH_IDENTITY_POOL_ID: Final = Key(
    "bearer.auth.identity.pool.id", STRING, None, LOW, "Sent as Confluent-Identity-Pool-Id beside a token."
)
HTTP_CONNECT_TIMEOUT_MS: Final = Key(
    "http.connect.timeout.ms", INT, "30000", MEDIUM, "How long opening a connection may take, milliseconds.", at_least(1)
)
HTTP_READ_TIMEOUT_MS: Final = Key("http.read.timeout.ms", INT, "30000", MEDIUM, "How long an answer may take, milliseconds.", at_least(1))
MAX_RETRIES: Final = Key(
    "max.retries",
    INT,
    "3",
    MEDIUM,
    "How often a request is sent again to the same URL, after no answer and after 408, 429 and 5xx.",
    at_least(0),
)
RETRIES_WAIT_MS: Final = Key(
    "retries.wait.ms", INT, "1000", LOW, "Longest wait before the first of them, milliseconds; doubles with each.", at_least(0)
)
RETRIES_MAX_WAIT_MS: Final = Key(
    "retries.max.wait.ms", INT, "20000", LOW, "Longest wait of all, milliseconds; also of what Retry-After asks for.", at_least(0)
)
CACHE_CAPACITY: Final = Key(
    "cache.capacity", INT, "1000", LOW, "How many schemas are remembered, by id, GUID and version each.", at_least(1)
)
MISSING_ID_CACHE_TTL_SEC: Final = Key(
    "missing.id.cache.ttl.sec",
    LONG,
    "10",
    LOW,
    "How long a schema that the registry does not have is not asked for again, seconds: "
    "a column of foreign bytes asks once for each id, and not for each value.",
    at_least(0),
)
LATEST_CACHE_TTL_SEC: Final = Key(
    "latest.cache.ttl.sec",
    LONG,
    "-1",
    LOW,
    "How long the latest version of a subject is taken for the latest, seconds; -1 for ever.",
    at_least(-1),
)
SECURITY_PROTOCOL: Final = Key("security.protocol", STRING, "PLAINTEXT", LOW, "Follows from the URL.", internal=True)

REGISTRY_KEYS: Final = (*keys_in(globals()), *(key for key in COMMON_KEYS if key.name.startswith("ssl.")))
