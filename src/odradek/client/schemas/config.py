"""Configuration keys of registries and of serializers, under Confluent's names."""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote, urlsplit, urlunsplit

from odradek.base.addresses import without_password
from odradek.base.errors import ConfigError
from odradek.client.schemas.registry_keys import (
    BASIC_AUTH_CREDENTIALS_SOURCE,
    BASIC_AUTH_USER_INFO,
    BEARER_AUTH_IDENTITY_POOL_ID,
    BEARER_AUTH_LOGICAL_CLUSTER,
    BEARER_AUTH_TOKEN,
    REGISTRY_KEYS,
    SCHEMA_REGISTRY_URL,
)
from odradek.client.schemas.serializer_keys import (
    AUTO_REGISTER_SCHEMAS,
    NORMALIZE_SCHEMAS,
    SCHEMA_ID_LOCATION,
    SERIALIZER_KEYS,
    USE_LATEST_VERSION,
    USE_SCHEMA_ID,
)
from odradek.client.security.tls import tls_context
from odradek.client.settings.config import ClientConfig, Setting
from odradek.config.definition import (
    ConfigDef,
)

_PREFIX: Final = "schema.registry."


REGISTRY_CONFIG: Final = ConfigDef(REGISTRY_KEYS)
SERIALIZER_CONFIG: Final = ConfigDef(SERIALIZER_KEYS)

SubjectStrategy = Callable[[str, str, str | None], str]
"""Function (topic, "key" or "value", full name of the record or None without one) -> subject."""


class RegistryAccess(NamedTuple):
    """Addresses of a registry and the credentials for it. Do not log: `headers` hold the password."""

    urls: tuple[str, ...]
    headers: dict[str, str]
    tls: ssl.SSLContext | None


def registry_config(settings: Mapping[str, Setting], keywords: Mapping[str, Setting]) -> ClientConfig:
    """Return the checked keys of a registry. The prefix `schema.registry.` is optional; `url` is short for schema.registry.url.

    Raises ConfigError.
    """
    given: dict[str, Setting] = {}
    for name, value in [*settings.items(), *keywords.items()]:
        dotted = name.replace("_", ".")
        if dotted in ("url", SCHEMA_REGISTRY_URL.name):
            dotted = SCHEMA_REGISTRY_URL.name
        elif dotted.startswith(_PREFIX):
            dotted = dotted.removeprefix(_PREFIX)
        if dotted == "security.protocol":
            raise ConfigError("Configuration security.protocol is refused: the scheme of schema.registry.url decides whether TLS is used")
        if dotted in given:
            raise ConfigError(f"Configuration {dotted} is given twice")
        given[dotted] = value
    urls = given.get(SCHEMA_REGISTRY_URL.name)
    is_tls = str(urls or "").lower().lstrip("['\"").startswith("https:")
    tls_key = next((name for name in given if name.startswith("ssl.")), None)
    if tls_key is not None and not is_tls:
        raise ConfigError(f"Configuration {tls_key} has no effect: {SCHEMA_REGISTRY_URL} is not an https:// address")
    if not urls:
        raise ConfigError(f"Configuration {SCHEMA_REGISTRY_URL} does not name any registry")
    return ClientConfig(REGISTRY_CONFIG, {**given, "security.protocol": "SSL" if is_tls else "PLAINTEXT"})


