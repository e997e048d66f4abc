"""Configuration of the clients: Kafka's keys, as dotted names in a mapping or as snake_case keyword arguments.

    Producer({"bootstrap.servers": "localhost:9092"}, linger_ms=20)

A key that is not listed here raises ConfigError, even if it is a key of Kafka's that is not served yet: no key is accepted and ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from odradek.base.errors import ConfigError
from odradek.client.common_keys import ADMIN_KEYS, CALLABLES, COMMON_KEYS, METADATA_MAX_IDLE, REFUSED, SPELLINGS
from odradek.client.core.reset_policy import ResetPolicy
from odradek.config.definition import (
    BOOLEAN,
    CLASS,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    STRING,
    ConfigDef,
    ConfigValue,
    Key,
    OneOf,
    at_least,
    between,
    setting_text,
)
from odradek.config.references import PROVIDERS, PROVIDERS_PREFIX, Resolved, is_of_providers, is_provider_setting
from odradek.config.validators import gzip_level, parse_host_port

T = TypeVar("T")

Setting = str | int | float | bool | Sequence[str] | Callable[..., object] | None
"""Value of a key: text as in a properties file, or the Python value; None means the default."""

_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

PRODUCER_KEYS: tuple[Key, ...] = (
    *COMMON_KEYS,
    METADATA_MAX_IDLE,
    Key(
        "acks",
        STRING,
        "all",
        LOW,
        "Whose copy makes a record acknowledged: 0 nobody's, 1 the leader's, all (-1) every in-sync replica's.",
        OneOf("all", "-1", "0", "1"),
    ),
    Key(
        "batch.size",
        INT,
        "262144",
        MEDIUM,
        "Bytes of records of one partition that are sent together, at most. Java's producer has 16384, librdkafka 1000000.",
        at_least(0),
    ),
    Key("linger.ms", LONG, "5", MEDIUM, "How long a batch waits for more records, milliseconds.", at_least(0)),
    Key("buffer.memory", LONG, "33554432", HIGH, "Bytes of records that may wait; send() blocks beyond that.", at_least(0)),
    Key("max.block.ms", LONG, "60000", MEDIUM, "How long send() waits for metadata or room, milliseconds.", at_least(0)),
    Key("max.request.size", INT, "1048576", MEDIUM, "Largest record, uncompressed, and largest request, in bytes.", at_least(0)),
    Key("compression.type", STRING, "none", HIGH, "Codec of new batches.", OneOf(*_COMPRESSIONS)),
    Key("compression.gzip.level", INT, "-1", MEDIUM, "gzip level, 1 to 9; -1 is the library's own choice.", gzip_level),
    Key("compression.lz4.level", INT, "9", MEDIUM, "lz4 level, 1 to 17.", between(1, 17)),
    Key("compression.zstd.level", INT, "3", MEDIUM, "zstd level, -131072 to 22.", between(-131072, 22)),
    Key(
        "delivery.timeout.ms",
        INT,
        "120000",
        MEDIUM,
        "How long after send() a record is either acknowledged or failed, milliseconds.",
        at_least(0),
    ),
    Key(
        "transactional.id",
        STRING,
        None,
        LOW,
        "Names the producer across restarts: it sends in transactions, and whoever has the same name later fences it.",
    ),
    Key(
        "transaction.timeout.ms",
        INT,
        "60000",
        LOW,
        "How long a transaction may stay open before the coordinator aborts it, milliseconds.",
        at_least(1),
    ),
    Key(
        "transaction.two.phase.commit.enable",
        BOOLEAN,
        "false",
        LOW,
        "Whether transactions never time out, because somebody is sure to end them (KIP-939); the broker must allow it.",
    ),
    Key("enable.idempotence", BOOLEAN, "true", LOW, "No duplicates and no reordering when the producer retries."),
    Key("max.in.flight.requests.per.connection", INT, "5", LOW, "Requests without an answer yet, per broker.", at_least(1)),
    Key(
        "partitioner.class",
        CLASS,
        None,
        MEDIUM,
        "Who chooses partitions, instead of keys and load: a function, an object with partition(...), or Java's RoundRobinPartitioner.",
    ),
    Key("partitioner.ignore.keys", BOOLEAN, "false", MEDIUM, "Whether records with a key go where those without one do."),
    Key(
        "partitioner.adaptive.partitioning.enable",
        BOOLEAN,
        "true",
        LOW,
        "Whether partitions whose queues are short get more of the records without a key (KIP-794).",
    ),
    Key(
        "partitioner.availability.timeout.ms",
        LONG,
        "0",
        LOW,
        "Records without a key avoid a partition whose leader has taken nothing for so long, milliseconds; 0 never does. Only with "
        "partitioner.adaptive.partitioning.enable.",
        at_least(0),
    ),
    Key(
        "key.serializer",
        STRING,
        None,
        HIGH,
        "What keys are made into bytes by: a function, or a name: bytes, string, json, long, ...; without it bytes and text are sent.",
    ),
    Key("value.serializer", STRING, None, HIGH, "What values are made into bytes by, as key.serializer."),
    Key("interceptor.classes", LIST, "", LOW, "Objects, classes or import paths with on_send(record), on_acknowledgement(...), close()."),
    Key("retries", INT, "2147483647", HIGH, "How often a failed batch is sent again within delivery.timeout.ms.", between(0, 2147483647)),
)

CONSUMER_KEYS: tuple[Key, ...] = (
    *COMMON_KEYS,
    Key(
        "auto.offset.reset",
        STRING,
        "latest",
        MEDIUM,
        "Where to start without a position: earliest, latest, so long before now (by_duration:PT1H), or none to raise.",
        ResetPolicy(),
    ),
    Key("fetch.min.bytes", INT, "1", HIGH, "The broker answers once it has this many bytes.", at_least(0)),
    Key("fetch.max.bytes", INT, "52428800", MEDIUM, "Most bytes in one answer.", at_least(0)),
    Key("fetch.max.wait.ms", INT, "500", LOW, "Longest the broker waits for fetch.min.bytes, milliseconds.", at_least(0)),
    Key("max.partition.fetch.bytes", INT, "1048576", HIGH, "Most bytes of one partition in one answer.", at_least(0)),
    Key("max.poll.records", INT, "500", MEDIUM, "Most records one poll() returns.", at_least(1)),
    Key(
        "isolation.level",
        STRING,
        "read_uncommitted",
        MEDIUM,
        "Whether records of open and aborted transactions are seen.",
        OneOf("read_committed", "read_uncommitted"),
    ),
    Key("check.crcs", BOOLEAN, "true", LOW, "Verify the checksum of every batch."),
    Key("client.rack", STRING, "", LOW, "Rack of this client, for reading from the nearest replica."),
    Key("allow.auto.create.topics", BOOLEAN, "true", MEDIUM, "Whether asking for an unknown topic may create it."),
    Key("group.id", STRING, None, HIGH, "The consumer group; needed for subscribe() and for commits."),
    Key("group.instance.id", STRING, None, MEDIUM, "Makes the consumer a static member, which may restart without a rebalance."),
    Key(
        "group.protocol",
        STRING,
        "classic",
        HIGH,
        "Who assigns the partitions: a member (classic) or the coordinator (consumer, KIP-848).",
        OneOf("classic", "consumer", ignore_case=True),
    ),
    Key("group.remote.assignor", STRING, None, MEDIUM, "The coordinator's assignor, with group.protocol=consumer: uniform or range."),
    Key(
        "partition.assignment.strategy",
        LIST,
        "range,cooperative-sticky",
        MEDIUM,
        "Assignors by preference, with group.protocol=classic: range, roundrobin, sticky, cooperative-sticky, or Java's class names.",
    ),
    Key("heartbeat.interval.ms", INT, "3000", HIGH, "Time between heartbeats of a classic member, milliseconds.", at_least(1)),
    Key("session.timeout.ms", INT, "45000", HIGH, "How long a classic member may be silent, milliseconds.", at_least(1)),
    Key("max.poll.interval.ms", INT, "300000", MEDIUM, "How long after a poll() the next may come, milliseconds.", at_least(1)),
    Key("enable.auto.commit", BOOLEAN, "true", MEDIUM, "Commit what poll() has handed out without being asked, if there is a group.id."),
    Key("auto.commit.interval.ms", INT, "5000", LOW, "Time between automatic commits, milliseconds.", at_least(0)),
    Key("exclude.internal.topics", BOOLEAN, "true", MEDIUM, "Whether a subscribed pattern passes over Kafka's own topics."),
    Key(
        "key.deserializer",
        STRING,
        "bytes",
        HIGH,
        "What keys are made into: a function of bytes, or a name: bytes, string, json, long, ...",
    ),
    Key("value.deserializer", STRING, "bytes", HIGH, "What values are made into, as key.deserializer."),
    Key("interceptor.classes", LIST, "", LOW, "Objects, classes or import paths with on_consume(records), on_commit(offsets), close()."),
)

PRODUCER_CONFIG = ConfigDef(PRODUCER_KEYS)
CONSUMER_CONFIG = ConfigDef(CONSUMER_KEYS)
ADMIN_CONFIG = ConfigDef(COMMON_KEYS, ADMIN_KEYS)

_SHARE = "share groups are not served by this client"

NOT_SERVED_YET: dict[str, str] = {
    **REFUSED,
    "internal.leave.group.on.close": "it is internal: close(leave_group=False) leaves no group",
    "internal.throw.on.fetch.stable.offset.unsupported": "it is internal",
    "share.acknowledgement.mode": _SHARE,
    "share.acquire.mode": _SHARE,
}
"""Key of Kafka's clients that this client refuses -> the reason."""


