"""Producers: `blocking.Producer` and `aio.AsyncProducer` on one engine."""
