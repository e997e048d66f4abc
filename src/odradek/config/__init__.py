"""Configuration: every key of Kafka 4.3 with type, default, validator and documentation; .properties files; layers and their precedence.

`broker.BrokerConfig` is a node's configuration, `topic.TopicConfig` a topic's. `describe` shows where each value came from.
"""