class ClientConfig:
    """Parsed and checked values of one client."""

    __slots__ = ("_callables", "_definition", "_values")

    def __init__(self, definition: ConfigDef, settings: Mapping[str, Setting] | None = None, **keywords: Setting) -> None:
        """Parse and check the settings. Raises ConfigError, in one line that names the key, for an unknown key or an invalid value."""
        given: dict[str, str | None] = {}
        callables: dict[str, Callable[..., object]] = {}
        pairs = [*(settings or {}).items(), *keywords.items()]
        followed = settings if isinstance(settings, Resolved) else follow_references(dict(pairs))
        if isinstance(followed, Resolved):
            pairs = [(name, followed.get(name, value)) for name, value in pairs]
        for name, value in pairs:
            dotted = key_of(definition, name)
            check_known(definition, dotted)
            if dotted in given or dotted in callables:
                raise ConfigError(f"Configuration {dotted} is given twice")
            if callable(value) != (dotted in CALLABLES) and value is not None:
                raise ConfigError(f"Configuration {dotted} takes {'a callable' if dotted in CALLABLES else 'no callable'}")
            if callable(value):
                callables[dotted] = value
            elif value is not None:
                given[dotted] = setting_text(dotted, value)
        self._definition = definition
        self._callables = callables
        try:
            self._values = definition.parse(given)
            self._check_rules()
        except ConfigError as error:
            raise (ConfigError(followed.hide(str(error))) if isinstance(followed, Resolved) else error) from None

    def get(self, name: str) -> ConfigValue:
        """Return the value of a key, or its default when the key was not given."""
        return self._values[name] if name in self._values else self._definition[name].default_value()

    def was_given(self, name: str) -> bool:
        """Return whether the user set the key."""
        return name in self._values or name in self._callables

    def given(self) -> list[str]:
        """Return the keys that the user set."""
        return [*self._values, *self._callables]

    def has(self, name: str) -> bool:
        """Return whether this kind of client has the key."""
        return name in self._definition

    def callable(self, name: str) -> Callable[..., object] | None:
        """Return the function that was given for a key; None without one."""
        return self._callables.get(name)

    @property
    def kind(self) -> str:
        """Kind of client as Kafka's metrics name it: `producer`, `consumer` or `admin-client`."""
        return "producer" if self.has("acks") else "consumer" if self.has("fetch.min.bytes") else "admin-client"

    @property
    def uses_controllers(self) -> bool:
        """Return whether the client connects to controllers instead of brokers (KIP-919)."""
        return self.has("bootstrap.controllers") and bool(self.get("bootstrap.controllers"))

    def integer(self, name: str) -> int:
        """Return the value of an integer key."""
        value = self.get(name)
        assert isinstance(value, int)
        return value

    def number(self, name: str) -> float:
        """Return the value of a numeric key that may have a fraction."""
        value = self.get(name)
        assert isinstance(value, (int, float))
        return value

    def items(self, name: str) -> list[str]:
        """Return the value of a list key."""
        value = self.get(name)
        assert isinstance(value, list)
        return value

    def text(self, name: str) -> str:
        """Return the value of a textual key."""
        value = self.get(name)
        assert isinstance(value, str)
        return value

    def flag(self, name: str) -> bool:
        """Return the value of a boolean key."""
        return self.get(name) is True

    def bootstrap_servers(self) -> list[tuple[str, int]]:
        """Return (host, port) of every bootstrap server, or bootstrap controller."""
        name = "bootstrap.controllers" if self.uses_controllers else "bootstrap.servers"
        return [parse_host_port(name, entry) for entry in self.items(name)]

    @property
    def acks(self) -> int:
        """Number of acks: 0, 1, or -1 for all."""
        text = self.text("acks")
        return -1 if text == "all" else int(text)

    def _check_rules(self) -> None:
        if "bootstrap.servers" in self._definition and not self.bootstrap_servers():
            raise ConfigError("Configuration bootstrap.servers names no server")
        if self.uses_controllers and self.was_given("bootstrap.servers"):
            raise ConfigError("Configuration bootstrap.controllers is given beside bootstrap.servers: a client has one of them")
        if "acks" in self._definition:
            self._check_producer_rules()

    def _check_producer_rules(self) -> None:
        if self.was_given("transactional.id"):
            if not self.text("transactional.id"):
                raise ConfigError("Configuration transactional.id must not be empty")
            if self.flag("transaction.two.phase.commit.enable") and self.was_given("transaction.timeout.ms"):
                raise ConfigError("transaction.timeout.ms has no meaning with transaction.two.phase.commit.enable: nothing times out")
            if (self.was_given("enable.idempotence") and not self.flag("enable.idempotence")) or self._idempotence_conflict() is not None:
                raise ConfigError(f"transactional.id needs {self._idempotence_conflict() or 'enable.idempotence=true'}")
        if self.flag("enable.idempotence"):
            # As Kafka's producer: a conflicting setting switches the default off, but is an error when idempotence was set explicitly.
            why = self._idempotence_conflict()
            if why is not None:
                if self.was_given("enable.idempotence"):
                    raise ConfigError(f"enable.idempotence=true needs {why}")
                self._values["enable.idempotence"] = False
        least = self.integer("linger.ms") + self.integer("request.timeout.ms")
        if self.integer("delivery.timeout.ms") < least:
            if self.was_given("delivery.timeout.ms"):
                raise ConfigError(f"delivery.timeout.ms must be at least linger.ms + request.timeout.ms, that is {least}")
            self._values["delivery.timeout.ms"] = least

    def _idempotence_conflict(self) -> str | None:
        if self.acks != -1:
            return "acks=all"
        if self.integer("retries") == 0:
            return "retries of at least 1"
        if self.integer("max.in.flight.requests.per.connection") > 5:
            return "max.in.flight.requests.per.connection of at most 5"
        return None


