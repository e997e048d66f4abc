"""Configuration keys of registries and of serializers, under Confluent's names."""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote, urlsplit, urlunsplit

from odradek.base.addresses import without_password
from odradek.base.errors import ConfigError
from odradek.client.common_keys import COMMON_KEYS
from odradek.client.config import ClientConfig, Setting
from odradek.client.tls import tls_context
from odradek.config.definition import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    REQUIRED,
    STRING,
    ConfigDef,
    Key,
    OneOf,
    at_least,
)

URL: Final = "schema.registry.url"
_PREFIX: Final = "schema.registry."
_USER_INFO: Final = "basic.auth.user.info"
_TOKEN: Final = "bearer.auth.token"

# fmt: off
REGISTRY_KEYS: tuple[Key, ...] = (
    Key(URL, LIST, REQUIRED, HIGH, "http:// or https:// addresses of the registry; each is tried, one after the other."),
    Key("basic.auth.credentials.source", STRING, "URL", MEDIUM, "Where name and password are: in the URL, or in basic.auth.user.info "
        "(USER_INFO, which is meant where that is given).", OneOf("URL", "USER_INFO")),
    Key(_USER_INFO, PASSWORD, None, MEDIUM, "name:password for basic authentication."),
    Key("bearer.auth.credentials.source", STRING, "STATIC_TOKEN", MEDIUM, "Only STATIC_TOKEN: bearer.auth.token.", OneOf("STATIC_TOKEN")),
    Key(_TOKEN, PASSWORD, None, MEDIUM, "Token for bearer authentication."),
    Key("bearer.auth.logical.cluster", STRING, None, LOW, "Sent as target-sr-cluster beside a token."),
    Key("bearer.auth.identity.pool.id", STRING, None, LOW, "Sent as Confluent-Identity-Pool-Id beside a token."),
    Key("http.connect.timeout.ms", INT, "30000", MEDIUM, "How long opening a connection may take, milliseconds.", at_least(1)),
    Key("http.read.timeout.ms", INT, "30000", MEDIUM, "How long an answer may take, milliseconds.", at_least(1)),
    Key("max.retries", INT, "3", MEDIUM, "How often a request is sent again to the same URL, after no answer and after 408, 429 and 5xx.",
        at_least(0)),
    Key("retries.wait.ms", INT, "1000", LOW, "Longest wait before the first of them, milliseconds; doubles with each.", at_least(0)),
    Key("retries.max.wait.ms", INT, "20000", LOW, "Longest wait of all, milliseconds; also of what Retry-After asks for.", at_least(0)),
    Key("cache.capacity", INT, "1000", LOW, "How many schemas are remembered, by id, GUID and version each.", at_least(1)),
    Key("missing.id.cache.ttl.sec", LONG, "10", LOW, "How long a schema that the registry does not have is not asked for again, seconds: "
        "a column of foreign bytes asks once for each id, and not for each value.", at_least(0)),
    Key("latest.cache.ttl.sec", LONG, "-1", LOW, "How long the latest version of a subject is taken for the latest, seconds; -1 for ever.",
        at_least(-1)),
    Key("security.protocol", STRING, "PLAINTEXT", LOW, "Follows from the URL.", internal=True),
    *(key for key in COMMON_KEYS if key.name.startswith("ssl.")),
)

SERIALIZER_KEYS: tuple[Key, ...] = (
    Key("auto.register.schemas", BOOLEAN, "true", HIGH, "Whether the schema is registered under the subject, or has to stand there."),
    Key("use.latest.version", BOOLEAN, "false", HIGH, "Write with the latest schema of the subject (see latest.cache.ttl.sec). "
        "Needs auto.register.schemas=false."),
    Key("use.schema.id", INT, "-1", MEDIUM, "Write with the schema of this id. Needs auto.register.schemas=false.", at_least(-1)),
    Key("normalize.schemas", BOOLEAN, "false", MEDIUM, "Whether the registry takes schemas for the same that mean the same."),
    Key("subject.name.strategy", STRING, "topic", HIGH, "topic (TOPIC-value), record (the record's full name), topic-record "
        "(TOPIC-NAME), the name of Java's class, or a function of topic, part (key or value) and record name."),
    Key("schema.id.location", STRING, "prefix", LOW, "Where the schema is named: in front of the value by its id, or in a header of the "
        "record by its GUID.", OneOf("prefix", "header")),
)
# fmt: on

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
        if dotted in ("url", URL):
            dotted = URL
        elif dotted.startswith(_PREFIX):
            dotted = dotted.removeprefix(_PREFIX)
        if dotted == "security.protocol":
            raise ConfigError("Configuration security.protocol is refused: whether there is TLS stands in schema.registry.url")
        if dotted in given:
            raise ConfigError(f"Configuration {dotted} is given twice")
        given[dotted] = value
    urls = given.get(URL)
    is_tls = str(urls or "").lower().lstrip("['\"").startswith("https:")
    tls_key = next((name for name in given if name.startswith("ssl.")), None)
    if tls_key is not None and not is_tls:
        raise ConfigError(f"Configuration {tls_key} has no effect: {URL} is no https:// address")
    if not urls:
        raise ConfigError(f"Configuration {URL} names no registry")
    return ClientConfig(REGISTRY_CONFIG, {**given, "security.protocol": "SSL" if is_tls else "PLAINTEXT"})


