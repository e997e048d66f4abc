"""The assignors by name, as clients and configurations name them."""

from __future__ import annotations

from odradek.assignment import ranges, uniform
from odradek.assignment.spec import Assignor

ASSIGNORS: dict[str, Assignor] = {uniform.NAME: uniform.assign_uniform, ranges.NAME: ranges.assign_range}

CLASS_NAMES: dict[str, str] = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": uniform.NAME,
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": ranges.NAME,
}
"""group.consumer.assignors may name Kafka's own classes instead."""
