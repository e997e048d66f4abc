"""Keys of metrics, quotas, telemetry, plug-ins."""

from __future__ import annotations

from odradek.config.definition import CLASS, INT, LIST, LONG, LOW, MEDIUM, STRING, Key, ListOf, at_least

KEYS: tuple[Key, ...] = (
    Key("client.quota.callback.class", CLASS, None, LOW, "Class that decides client quotas."),
    Key("config.providers", LIST, "", LOW, "Names of providers that fill in variables in configurations.", ListOf()),
    Key(
        "kafka.metrics.polling.interval.secs",
        INT,
        "10",
        LOW,
        "Polling interval of metrics reporters of the old kind, in seconds.",
        at_least(1),
    ),
    Key("kafka.metrics.reporters", LIST, "", LOW, "Metrics reporters of the old kind.", ListOf()),
    Key("metric.reporters", LIST, "org.apache.kafka.common.metrics.JmxReporter", LOW, "Classes that are told of metrics.", ListOf()),
    Key("metrics.num.samples", INT, "2", LOW, "Samples kept for each metric.", at_least(1)),
    Key("metrics.recording.level", STRING, "INFO", LOW, "Most detailed level of metrics recorded."),
    Key("metrics.sample.window.ms", LONG, "30000", LOW, "Time per sample of a metric, in ms.", at_least(1)),
    Key(
        "producer.purgatory.purge.interval.requests",
        INT,
        "1000",
        MEDIUM,
        "Delayed produce requests completed before the purgatory is swept.",
    ),
    Key("quota.window.num", INT, "11", LOW, "Samples kept for client quotas.", at_least(1)),
    Key("quota.window.size.seconds", INT, "1", LOW, "Seconds per sample of client quotas.", at_least(1)),
    Key("telemetry.max.bytes", INT, "1048576", LOW, "Largest telemetry message from a client, after compression.", at_least(1)),
)