def registry_access(config: ClientConfig) -> RegistryAccess:
    """Return the addresses and credentials. Raises ConfigError for an invalid URL and for contradictory credentials."""
    urls: list[str] = []
    schemes: set[str] = set()
    user_info: str | None = None
    for text in config.items(URL):
        parts = urlsplit(text)
        try:
            bad = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
        except ValueError:
            bad = True
        if bad or parts.query or parts.fragment:
            raise ConfigError(
                f"Invalid value {without_password(text)} for configuration {URL}: it must be http://HOST[:PORT][/PATH] or https://..."
            )
        schemes.add(parts.scheme)
        if "@" in parts.netloc:
            user_info = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        urls.append(urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", "")))
    if len(schemes) > 1:
        raise ConfigError(f"Configuration {URL} mixes http:// and https://")
    if config.was_given(_USER_INFO):
        if user_info is not None:
            raise ConfigError(f"Configuration {_USER_INFO} is given, and {URL} has a name and password too: one of them will do")
        if config.was_given("basic.auth.credentials.source") and config.text("basic.auth.credentials.source") == "URL":
            raise ConfigError(f"Configuration {_USER_INFO} has no effect with basic.auth.credentials.source=URL")
        user_info = config.text(_USER_INFO)
        if ":" not in user_info:
            raise ConfigError(f"Configuration {_USER_INFO} must be name:password")
    elif config.was_given("basic.auth.credentials.source") and config.text("basic.auth.credentials.source") == "USER_INFO":
        raise ConfigError(f"basic.auth.credentials.source=USER_INFO needs {_USER_INFO}")
    return RegistryAccess(tuple(urls), _headers(config, user_info), tls_context(config))


def _headers(config: ClientConfig, user_info: str | None) -> dict[str, str]:
    headers: dict[str, str] = {}
    if user_info is not None:
        headers["Authorization"] = f"Basic {b64encode(user_info.encode()).decode()}"
    if config.was_given(_TOKEN):
        if user_info is not None:
            raise ConfigError(f"Configuration {_TOKEN} is given beside a name and password: one of them will do")
        headers["Authorization"] = f"Bearer {config.text(_TOKEN)}"
    for key, header in (
        ("bearer.auth.logical.cluster", "target-sr-cluster"),
        ("bearer.auth.identity.pool.id", "Confluent-Identity-Pool-Id"),
    ):
        if config.was_given(key):
            if not config.was_given(_TOKEN):
                raise ConfigError(f"Configuration {key} has no effect without {_TOKEN}")
            headers[header] = config.text(key)
    if any("\n" in value or "\r" in value or not value.isascii() for value in headers.values()):
        raise ConfigError(f"Configuration {_TOKEN} has characters that no header may have")
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
    schema_id = config.integer("use.schema.id")
    auto = config.flag("auto.register.schemas")
    for name, chosen in (("use.latest.version", config.flag("use.latest.version")), ("use.schema.id", schema_id >= 0)):
        if chosen and auto:
            if config.was_given("auto.register.schemas"):
                raise ConfigError(f"Configuration {name} excludes auto.register.schemas=true")
            auto = False
    if config.flag("use.latest.version") and schema_id >= 0:
        raise ConfigError("Configuration use.schema.id excludes use.latest.version=true")
    return SerializerSettings(
        auto,
        config.flag("use.latest.version"),
        schema_id if schema_id >= 0 else None,
        config.flag("normalize.schemas"),
        cast(SubjectStrategy, strategy) if callable(strategy) else named_strategy(str(strategy)),
        config.text("schema.id.location") == "header",
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
        raise ConfigError(f"subject.name.strategy needs the name of a record, and the schema of the {part} has none")
    return record


_STRATEGIES: Final[dict[str, SubjectStrategy]] = {"topic": _topic, "record": _record, "topic-record": _topic_record}
_JAVAS: Final = {"TopicNameStrategy": "topic", "RecordNameStrategy": "record", "TopicRecordNameStrategy": "topic-record"}