def registry_access(config: ClientConfig) -> RegistryAccess:
    """Return the addresses and credentials. Raises ConfigError for an invalid URL and for contradictory credentials."""
    urls: list[str] = []
    schemes: set[str] = set()
    user_info: str | None = None
    for text in config[SCHEMA_REGISTRY_URL]:
        parts = urlsplit(text)
        try:
            bad = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
        except ValueError:
            bad = True
        if bad or parts.query or parts.fragment:
            raise ConfigError(
                f"Invalid value {without_password(text)} for configuration {SCHEMA_REGISTRY_URL}: "
                "it must be http://HOST[:PORT][/PATH] or https://..."
            )
        schemes.add(parts.scheme)
        if "@" in parts.netloc:
            user_info = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        urls.append(urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", "")))
    if len(schemes) > 1:
        raise ConfigError(f"Configuration {SCHEMA_REGISTRY_URL} mixes http:// and https://")
    given = config[BASIC_AUTH_USER_INFO]
    if given is not None:
        if user_info is not None:
            raise ConfigError(
                f"Configuration {BASIC_AUTH_USER_INFO} excludes a name and password in {SCHEMA_REGISTRY_URL}: give one of them"
            )
        if config.is_set(BASIC_AUTH_CREDENTIALS_SOURCE) and config[BASIC_AUTH_CREDENTIALS_SOURCE] == "URL":
            raise ConfigError(f"Configuration {BASIC_AUTH_USER_INFO} has no effect with basic.auth.credentials.source=URL")
        user_info = given
        if ":" not in user_info:
            raise ConfigError(f"Configuration {BASIC_AUTH_USER_INFO} must be name:password")
    elif config.is_set(BASIC_AUTH_CREDENTIALS_SOURCE) and config[BASIC_AUTH_CREDENTIALS_SOURCE] == "USER_INFO":
        raise ConfigError(f"basic.auth.credentials.source=USER_INFO needs {BASIC_AUTH_USER_INFO}")
    return RegistryAccess(tuple(urls), _headers(config, user_info), tls_context(config))


def _headers(config: ClientConfig, user_info: str | None) -> dict[str, str]:
    headers: dict[str, str] = {}
    if user_info is not None:
        headers["Authorization"] = f"Basic {b64encode(user_info.encode()).decode()}"
    token = config[BEARER_AUTH_TOKEN]
    if token is not None:
        if user_info is not None:
            raise ConfigError(f"Configuration {BEARER_AUTH_TOKEN} excludes a name and password: give one of them")
        headers["Authorization"] = f"Bearer {token}"
    for key, header in (
        (BEARER_AUTH_LOGICAL_CLUSTER, "target-sr-cluster"),
        (BEARER_AUTH_IDENTITY_POOL_ID, "Confluent-Identity-Pool-Id"),
    ):
        value = config[key]
        if value is not None:
            if token is None:
                raise ConfigError(f"Configuration {key} has no effect without {BEARER_AUTH_TOKEN}")
            headers[header] = value
    if any("\n" in value or "\r" in value or not value.isascii() for value in headers.values()):
        raise ConfigError(f"Configuration {BEARER_AUTH_TOKEN} has characters that an HTTP header must not contain")
    return headers


class SerializerSettings(NamedTuple):
    """Checked keys of a serializer."""

    auto_register: bool
    use_latest: bool
    schema_id: int | None
    normalize: bool
    subject: SubjectStrategy
    in_header: bool


def serializer_settings(settings: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> SerializerSettings:
    """Check the keys of a serializer. Raises ConfigError, which names the key."""
    given: dict[str, Any] = {}
    for name, value in [*(settings or {}).items(), *keywords.items()]:
        dotted = name.replace("_", ".")
        if dotted in given:
            raise ConfigError(f"Configuration {dotted} is given twice")
        given[dotted] = value
    strategy = given.pop("subject.name.strategy", "topic")
    config = ClientConfig(SERIALIZER_CONFIG, given)
    schema_id = config[USE_SCHEMA_ID]
    auto = config[AUTO_REGISTER_SCHEMAS]
    for key, chosen in ((USE_LATEST_VERSION, config[USE_LATEST_VERSION]), (USE_SCHEMA_ID, schema_id >= 0)):
        if chosen and auto:
            if config.is_set(AUTO_REGISTER_SCHEMAS):
                raise ConfigError(f"Configuration {key} excludes auto.register.schemas=true")
            auto = False
    if config[USE_LATEST_VERSION] and schema_id >= 0:
        raise ConfigError("Configuration use.schema.id excludes use.latest.version=true")
    return SerializerSettings(
        auto,
        config[USE_LATEST_VERSION],
        schema_id if schema_id >= 0 else None,
        config[NORMALIZE_SCHEMAS],
        cast(SubjectStrategy, strategy) if callable(strategy) else named_strategy(str(strategy)),
        config[SCHEMA_ID_LOCATION] == "header",
    )


def named_strategy(name: str) -> SubjectStrategy:
    """Return a strategy by its short name or the name of Java's class. Raises ConfigError."""
    short = name.rpartition(".")[2]
    found = _STRATEGIES.get(_JAVAS.get(short, name))
    if found is None:
        there = ", ".join(_STRATEGIES)
        raise ConfigError(f"Invalid value {name} for configuration subject.name.strategy: it must be a function or one of {there}")
    return found


def _topic(topic: str, part: str, _: str | None) -> str:
    return f"{topic}-{part}"


def _record(_: str, part: str, record: str | None) -> str:
    return _needed(record, part)


def _topic_record(topic: str, part: str, record: str | None) -> str:
    return f"{topic}-{_needed(record, part)}"


def _needed(record: str | None, part: str) -> str:
    if record is None:
        raise ConfigError(f"subject.name.strategy needs the name of a record, and the schema of the {part} has no name")
    return record


_STRATEGIES: Final[dict[str, SubjectStrategy]] = {"topic": _topic, "record": _record, "topic-record": _topic_record}
_JAVAS: Final = {"TopicNameStrategy": "topic", "RecordNameStrategy": "record", "TopicRecordNameStrategy": "topic-record"}
