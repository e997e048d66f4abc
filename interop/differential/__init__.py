"""Sends identical frames to JVM Kafka and to Odradek and compares the decoded answers."""
