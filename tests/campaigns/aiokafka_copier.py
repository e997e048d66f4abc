"""Copier with aiokafka. It assigns its partitions itself, since aiokafka's producer does not send the group's generation to the
coordinator.

The assignment is safe as long as no other process reads these partitions: a new process with the same transactional id ends the old
transaction before it asks for the committed offsets.
"""

from __future__ import annotations

import asyncio

import aiokafka
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

from odradek.testing.history import Recorder
from tests.campaigns.copiers import PATIENCE_S, Doom, Fatal, Options, Work, transformed


class AiokafkaCopier:
    """Copier with aiokafka. Any error except a refused commit ends the process; a new process continues at the group's committed
    offsets.
    """

    def __init__(self, options: Options, recorder: Recorder, doom: Doom) -> None:
        self.options = options
        self.recorder = recorder
        self.doom = doom
        self.count = 0

    async def run(self) -> None:
        options = self.options
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=options.bootstrap,
            transactional_id=options.name,
            transaction_timeout_ms=options.transaction_timeout_ms,
            retry_backoff_ms=20,
            linger_ms=2,
            compression_type=(None, "lz4", "zstd", "gzip")[options.life % 4],
        )
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=options.bootstrap,
            group_id=options.group,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_records=options.batch,
            retry_backoff_ms=20,
        )
        try:
            await asyncio.wait_for(producer.start(), PATIENCE_S)
            await consumer.start()
            await self._copy_all(producer, consumer)
        except (KafkaError, TimeoutError) as error:
            raise Fatal(repr(error)) from error
        await consumer.stop()
        await producer.stop()

    async def _copy_all(self, producer: aiokafka.AIOKafkaProducer, consumer: aiokafka.AIOKafkaConsumer) -> None:
        options = self.options
        own = [TopicPartition(options.source, each) for each in options.partitions]
        consumer.assign(own)
        self.recorder.ok("assign", [["assigned", None, options.source, each, None] for each in options.partitions])
        await self._rewind(consumer, own)
        while not self.doom.stopping:
            found = await consumer.getmany(timeout_ms=100)
            read = [(tp.partition, each.offset, each.value.decode()) for tp, records in found.items() for each in records]
            if not read:
                continue
            self.count += 1
            work = Work(f"{options.name}.{options.life}.{self.count}", read)
            if not await self._copy(producer, work):
                await self._rewind(consumer, own)

    async def _rewind(self, consumer: aiokafka.AIOKafkaConsumer, own: list[TopicPartition]) -> None:
        for each in own:
            consumer.seek(each, await consumer.committed(each) or 0)

    async def _copy(self, producer: aiokafka.AIOKafkaProducer, work: Work) -> bool:
        """Copy one transaction, and return whether it was committed."""
        offsets: dict[str, int] = {}
        operations = work.operations
        self.recorder.invoke("txn", operations(self.options), id=work.name)
        try:
            await producer.begin_transaction()
            self.doom.reached("begun")
            sent = []
            for partition, _, value in work.read:
                written = transformed(value, work.name)
                future = await producer.send(self.options.target, written.encode(), key=value.encode(), partition=partition)
                sent.append((written, future))
            self.doom.reached("produced")
            for written, future in sent:
                offsets[written] = (await future).offset
            self.doom.reached("flushed")
            ends = {TopicPartition(self.options.source, partition): offset for partition, offset in work.ends().items()}
            await producer.send_offsets_to_transaction(ends, self.options.group)
            self.doom.reached("offsets")
            self.doom.reached("ending")
            if self.doom.rng.random() < self.options.aborts:
                await producer.abort_transaction()
                self.recorder.fail("txn", operations(self.options, offsets), id=work.name, error="of its own will")
                return False
            await producer.commit_transaction()
        except (KafkaError, TimeoutError) as error:
            fenced = isinstance(error, ProducerFenced)
            self.recorder.info("txn", operations(self.options, offsets), id=work.name, error=repr(error), fenced=fenced)
            raise Fatal(repr(error)) from error
        self.recorder.ok("txn", operations(self.options, offsets), id=work.name)
        return True
