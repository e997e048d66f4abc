"""Configuration of the clients: Kafka's keys, as dotted names in a mapping or as snake_case keyword arguments.

    Producer({"bootstrap.servers": "localhost:9092"}, linger_ms=20)

A key that is not listed here raises ConfigError, even if it is a key of Kafka's that is not supported yet: no key is accepted and ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from odradek.base.errors import ConfigError
from odradek.client.settings.admin_keys import ADMIN_KEYS, BOOTSTRAP_CONTROLLERS
from odradek.client.settings.common_keys import (
    BOOTSTRAP_SERVERS,
    CALLABLES,
    COMMON_KEYS,
    REFUSED,
    REQUEST_TIMEOUT_MS,
    SPELLINGS,
)
from odradek.client.settings.consumer_keys import CONSUMER_KEYS, FETCH_MIN_BYTES
from odradek.client.settings.producer_keys import (
    ACKS,
    DELIVERY_TIMEOUT_MS,
    ENABLE_IDEMPOTENCE,
    LINGER_MS,
    MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION,
    PRODUCER_KEYS,
    RETRIES,
    TRANSACTION_TIMEOUT_MS,
    TRANSACTION_TWO_PHASE_COMMIT_ENABLE,
    TRANSACTIONAL_ID,
)
from odradek.config.definition import (
    Config,
    ConfigDef,
    Key,
    setting_text,
)
from odradek.config.references import PROVIDERS, PROVIDERS_PREFIX, Resolved, is_of_providers, is_provider_setting
from odradek.config.validators import parse_host_port

T = TypeVar("T")

Setting = str | int | float | bool | Sequence[str] | Callable[..., object] | None
"""Value of a key: text as in a properties file, or the Python value; None means the default."""


PRODUCER_CONFIG = ConfigDef(COMMON_KEYS, PRODUCER_KEYS)
CONSUMER_CONFIG = ConfigDef(COMMON_KEYS, CONSUMER_KEYS)
ADMIN_CONFIG = ConfigDef(COMMON_KEYS, ADMIN_KEYS)

_SHARE = "share groups are not supported by this client"

NOT_SUPPORTED_YET: dict[str, str] = {
    **REFUSED,
    "internal.leave.group.on.close": "it is an internal key; close(leave_group=False) closes a consumer that stays in its group",
    "internal.throw.on.fetch.stable.offset.unsupported": "it is an internal key",
    "share.acknowledgement.mode": _SHARE,
    "share.acquire.mode": _SHARE,
}
"""Key of Kafka's clients that this client refuses -> the reason."""


class ClientConfig(Config):
    """Parsed and checked values of one client."""

    __slots__ = ("_callables",)

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
        self._callables = callables
        try:
            super().__init__(definition, definition.parse(given))
            self._check_rules()
        except ConfigError as error:
            raise (ConfigError(followed.hide(str(error))) if isinstance(followed, Resolved) else error) from None

    def is_set(self, key: Key[object]) -> bool:
        """Return whether the user set the key."""
        return super().is_set(key) or key.name in self._callables

    def given(self) -> list[str]:
        """Return the names of the keys that the user set."""
        return [*self._given, *self._callables]

    def callable(self, key: Key[str | None]) -> Callable[..., object] | None:
        """Return the function that was given for a key; None without one."""
        return self._callables.get(key.name)

    @property
    def kind(self) -> str:
        """Kind of client as Kafka's metrics name it: `producer`, `consumer` or `admin-client`."""
        return "producer" if ACKS in self.definition else "consumer" if FETCH_MIN_BYTES in self.definition else "admin-client"

    @property
    def uses_controllers(self) -> bool:
        """Return whether the client connects to controllers instead of brokers (KIP-919)."""
        return BOOTSTRAP_CONTROLLERS in self.definition and bool(self[BOOTSTRAP_CONTROLLERS])

    def bootstrap_servers(self) -> list[tuple[str, int]]:
        """Return (host, port) of every bootstrap server, or bootstrap controller."""
        key = BOOTSTRAP_CONTROLLERS if self.uses_controllers else BOOTSTRAP_SERVERS
        return [parse_host_port(key.name, entry) for entry in self[key]]

    @property
    def acks(self) -> int:
        """Number of acks: 0, 1, or -1 for all."""
        text = self[ACKS]
        return -1 if text == "all" else int(text)

    def _check_rules(self) -> None:
        if BOOTSTRAP_SERVERS in self.definition and not self.bootstrap_servers():
            raise ConfigError("Configuration bootstrap.servers does not name any server")
        if self.uses_controllers and self.is_set(BOOTSTRAP_SERVERS):
            raise ConfigError("Configuration bootstrap.controllers excludes bootstrap.servers: give one of them")
        if ACKS in self.definition:
            self._check_producer_rules()

    def _check_producer_rules(self) -> None:
        if self.is_set(TRANSACTIONAL_ID):
            if not self[TRANSACTIONAL_ID]:
                raise ConfigError("Configuration transactional.id must not be empty")
            if self[TRANSACTION_TWO_PHASE_COMMIT_ENABLE] and self.is_set(TRANSACTION_TIMEOUT_MS):
                raise ConfigError(
                    "transaction.timeout.ms has no effect with transaction.two.phase.commit.enable: such transactions do not time out"
                )
            if (self.is_set(ENABLE_IDEMPOTENCE) and not self[ENABLE_IDEMPOTENCE]) or self._idempotence_conflict() is not None:
                raise ConfigError(f"transactional.id needs {self._idempotence_conflict() or 'enable.idempotence=true'}")
        if self[ENABLE_IDEMPOTENCE]:
            # As Kafka's producer: a conflicting setting switches the default off, but is an error when idempotence was set explicitly.
            why = self._idempotence_conflict()
            if why is not None:
                if self.is_set(ENABLE_IDEMPOTENCE):
                    raise ConfigError(f"enable.idempotence=true needs {why}")
                self._values[ENABLE_IDEMPOTENCE.name] = False
        least = self[LINGER_MS] + self[REQUEST_TIMEOUT_MS]
        if self[DELIVERY_TIMEOUT_MS] < least:
            if self.is_set(DELIVERY_TIMEOUT_MS):
                raise ConfigError(f"delivery.timeout.ms must be at least linger.ms + request.timeout.ms, which is {least}")
            self._values[DELIVERY_TIMEOUT_MS.name] = least

    def _idempotence_conflict(self) -> str | None:
        if self.acks != -1:
            return "acks=all"
        if self[RETRIES] == 0:
            return "retries of at least 1"
        if self[MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION] > 5:
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
    if name in NOT_SUPPORTED_YET:
        raise ConfigError(f"Configuration {name} is refused: {NOT_SUPPORTED_YET[name]}")
    raise ConfigError(f"Unknown configuration key {name}")
