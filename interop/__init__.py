"""Broker processes and tools for comparisons of Odradek with JVM Kafka, and for tests with clients of other projects."""
