"""A client-metrics subscription (org.apache.kafka.server.metrics.ClientMetricsConfigs, KIP-714)."""

from __future__ import annotations

from odradek.config.definition import INT, LIST, MEDIUM, ConfigDef, Key

CLIENT_METRICS_CONFIG = ConfigDef(
    (
        Key("interval.ms", INT, "300000", MEDIUM, "Time between a client's pushes of its metrics, in ms."),
        Key("match", LIST, "", MEDIUM, "Which clients push, as selector=pattern."),
        Key("metrics", LIST, "", MEDIUM, "Prefixes of the names of the metrics that are pushed."),
    )
)
