"""Consumers: `blocking.Consumer` and `aio.AsyncConsumer` on one engine; without groups so far."""
