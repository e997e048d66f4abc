"""What JVM Kafka shows by JMX and Odradek does not, with the reason. `*` stands for anything."""

from __future__ import annotations

from typing import Final

ABSENT: Final[tuple[tuple[tuple[str, ...], str], ...]] = ()
"""(MBeans, or attributes of them behind a dot; reason)."""
