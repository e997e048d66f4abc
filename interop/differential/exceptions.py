"""Differences between Odradek and JVM Kafka 4.3.1 that have been looked at and accepted, each with its reason.

A pattern covers as little as it can. What is not listed here fails the comparison.
"""

from __future__ import annotations

from interop.differential.compare import Excepted

EXCEPTIONS: tuple[Excepted, ...] = ()
