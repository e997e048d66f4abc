"""Metrics, quotas, telemetry, plug-ins."""

from __future__ import annotations

from odradek.config.definition import CLASS, INT, LIST, LONG, LOW, MEDIUM, STRING, Key, ListOf, at_least

KEYS: tuple[Key, ...] = (
    Key("client.quota.callback.class", CLASS, None, LOW, ""),
    Key("config.providers", LIST, "", LOW, "", ListOf()),
    Key("kafka.metrics.polling.interval.secs", INT, "10", LOW, "", at_least(1)),
    Key("kafka.metrics.reporters", LIST, "", LOW, "", ListOf()),
    Key("metric.reporters", LIST, "org.apache.kafka.common.metrics.JmxReporter", LOW, "", ListOf()),
    Key("metrics.num.samples", INT, "2", LOW, "", at_least(1)),
    Key("metrics.recording.level", STRING, "INFO", LOW, ""),
    Key("metrics.sample.window.ms", LONG, "30000", LOW, "", at_least(1)),
    Key("producer.purgatory.purge.interval.requests", INT, "1000", MEDIUM, ""),
    Key("quota.window.num", INT, "11", LOW, "", at_least(1)),
    Key("quota.window.size.seconds", INT, "1", LOW, "", at_least(1)),
    Key("telemetry.max.bytes", INT, "1048576", LOW, "", at_least(1)),
)
