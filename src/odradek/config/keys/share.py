"""Share groups: the share coordinator."""

from __future__ import annotations

from odradek.config.definition import HIGH, INT, LOW, MEDIUM, SHORT, Key, at_least, between

KEYS: tuple[Key, ...] = (
    Key("share.coordinator.append.linger.ms", INT, "-1", MEDIUM, "", at_least(-1)),
    Key("share.coordinator.cached.buffer.max.bytes", INT, "1048588", MEDIUM, "", at_least(524288)),
    Key("share.coordinator.cold.partition.snapshot.interval.ms", INT, "300000", LOW, "", at_least(1), internal=True),
    Key("share.coordinator.load.buffer.size", INT, "5242880", HIGH, "", at_least(1)),
    Key("share.coordinator.snapshot.update.records.per.snapshot", INT, "500", MEDIUM, "", between(0, 500)),
    Key("share.coordinator.state.topic.compression.codec", INT, "0", HIGH, ""),
    Key("share.coordinator.state.topic.min.isr", SHORT, "2", HIGH, "", at_least(1)),
    Key("share.coordinator.state.topic.num.partitions", INT, "50", HIGH, "", at_least(1)),
    Key("share.coordinator.state.topic.prune.interval.ms", INT, "300000", LOW, "", at_least(1), internal=True),
    Key("share.coordinator.state.topic.replication.factor", SHORT, "3", HIGH, "", at_least(1)),
    Key("share.coordinator.state.topic.segment.bytes", INT, "104857600", HIGH, "", at_least(1)),
    Key("share.coordinator.threads", INT, "1", MEDIUM, "", at_least(1)),
    Key("share.coordinator.write.timeout.ms", INT, "5000", HIGH, "", at_least(1)),
    Key("share.fetch.purgatory.purge.interval.requests", INT, "1000", MEDIUM, ""),
)
