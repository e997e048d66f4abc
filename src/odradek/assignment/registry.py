"""Assignors by the names that clients and configurations use."""

from __future__ import annotations

from odradek.assignment import ranges, uniform
from odradek.assignment.spec import Assignor

ASSIGNORS: dict[str, Assignor] = {uniform.NAME: uniform.assign_uniform, ranges.NAME: ranges.assign_range}

CLASS_NAMES: dict[str, str] = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": uniform.NAME,
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": ranges.NAME,
}
"""Class name -> assignor, because group.consumer.assignors may contain Kafka's class names."""