def follow_references(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with references to configuration providers replaced, as `Resolved` if providers are named (config.providers).

    Raises ConfigError for an unknown provider, and for a reference that a provider cannot read.
    """
    providers = {
        name: setting_text(name, "" if value is None else value)
        for name, value in ((_dotted(name), value) for name, value in given.items())
        if is_of_providers(name)
    }
    if not providers.get(PROVIDERS):
        return dict(given)
    from odradek.providers.resolving import resolve_client

    return resolve_client(given, providers)


def key_of(definition: ConfigDef, name: str) -> str:
    """Return the key of a setting's name, which may be spelled with `_` for `.`, or as in librdkafka and kafka-python."""
    dotted = name if name in definition else _dotted(name)
    return SPELLINGS.get(dotted, dotted)


def settings_of_admin(settings: Mapping[str, T]) -> dict[str, T]:
    """Return the settings of a producer or consumer that an admin client has as well, in whatever spelling, under their names."""
    return {name: value for name, value in settings.items() if key_of(ADMIN_CONFIG, name) in ADMIN_CONFIG}


def _dotted(name: str) -> str:
    return name if name.startswith(PROVIDERS_PREFIX) else name.replace("_", ".")


def check_known(definition: ConfigDef, name: str) -> None:
    """Raise ConfigError for an unknown key; the message tells keys that only Kafka's clients have."""
    if name in definition or (PROVIDERS in definition and is_provider_setting(name)):
        return
    if name in NOT_SERVED_YET:
        raise ConfigError(f"Configuration {name} is refused: {NOT_SERVED_YET[name]}")
    raise ConfigError(f"Unknown configuration key {name}")
