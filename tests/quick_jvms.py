"""Settings of the JVMs of Spark that tests start."""

from __future__ import annotations

from typing import Final

QUICK_JVMS: Final = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Environment for a driver of a minute or two: its JVM compiles once and quickly, and takes a third less CPU.

JVM Kafka beside it keeps its own settings: a JVM does not start with two collectors.
"""
