"""Producers, readers and administrators of a story."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.producer.futures import RecordFuture
from odradek.client.types import NewTopic
from odradek.metadata.image import RESOURCE_TOPIC
from odradek.network.transport import ConnectionLost
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from odradek.testing.history import Assigned, MemoryRecorder, Poll, Send
from odradek.testing.simulation.cluster import CONTROLLER_PORT
from tests.simulation.whole.plan import ELR, SINK
from tests.simulation.whole.requests import Requests, pause

if TYPE_CHECKING:
    from tests.simulation.whole.story import Story

_PREFERRED = 0
"""The election of the first replica."""
PATIENCE = {"retry_backoff_max_ms": 1000, "request_timeout_ms": 5000, "default_api_timeout_ms": 300_000}


async def produce(story: Story, name: str, rng: random.Random) -> None:
    """Sends numbered values as an idempotent producer, with retries for as long as it takes; at the end all must be acknowledged."""
    recorder = story.recorder(name)
    settings = {**PATIENCE, "delivery_timeout_ms": 2_000_000, "max_block_ms": 1_000_000, "client_id": name}
    compression, batch_size = rng.choice(("none", "gzip", "lz4")), rng.choice((200, 16384))
    pace = rng.choice((0.3, 0.6, 1.5))
    number = 0
    async with story.cluster.producer(name, compression_type=compression, batch_size=batch_size, **settings) as producer:
        while not story.over:
            partition = rng.choice(story.plan.partitions)
            for _ in range(rng.choice((1, 1, 4, 12))):
                number += 1
                value = f"{name}-{number}"
                recorder.invoke("send", [Send(*partition, None, value)], id=number)
                data = value.encode() + b" " * rng.choice((0, 30, 400))
                future = await producer.send(partition.topic, data, partition=partition.partition)
                future.add_done_callback(_acknowledgement(story, recorder, partition, value, number))
            await asyncio.sleep(rng.expovariate(1 / pace))
        await producer.flush()


def _acknowledgement(
    story: Story, recorder: MemoryRecorder, partition: TopicPartition, value: str, number: int
) -> Callable[[RecordFuture], None]:
    def acknowledged(future: RecordFuture) -> None:
        error = future.exception()
        if error is not None:
            recorder.info("send", [Send(*partition, None, value)], id=number)
            story.problem("clients", f"{recorder.process}: {value} for {partition} was refused: {error}")
        else:
            recorder.ok("send", [Send(*partition, future.result(0).offset, value)], id=number)
            story.acked += 1

    return acknowledged


def value_of(data: bytes | None) -> str:
    """What a producer's record says, without its padding."""
    return (data or b"").decode().rstrip(" ")


async def read(story: Story, name: str, rng: random.Random) -> None:
    """Reads everything from the beginning, over and over."""
    session = 0
    partitions = [*story.plan.partitions, *(TopicPartition(SINK, index) for index in range(story.plan.topics[SINK]))]
    while not story.over:
        session += 1
        process = f"{name}.{session}"
        recorder = story.recorder(process)
        isolation = rng.choice(("read_committed", "read_uncommitted"))
        async with story.cluster.consumer(
            process, auto_offset_reset="earliest", max_partition_fetch_bytes=5000, isolation_level=isolation, **PATIENCE
        ) as consumer:
            recorder.invoke("assign")
            consumer.assign(partitions)
            recorder.ok("assign", [Assigned(None, *each, None) for each in partitions])
            until = story.loop.time() + rng.uniform(5, 60)
            while not story.over and story.loop.time() < until:
                recorder.invoke("poll", isolation=isolation)
                try:
                    records = await consumer.poll(500)
                except (KafkaError, ConnectionLost) as error:
                    recorder.info("poll", isolation=isolation)
                    story.note(name, f"poll: {error}")
                    continue
                polls = [Poll(each.topic, each.partition, each.offset, value_of(each.value)) for each in records]
                recorder.ok("poll", polls, isolation=isolation)


async def watch_ends(story: Story, name: str, rng: random.Random) -> None:
    """Asks for the ends of all partitions, as a reader of all and as one of committed records sees them."""
    recorder = story.recorder(name)
    partitions = story.plan.partitions
    async with (
        story.cluster.consumer(name, **PATIENCE) as everything,
        story.cluster.consumer(f"{name} committed", isolation_level="read_committed", **PATIENCE) as committed,
    ):
        while not story.over:
            recorder.invoke("poll")
            try:
                stable = await committed.end_offsets(partitions)
                ends = await everything.end_offsets(partitions)
            except (KafkaError, ConnectionLost) as error:
                recorder.info("poll")
                story.note(name, f"end offsets: {error}")
            else:
                # Two samples: a leader that was replaced while it stood still may answer one of the two consumers.
                marks = [[*each, None, None, stable[each]] for each in partitions] + [
                    [*each, None, ends[each], None] for each in partitions
                ]
                recorder.ok("poll", watermarks=marks)
            await asyncio.sleep(rng.uniform(0.1, 1))


