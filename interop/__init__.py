"""Peers and programs that hold Odradek against JVM Kafka and other people's clients."""
