"""Keys of metrics, quotas, telemetry, plug-ins."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import CLASS, INT, LIST, LONG, LOW, MEDIUM, STRING, Key, ListOf, at_least, keys_in

CLIENT_QUOTA_CALLBACK_CLASS: Final = Key("client.quota.callback.class", CLASS, None, LOW, "Class that computes client quotas.")
CONFIG_PROVIDERS: Final = Key("config.providers", LIST, "", LOW, "Names of configuration providers.", ListOf())
KAFKA_METRICS_POLLING_INTERVAL_SECS: Final = Key(
    "kafka.metrics.polling.interval.secs", INT, "10", LOW, "Polling interval of Yammer metrics reporters, in seconds.", at_least(1)
)
KAFKA_METRICS_REPORTERS: Final = Key("kafka.metrics.reporters", LIST, "", LOW, "Yammer metrics reporters.", ListOf())
METRIC_REPORTERS: Final = Key(
    "metric.reporters", LIST, "org.apache.kafka.common.metrics.JmxReporter", LOW, "Classes of metrics reporters.", ListOf()
)
METRICS_NUM_SAMPLES: Final = Key("metrics.num.samples", INT, "2", LOW, "Samples kept for each metric.", at_least(1))
METRICS_RECORDING_LEVEL: Final = Key("metrics.recording.level", STRING, "INFO", LOW, "Most detailed level of metrics recorded.")
METRICS_SAMPLE_WINDOW_MS: Final = Key("metrics.sample.window.ms", LONG, "30000", LOW, "Time per sample of a metric, in ms.", at_least(1))
PRODUCER_PURGATORY_PURGE_INTERVAL_REQUESTS: Final = Key(
    "producer.purgatory.purge.interval.requests", INT, "1000", MEDIUM, "Delayed produce requests completed before the purgatory is swept."
)
QUOTA_WINDOW_NUM: Final = Key("quota.window.num", INT, "11", LOW, "Samples kept for client quotas.", at_least(1))
QUOTA_WINDOW_SIZE_SECONDS: Final = Key("quota.window.size.seconds", INT, "1", LOW, "Seconds per sample of client quotas.", at_least(1))
TELEMETRY_MAX_BYTES: Final = Key(
    "telemetry.max.bytes", INT, "1048576", LOW, "Largest telemetry message from a client, after compression, in bytes.", at_least(1)
)

KEYS: Final = keys_in(globals())