async def ask_producer_ids(story: Story, name: str, rng: random.Random) -> None:
    """Takes producer ids from brokers, and blocks of them from controllers in the name of brokers."""
    requests = Requests(story.cluster, name, rng)
    while not story.over:
        node = rng.choice(story.cluster.broker_ids)
        try:
            for _ in range(rng.choice((1, 5))):
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
                answer = await requests.ask(node, request, InitProducerIdResponse, 4)
                if answer.error_code == 0:
                    story.metadata.producer_id_given(node, answer.producer_id)
        except ConnectionLost as error:
            story.note(name, str(error))
        await pause(rng, 1.0)
        image = story.cluster.image()
        broker = None if image is None else image.cluster.brokers.get(node)
        if broker is not None:
            # With patience: a controller that stands still reads it when others have long replaced it.
            try:
                block = AllocateProducerIdsRequest(broker_id=node, broker_epoch=broker.epoch)
                controller = rng.choice(story.cluster.controller_ids)
                await requests.ask(controller, block, AllocateProducerIdsResponse, 0, timeout_s=30, port=CONTROLLER_PORT)
            except ConnectionLost as error:
                story.note(name, str(error))
        await pause(rng, 1.0)
    requests.close()


async def ask_for_elections(story: Story, name: str, rng: random.Random) -> None:
    """Asks controllers, until all is calm, to give every partition its preferred leader: with patience, as `ask_producer_ids`."""
    requests = Requests(story.cluster, name, rng)
    request = ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=None)
    while not story.calm:
        try:
            controller = rng.choice(story.cluster.controller_ids)
            await requests.ask(controller, request, ElectLeadersResponse, 2, timeout_s=30, port=CONTROLLER_PORT)
        except ConnectionLost as error:
            story.note(name, str(error))
        await pause(rng, 1.0)
    requests.close()


async def administrate(story: Story, name: str, rng: random.Random) -> None:
    """Topics come, grow and go, configurations change, leaderships move (until all is calm: then the controller is to see to that).

    After a call that failed nothing is known of its topic, and the name is not used again.
    """
    known: dict[str, int] = {}
    number = 0
    elr = not story.plan.elr_comes_late
    metadata = story.metadata
    factor = story.plan.replication_factor
    requests = Requests(story.cluster, name, rng)
    async with story.cluster.admin(name, **{**PATIENCE, "default_api_timeout_ms": 8000}) as admin:
        while not story.over:
            action = rng.choice(("create", "grow", "delete", "configure", "configure", "elect"))
            topic = rng.choice(sorted(known)) if known and action not in ("create", "elect") else ""
            try:
                if action == "elect" and not story.calm:
                    await requests.ask_any(ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=None), ElectLeadersResponse, 2)
                elif not elr and story.has_leaderless_partitions():
                    elr = True
                    await _turn_elr_on(requests)
                elif topic == "":
                    number += 1
                    count = rng.randint(1, 3)
                    (created,) = (await admin.create_topics([NewTopic(f"side-{number}", count, factor)])).values()
                    known[created.name] = count
                    metadata.topic_created(created.name, created.topic_id, count)
                elif action == "grow":
                    await admin.create_partitions({topic: known[topic] + 1})
                    known[topic] += 1
                    metadata.topic_grown(topic, known[topic])
                elif action == "delete":
                    del known[topic]
                    metadata.topic_deletion_asked(topic)
                    await admin.delete_topics([topic])
                    metadata.topic_deleted(topic)
                else:
                    number += 1
                    await _set_retention(requests, topic, 1_000_000_000 + number)
                    metadata.config_changed(topic, number)
            except (KafkaError, ConnectionLost) as error:
                # A change that was not confirmed may be made later, even after one that comes after it.
                if topic:
                    known.pop(topic, None)
                    metadata.unsure_of(topic)
                story.note(name, f"{action} {topic}: {error}")
            await asyncio.sleep(rng.uniform(0.2, 3))
    requests.close()


async def _turn_elr_on(requests: Requests) -> None:
    update = UpdateFeaturesRequest.FeatureUpdateKey(feature=ELR, max_version_level=1)
    await requests.ask_any(UpdateFeaturesRequest(feature_updates=[update]), UpdateFeaturesResponse, 1)


async def _set_retention(requests: Requests, topic: str, value: int) -> None:
    """Asked for once only: a first attempt of a client that tries again may be served after later changes."""
    change = IncrementalAlterConfigsRequest.AlterableConfig(name="retention.ms", config_operation=0, value=str(value))
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=RESOURCE_TOPIC, resource_name=topic, configs=[change])
    answer = await requests.ask_any(IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse, 1)
    if answer.responses[0].error_code:
        raise KafkaError(ErrorCode(answer.responses[0].error_code), topic)


async def final_read(story: Story, topics: list[str]) -> None:
    """Everything from the beginning, by a fresh client, when all has healed."""
    for isolation in ("read_uncommitted", "read_committed"):
        name = f"final-{isolation}"
        recorder = story.recorder(name)
        async with story.cluster.consumer(name, isolation_level=isolation, auto_offset_reset="earliest", **PATIENCE) as consumer:
            partitions = [TopicPartition(topic, index) for topic in topics for index in range(story.plan.topics[topic])]
            ends = await consumer.end_offsets(partitions)
            recorder.ok("assign", [Assigned(None, *each, None) for each in partitions], final=True, isolation=isolation)
            consumer.assign(partitions)
            consumer.seek_to_beginning()
            while any([await consumer.position(each) < ends[each] for each in partitions]):
                recorder.invoke("poll", final=True, isolation=isolation)
                polls = [Poll(each.topic, each.partition, each.offset, value_of(each.value)) for each in await consumer.poll(1000)]
                recorder.ok("poll", polls, final=True, isolation=isolation)


__all__ = ["administrate", "ask_for_elections", "ask_producer_ids", "final_read", "produce", "read", "watch_ends"]
