"""Peers and programs that compare Odradek with JVM Kafka and try it with other people's clients."""
