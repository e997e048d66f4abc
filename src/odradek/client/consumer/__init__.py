"""Consumers: `blocking.Consumer` and `aio.AsyncConsumer` on one engine, alone or as members of groups."""
