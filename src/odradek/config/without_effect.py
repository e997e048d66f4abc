"""Keys that are accepted and have no effect, each with the reason; the operator gets one warning for each.

A key whose effect an operator must be able to rely on (security, tiered storage, quotas) is refused instead: `config.unsupported`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from odradek.config.listener_settings import parse_listener_key
from odradek.config.policies import ALTER_CONFIG, CREATE_TOPIC, policy_of_setting
from odradek.config.references import PROVIDERS, is_provider_setting

_THREADS = "one event loop does this work; to use more cores, run more processes"
_SHARE = "share groups are not supported yet"
_SHARE_TOPIC = "share groups are not supported yet; only a client that requests __share_group_state creates a topic with them"
_STREAMS = "streams groups are not supported yet"
_TIERED = "tiered storage is not supported yet and remote.log.storage.system.enable must be false"
_METRICS = "metrics have no samples: rates are those of the last 1, 5 and 15 minutes"
_PURGATORY = "a delayed operation leaves its purgatory when it completes, so nothing needs to be purged"
_TICKETS = "the Kerberos library gets a new ticket with the keytab, at the first use after half of the old ticket's lifetime"
_JVM = "it tunes or measures a part that exists only in JVM Kafka"

WITHOUT_EFFECT_BY_REASON: dict[str, tuple[str, ...]] = {
    _THREADS: ("group.coordinator.background.threads", "group.coordinator.threads", "num.io.threads", "num.network.threads"),
    "a connection has one request in flight, so max.connections and queued.max.request.bytes are the limits": ("queued.max.requests",),
    "listeners of controllers open before the ACLs are loaded, those of brokers afterwards": ("early.start.listeners",),
    "the kernel sizes the buffers of connections to other nodes by itself": ("replica.socket.receive.buffer.bytes",),
    "the throttle of moves between log directories spreads the bytes evenly, without samples": (
        "alter.log.dirs.replication.quota.window.num",
        "alter.log.dirs.replication.quota.window.size.seconds",
    ),
    "records that arrive during an fsync share the next one, so lingering would not help": ("controller.quorum.append.linger.ms",),
    _JVM: (
        "group.coordinator.cached.buffer.max.bytes",
        "controller.performance.always.log.threshold.ms",
        "controller.performance.sample.period.ms",
    ),
    _TICKETS: (
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
    ),
    _PURGATORY: (
        "delete.records.purgatory.purge.interval.requests",
        "fetch.purgatory.purge.interval.requests",
        "producer.purgatory.purge.interval.requests",
        "share.fetch.purgatory.purge.interval.requests",
    ),
    _SHARE: (
        "group.share.assignment.interval.ms",
        "group.share.assignors",
        "group.share.delivery.count.limit",
        "group.share.heartbeat.interval.ms",
        "group.share.initialize.retry.interval.ms",
        "group.share.max.assignment.interval.ms",
        "group.share.max.delivery.count.limit",
        "group.share.max.heartbeat.interval.ms",
        "group.share.max.partition.max.record.locks",
        "group.share.max.record.lock.duration.ms",
        "group.share.max.session.timeout.ms",
        "group.share.max.share.sessions",
        "group.share.max.size",
        "group.share.min.assignment.interval.ms",
        "group.share.min.delivery.count.limit",
        "group.share.min.heartbeat.interval.ms",
        "group.share.min.partition.max.record.locks",
        "group.share.min.record.lock.duration.ms",
        "group.share.min.session.timeout.ms",
        "group.share.partition.max.record.locks",
        "group.share.persister.class.name",
        "group.share.record.lock.duration.ms",
        "group.share.session.timeout.ms",
        "share.coordinator.append.linger.ms",
        "share.coordinator.cached.buffer.max.bytes",
        "share.coordinator.cold.partition.snapshot.interval.ms",
        "share.coordinator.load.buffer.size",
        "share.coordinator.snapshot.update.records.per.snapshot",
        "share.coordinator.state.topic.compression.codec",
        "share.coordinator.state.topic.prune.interval.ms",
        "share.coordinator.threads",
        "share.coordinator.write.timeout.ms",
    ),
    _SHARE_TOPIC: (
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.segment.bytes",
    ),
    _STREAMS: (
        "group.streams.assignment.interval.ms",
        "group.streams.heartbeat.interval.ms",
        "group.streams.initial.rebalance.delay.ms",
        "group.streams.max.assignment.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
        "group.streams.max.session.timeout.ms",
        "group.streams.max.size",
        "group.streams.max.standby.replicas",
        "group.streams.min.assignment.interval.ms",
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.min.session.timeout.ms",
        "group.streams.num.standby.replicas",
        "group.streams.session.timeout.ms",
    ),
    _TIERED: (
        "follower.fetch.last.tiered.offset.enable",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "remote.fetch.max.wait.ms",
        "remote.list.offsets.request.timeout.ms",
        "remote.log.index.file.cache.total.size.bytes",
        "remote.log.index.file.cache.ttl.ms",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.copy.quota.window.num",
        "remote.log.manager.copy.quota.window.size.seconds",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.fetch.max.bytes.per.second",
        "remote.log.manager.fetch.quota.window.num",
        "remote.log.manager.fetch.quota.window.size.seconds",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.manager.task.interval.ms",
        "remote.log.manager.task.retry.backoff.max.ms",
        "remote.log.manager.task.retry.backoff.ms",
        "remote.log.manager.task.retry.jitter",
        "remote.log.manager.thread.pool.size",
        "remote.log.metadata.custom.metadata.max.bytes",
        "remote.log.metadata.manager.class.name",
        "remote.log.metadata.manager.class.path",
        "remote.log.metadata.manager.impl.prefix",
        "remote.log.metadata.manager.listener.name",
        "remote.log.reader.max.pending.tasks",
        "remote.log.reader.threads",
        "remote.log.storage.manager.class.path",
        "remote.log.storage.manager.impl.prefix",
    ),
    _METRICS: (
        "kafka.metrics.polling.interval.secs",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
    ),
}
"""Broker keys by reason."""

WITHOUT_EFFECT: dict[str, str] = {name: reason for reason, names in WITHOUT_EFFECT_BY_REASON.items() for name in names}
"""Reason by broker key."""

TOPIC_WITHOUT_EFFECT: dict[str, str] = {
    **dict.fromkeys(("local.retention.bytes", "local.retention.ms"), _TIERED),
}
"""Reason by topic key."""


def ineffective(given: dict[str, str]) -> Iterator[str]:
    """Yield one line for each given broker key without effect."""
    providers = [each.strip() for each in given.get(PROVIDERS, "").split(",")]
    for name, text in given.items():
        setting = parse_listener_key(name)
        if (reason := WITHOUT_EFFECT.get(name if setting is None else setting.key)) is not None:
            yield f"{name}={text.strip()} has no effect: {reason}"
        elif is_provider_setting(name) and name.split(".")[2] not in providers:
            yield f"{name} has no effect: {PROVIDERS} does not name {name.split('.')[2]}"
        elif (policy := policy_of_setting(name)) is not None and not given.get(policy):
            yield f"{name} has no effect: {policy} is not set"
        elif name in (CREATE_TOPIC, ALTER_CONFIG) and text.strip() and "controller" not in given.get("process.roles", ""):
            yield f"{name}={text.strip()} has no effect: controllers apply the policies, and this node is not a controller"


class TopicWarnings:
    """Warnings, one for each topic key without effect, or with an invalid value, that a topic sets."""

    __slots__ = ("_said",)

    def __init__(self) -> None:
        self._said: set[str] = set()

    def lines(self, topic: str, overrides: Collection[tuple[str, str]]) -> Iterator[str]:
        """Yield lines for the keys that no topic had set before; `topic` is named as the first."""
        from odradek.config.topic import override_problem

        for name, text in overrides:
            reason = TOPIC_WITHOUT_EFFECT.get(name) or override_problem(name, text)
            if reason is not None and name not in self._said:
                self._said.add(name)
                yield f"topic {topic}: {name}={text} has no effect: {reason}"
