"""Configuration of a node (kafka.server.KafkaConfig)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from odradek.base.errors import ConfigError
from odradek.config.definition import Config, ConfigDef, ConfigValue, Key, invalid
from odradek.config.keys import (
    authorizer,
    cluster,
    groups,
    log,
    network,
    observability,
    odradek_only,
    remote,
    replication,
    security,
    share,
    transactions,
)
from odradek.config.keys.cluster import (
    AUTO_CREATE_TOPICS_ENABLE,
    BROKER_HEARTBEAT_INTERVAL_MS,
    BROKER_RACK,
    BROKER_SESSION_TIMEOUT_MS,
    CONTROLLER_LISTENER_NAMES,
    CONTROLLER_QUORUM_BOOTSTRAP_SERVERS,
    CONTROLLER_QUORUM_VOTERS,
    DELETE_TOPIC_ENABLE,
    METADATA_LOG_DIR,
    NODE_ID,
    NUM_PARTITIONS,
    PROCESS_ROLES,
)
from odradek.config.keys.log import (
    CORDONED_LOG_DIRS,
    LOG_DIR,
    LOG_DIRS,
    LOG_FLUSH_INTERVAL_MS,
    LOG_FLUSH_SCHEDULER_INTERVAL_MS,
    LOG_RETENTION_HOURS,
    LOG_RETENTION_MINUTES,
    LOG_RETENTION_MS,
    LOG_ROLL_HOURS,
    LOG_ROLL_JITTER_HOURS,
    LOG_ROLL_JITTER_MS,
    LOG_ROLL_MS,
    MIN_INSYNC_REPLICAS,
)
from odradek.config.keys.network import ADVERTISED_LISTENERS, INTER_BROKER_LISTENER_NAME, LISTENER_SECURITY_PROTOCOL_MAP, LISTENERS
from odradek.config.keys.odradek_only import ODRADEK_CLIENT_TELEMETRY, ODRADEK_METRICS_LISTENER
from odradek.config.keys.replication import DEFAULT_REPLICATION_FACTOR
from odradek.config.keys.security import SECURITY_INTER_BROKER_PROTOCOL
from odradek.config.listeners import Endpoint, parse_listeners, parse_security_protocol_map
from odradek.config.references import PROVIDERS, Resolved, hide
from odradek.config.validators import parse_host_port, parse_quorum_voters

BROKER_CONFIG = ConfigDef(
    cluster.KEYS,
    network.KEYS,
    log.KEYS,
    replication.KEYS,
    groups.KEYS,
    share.KEYS,
    transactions.KEYS,
    security.KEYS,
    remote.KEYS,
    observability.KEYS,
    odradek_only.KEYS,
    authorizer.KEYS,
)

MS_PER_MINUTE = 60_000
MS_PER_HOUR = 3_600_000


class BrokerConfig(Config):
    """Configuration of a node, parsed and checked once, then immutable.

    `given` are the settings of file and command line as text, with references resolved.
    """

    __slots__ = (
        "advertised_controller_listeners",
        "advertised_listeners",
        "found",
        "given",
        "listener_security_protocols",
        "listeners",
        "references",
    )

    listeners: list[Endpoint]
    """All listeners, controller listeners included, with the addresses they bind."""
    advertised_listeners: list[Endpoint]
    """Listeners advertised to clients and other brokers; never a controller listener."""
    advertised_controller_listeners: list[Endpoint]
    """Listeners advertised to other controllers."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """Parse and check `given`, which must be `Resolved` if config.providers names providers.

        Raises ConfigError, one line naming the key, for an unknown key or an invalid value.
        """
        self.given: dict[str, str] = dict(given)
        self.references: dict[str, str] = given.references if isinstance(given, Resolved) else {}
        """Original text of the settings that contain references to a configuration provider."""
        self.found: dict[str, str] = given.found if isinstance(given, Resolved) else {}
        """Reference by the value that a configuration provider returned for it; the values must never be shown."""
        if self.given.get(PROVIDERS) and not isinstance(given, Resolved):
            raise ConfigError(f"{PROVIDERS}: the references have not been resolved; call odradek.providers.resolving.resolve_broker first")
        try:
            self._read(given)
        except ConfigError as error:
            raise ConfigError(self.hide(str(error))) from None

    def _read(self, given: Mapping[str, str]) -> None:
        from odradek.config.rules import check, check_names, check_required

        for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
            if name in given and other not in given:
                self.given[other] = given[name]  # two names for one key; setting either sets both
        check_names(self.given)
        check_required(self.given)
        super().__init__(BROKER_CONFIG, BROKER_CONFIG.parse(self.given))
        self.listener_security_protocols: dict[str, str] = self._protocols()
        self.listeners = parse_listeners("listeners", self[LISTENERS], self.listener_security_protocols)
        self.advertised_listeners, self.advertised_controller_listeners = self._advertise()
        check(self)

    def hide(self, line: str) -> str:
        """Return the line with values from configuration providers replaced by their references."""
        return hide(self.found, line) if self.found else line

    def _default(self, key: Key[ConfigValue]) -> ConfigValue:
        from odradek.config.deviations import OWN_DEFAULTS

        own = OWN_DEFAULTS.get(key.name)
        return super()._default(key) if own is None else key.parse(own.default)

    # -- roles and the quorum ---------------------------------------------------------------------------------------------------------

    @property
    def node_id(self) -> int:
        return self[NODE_ID]

    @property
    def is_broker(self) -> bool:
        return "broker" in self[PROCESS_ROLES]

    @property
    def is_controller(self) -> bool:
        return "controller" in self[PROCESS_ROLES]

    @property
    def controller_quorum_voters(self) -> dict[int, tuple[str, int]]:
        """(host, port) of each voter id in controller.quorum.voters; empty with a dynamic quorum."""
        return parse_quorum_voters("controller.quorum.voters", self[CONTROLLER_QUORUM_VOTERS])

    @property
    def controller_quorum_bootstrap_servers(self) -> list[tuple[str, int]]:
        key = CONTROLLER_QUORUM_BOOTSTRAP_SERVERS
        return [parse_host_port(key.name, entry) for entry in self[key]]

    @property
    def metrics_listener(self) -> tuple[str, int] | None:
        """(host, port) of odradek.metrics.listener, None without a value. Raises ConfigError naming the key."""
        text = self[ODRADEK_METRICS_LISTENER].strip()
        if not text:
            return None
        return parse_host_port("odradek.metrics.listener", f"127.0.0.1:{text}" if text.isdecimal() else text)

    @property
    def client_telemetry(self) -> str | None:
        """Destination of clients' metrics (odradek.client.telemetry), None when clients do not push. Raises ConfigError naming the key."""
        text = self[ODRADEK_CLIENT_TELEMETRY].strip()
        if text and text != "counted" and not re.fullmatch(r"https?://[^\s/]+(/\S*)?", text):
            raise invalid(
                "odradek.client.telemetry", text, "it must be `counted`, or the address of an OTLP receiver, http(s)://HOST:PORT/PATH"
            )
        return text or None

    @property
    def is_alone(self) -> bool:
        """Return whether the configuration names no other node: the node is the whole cluster, or its first node."""
        voters = self.controller_quorum_voters
        return self.is_controller and len(voters) <= 1 and (bool(voters) or len(self.controller_quorum_bootstrap_servers) <= 1)

    # -- listeners --------------------------------------------------------------------------------------------------------------------

    @property
    def controller_listener_names(self) -> list[str]:
        """Names in upper case and in the order given; this node sends its requests to controllers through the first."""
        return [name.upper() for name in self[CONTROLLER_LISTENER_NAMES]]

    @property
    def inter_broker_listener_name(self) -> str:
        """Listener between brokers: inter.broker.listener.name, else the one with the name of security.inter.broker.protocol."""
        return (self[INTER_BROKER_LISTENER_NAME] or self[SECURITY_INTER_BROKER_PROTOCOL]).upper()

    @property
    def controller_listeners(self) -> list[Endpoint]:
        names = self.controller_listener_names
        return [endpoint for endpoint in self.listeners if endpoint.listener in names]

    @property
    def broker_listeners(self) -> list[Endpoint]:
        names = self.controller_listener_names
        return [endpoint for endpoint in self.listeners if endpoint.listener not in names]

    def _protocols(self) -> dict[str, str]:
        protocols = parse_security_protocol_map("listener.security.protocol.map", self[LISTENER_SECURITY_PROTOCOL_MAP])
        if not self.is_set(LISTENER_SECURITY_PROTOCOL_MAP):
            # KafkaConfig.effectiveListenerSecurityProtocolMap: without a map, controller listeners are plaintext
            for name in self.controller_listener_names:
                protocols.setdefault(name, "PLAINTEXT")
        return protocols

    def _advertise(self) -> tuple[list[Endpoint], list[Endpoint]]:
        """Return the listeners advertised to clients and brokers, and to controllers (KafkaConfig.effectiveAdvertised*Listeners)."""
        protocols = self.listener_security_protocols
        entries = self[ADVERTISED_LISTENERS]
        given = parse_listeners("advertised.listeners", entries or [], protocols, distinct_ports=False)
        names = self.controller_listener_names
        brokers = [endpoint for endpoint in given or self.listeners if endpoint.listener not in names]
        advertised = {endpoint.listener: endpoint for endpoint in given}
        return brokers, [advertised.get(endpoint.listener, endpoint) for endpoint in self.controller_listeners]

    # -- logs -------------------------------------------------------------------------------------------------------------------------

    @property
    def log_dirs(self) -> list[str]:
        """Value of log.dirs, else log.dir."""
        return self[LOG_DIRS] or self[LOG_DIR]

    @property
    def cordoned_log_dirs(self) -> list[str]:
        """Value of cordoned.log.dirs, where `*` stands for all log dirs."""
        given = self[CORDONED_LOG_DIRS]
        return self.log_dirs if "*" in given else given

    @property
    def metadata_log_dir(self) -> str:
        """Value of metadata.log.dir, else the first of the log dirs."""
        return self[METADATA_LOG_DIR] or self.log_dirs[0]

    @property
    def log_roll_ms(self) -> int:
        """Value of log.roll.ms, else log.roll.hours, in milliseconds."""
        given = self[LOG_ROLL_MS]
        return given if given is not None else self[LOG_ROLL_HOURS] * MS_PER_HOUR

    @property
    def log_roll_jitter_ms(self) -> int:
        """Value of log.roll.jitter.ms, else log.roll.jitter.hours, in milliseconds."""
        given = self[LOG_ROLL_JITTER_MS]
        return given if given is not None else self[LOG_ROLL_JITTER_HOURS] * MS_PER_HOUR

    @property
    def log_retention_ms(self) -> int:
        """Value of log.retention.ms, else .minutes, else .hours, in milliseconds; -1 without limit."""
        retention = self[LOG_RETENTION_MS]
        if retention is None:
            minutes = self[LOG_RETENTION_MINUTES]
            retention = minutes * MS_PER_MINUTE if minutes is not None else self[LOG_RETENTION_HOURS] * MS_PER_HOUR
        return -1 if retention < 0 else retention

    @property
    def log_flush_interval_ms(self) -> int:
        """Value of log.flush.interval.ms, else log.flush.scheduler.interval.ms, in milliseconds."""
        given = self[LOG_FLUSH_INTERVAL_MS]
        return given if given is not None else self[LOG_FLUSH_SCHEDULER_INTERVAL_MS]

    # -- used often -------------------------------------------------------------------------------------------------------------------

    @property
    def num_partitions(self) -> int:
        return self[NUM_PARTITIONS]

    @property
    def default_replication_factor(self) -> int:
        return self[DEFAULT_REPLICATION_FACTOR]

    @property
    def auto_create_topics_enable(self) -> bool:
        return self[AUTO_CREATE_TOPICS_ENABLE]

    @property
    def delete_topic_enable(self) -> bool:
        return self[DELETE_TOPIC_ENABLE]

    @property
    def rack(self) -> str | None:
        return self[BROKER_RACK]

    @property
    def broker_heartbeat_interval_ms(self) -> int:
        return self[BROKER_HEARTBEAT_INTERVAL_MS]

    @property
    def broker_session_timeout_ms(self) -> int:
        return self[BROKER_SESSION_TIMEOUT_MS]

    @property
    def min_insync_replicas(self) -> int:
        return self[MIN_INSYNC_REPLICAS]


STANDALONE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""Settings of a node that is the only one of its cluster, unless a file gives others."""


_CONTROLLER_KEYS = frozenset({"controller.listener.names", "process.roles", "controller.quorum.voters"})


def with_controller_listener(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a single node whose listeners include a controller listener.

    A user who gives only the listeners for clients need not choose an address for it, because no other node has to find it.
    """
    listeners = settings.get("listeners")
    if listeners and "CONTROLLER://" not in listeners and not settings.keys() & _CONTROLLER_KEYS:
        return {**settings, "listeners": f"{listeners},CONTROLLER://127.0.0.1:0"}
    return dict(settings)


def standalone_config(overrides: Mapping[str, str] | None = None) -> BrokerConfig:
    """Return the configuration of a single node, with `overrides` over `STANDALONE`."""
    return BrokerConfig(overrides.over(STANDALONE) if isinstance(overrides, Resolved) else {**STANDALONE, **(overrides or {})})
