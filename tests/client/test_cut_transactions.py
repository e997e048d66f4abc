"""Transactions whose coordinator's connection breaks."""

from __future__ import annotations

import asyncio

from odradek.client import AsyncProducer
from odradek.testing import EmbeddedBroker


def test_the_version_of_transactions_is_remembered_without_a_connection(odradek_broker: EmbeddedBroker, odradek_topic: str) -> None:
    """Version 1 for the first transaction, and version 2 for the next: the coordinator would fence the second while it ends the first."""

    async def story() -> None:
        settings = {"bootstrap.servers": odradek_broker.bootstrap_servers, "client.id": odradek_topic, "transactional.id": odradek_topic}
        async with AsyncProducer(settings) as producer:
            await producer.init_transactions()
            odradek_broker.faults.disconnect(odradek_topic)
            # Nobody tells of the end of a connection.
            while any(count for name, count in producer.metrics().items() if name.name == "connection-count"):  # noqa: ASYNC110
                await asyncio.sleep(0)
            async with producer.transaction():
                await producer.send(odradek_topic, b"value")

    asyncio.run(story())
    assert odradek_broker.seen("EndTxn", client_id=odradek_topic) == 1
    assert not odradek_broker.seen("AddPartitionsToTxn", client_id=odradek_topic)
