"""Ranges of numbers that keys of Kafka 4.3.1 may have (validators of its ConfigDefs); test_jvm.py compares this table with them."""

from __future__ import annotations

from typing import Final

BROKER: Final = """
-131072..22: compression.zstd.level
-2..: log.local.retention.bytes log.local.retention.ms
-1..: group.coordinator.append.linger.ms remote.log.index.file.cache.ttl.ms share.coordinator.append.linger.ms
0..: add.partitions.to.txn.retry.backoff.max.ms connection.failed.authentication.delay.ms controller.performance.always.log.threshold.ms
  controller.quorum.append.linger.ms controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
  controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
  group.consumer.assignment.interval.ms group.consumer.max.assignment.interval.ms group.consumer.min.assignment.interval.ms
  group.share.assignment.interval.ms group.share.max.assignment.interval.ms group.share.min.assignment.interval.ms
  group.streams.assignment.interval.ms group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
  group.streams.max.standby.replicas group.streams.min.assignment.interval.ms group.streams.num.standby.replicas log.cleaner.backoff.ms
  log.cleaner.delete.retention.ms log.cleaner.io.buffer.size log.cleaner.min.compaction.lag.ms log.cleaner.threads
  log.flush.offset.checkpoint.interval.ms log.flush.start.offset.checkpoint.interval.ms log.index.interval.bytes
  log.initial.task.delay.ms log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms log.roll.jitter.hours
  log.segment.delete.delay.ms max.connection.creation.rate max.connections max.connections.per.ip
  max.incremental.fetch.session.cache.slots message.max.bytes metadata.log.max.snapshot.interval.ms metadata.max.idle.interval.ms
  node.id remote.log.metadata.custom.metadata.max.bytes replica.fetch.backoff.ms replica.fetch.max.bytes
  replica.fetch.response.max.bytes server.max.startup.time.ms
0..0.5: remote.log.manager.task.retry.jitter
0..1: log.cleaner.min.cleanable.ratio
0..3600: sasl.oauthbearer.assertion.claim.nbf.seconds
0..500: share.coordinator.snapshot.update.records.per.snapshot
0..86400: sasl.oauthbearer.assertion.claim.exp.seconds
1..: add.partitions.to.txn.retry.backoff.ms alter.log.dirs.replication.quota.window.num
  alter.log.dirs.replication.quota.window.size.seconds background.threads controller.quorum.fetch.max.bytes
  controller.quorum.fetch.snapshot.max.bytes controller.quota.window.num controller.quota.window.size.seconds
  delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms delegation.token.max.lifetime.ms
  group.consumer.heartbeat.interval.ms group.consumer.max.heartbeat.interval.ms group.consumer.max.session.timeout.ms
  group.consumer.max.size group.consumer.min.heartbeat.interval.ms group.consumer.min.session.timeout.ms
  group.consumer.session.timeout.ms group.coordinator.background.threads group.coordinator.threads group.max.size
  group.share.heartbeat.interval.ms group.share.initialize.retry.interval.ms group.share.max.heartbeat.interval.ms
  group.share.max.session.timeout.ms group.share.max.share.sessions group.share.min.heartbeat.interval.ms
  group.share.min.session.timeout.ms group.share.session.timeout.ms group.streams.heartbeat.interval.ms
  group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms group.streams.max.size
  group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms group.streams.session.timeout.ms
  kafka.metrics.polling.interval.secs leader.imbalance.check.interval.seconds log.cleaner.max.compaction.lag.ms
  log.dir.failure.timeout.ms log.flush.interval.messages log.retention.check.interval.ms log.roll.hours max.request.partition.size.limit
  metadata.log.max.record.bytes.between.snapshots metrics.num.samples metrics.sample.window.ms min.insync.replicas num.io.threads
  num.network.threads num.partitions num.recovery.threads.per.data.dir num.replica.fetchers offsets.commit.timeout.ms
  offsets.load.buffer.size offsets.retention.check.interval.ms offsets.retention.minutes offsets.topic.num.partitions
  offsets.topic.replication.factor offsets.topic.segment.bytes producer.id.expiration.check.interval.ms producer.id.expiration.ms
  queued.max.requests quota.window.num quota.window.size.seconds remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
  remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
  remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
  remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
  remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.follower.thread.pool.size remote.log.manager.task.interval.ms
  remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms remote.log.manager.thread.pool.size
  remote.log.reader.max.pending.tasks remote.log.reader.threads replication.quota.window.num replication.quota.window.size.seconds
  share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.load.buffer.size share.coordinator.state.topic.min.isr
  share.coordinator.state.topic.num.partitions share.coordinator.state.topic.prune.interval.ms
  share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes share.coordinator.threads
  share.coordinator.write.timeout.ms socket.listen.backlog.size socket.request.max.bytes telemetry.max.bytes
  transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
  transaction.remove.expired.transaction.cleanup.interval.ms transaction.state.log.load.buffer.size transaction.state.log.min.isr
  transaction.state.log.num.partitions transaction.state.log.replication.factor transaction.state.log.segment.bytes
  transactional.id.expiration.ms unclean.leader.election.interval.ms
1..1000: group.share.max.size
1..17: compression.lz4.level
2..10: group.share.delivery.count.limit
2..5: group.share.min.delivery.count.limit
4..: log.index.size.max.bytes
5..25: group.share.max.delivery.count.limit
100..: controller.performance.sample.period.ms
100..10000: group.share.partition.max.record.locks
100..2000: group.share.min.partition.max.record.locks
1000..30000: group.share.min.record.lock.duration.ms
1000..3600000: group.share.record.lock.duration.ms
1024..: fetch.max.bytes
2000..10000: group.share.max.partition.max.record.locks
10000..: group.consumer.regex.refresh.interval.ms
30000..3600000: group.share.max.record.lock.duration.ms
524288..: group.coordinator.cached.buffer.max.bytes share.coordinator.cached.buffer.max.bytes
1048576..: log.segment.bytes
8388608..: metadata.log.segment.bytes
"""

TOPIC: Final = """
-131072..22: compression.zstd.level
-2..: local.retention.bytes local.retention.ms
-1..: retention.ms
0..: delete.retention.ms file.delete.delay.ms flush.ms index.interval.bytes max.message.bytes message.timestamp.after.max.ms
  message.timestamp.before.max.ms min.compaction.lag.ms segment.jitter.ms
0..1: min.cleanable.dirty.ratio
1..: flush.messages max.compaction.lag.ms min.insync.replicas segment.ms
1..17: compression.lz4.level
4..: segment.index.bytes
1048576..: segment.bytes
"""

GROUP: Final = """
0..: consumer.assignment.interval.ms share.assignment.interval.ms streams.assignment.interval.ms streams.initial.rebalance.delay.ms
  streams.num.standby.replicas
1..: consumer.heartbeat.interval.ms consumer.session.timeout.ms share.heartbeat.interval.ms share.session.timeout.ms
  streams.heartbeat.interval.ms streams.session.timeout.ms
2..: share.delivery.count.limit
100..: share.partition.max.record.locks
1000..: share.record.lock.duration.ms
"""


def ranges(table: str) -> dict[str, tuple[str, str]]:
    """Return key -> (least value, largest value); "" for no largest one."""
    found: dict[str, tuple[str, str]] = {}
    span = ("", "")
    for word in table.split():
        if word.endswith(":"):
            least, _, largest = word[:-1].partition("..")
            span = (least, largest)
        else:
            found[word] = span
    return found
