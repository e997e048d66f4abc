"""A whole broker with two log directories: one fails in the middle of the load, or replicas move between them while it crashes."""

from __future__ import annotations

import asyncio
import errno
import random
from typing import Any

import pytest

from odradek.base.errors import ErrorCode, OdradekError
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.registrations import DIRECTORY_UNASSIGNED
from odradek.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from odradek.protocol.messages.metadata_records import PartitionChangeRecord
from odradek.server.cluster.channel import InterBrokerChannel
from odradek.testing.simulation.broker import BrokerDied
from odradek.testing.simulation.disk import CHANGES, EVERYTHING
from odradek.testing.simulation.loop import SimulatedLoop, run
from tests.loops import in_virtual_time
from tests.simulation.directories import FIRST, PARTITIONS, SECOND, DirectoriesWorld


@pytest.mark.parametrize("seed", range(6))
@in_virtual_time
async def test_moves_under_load_with_crashes_lose_nothing_acknowledged(loop: SimulatedLoop, seed: int) -> None:
    rng = random.Random(seed)
    world = DirectoriesWorld(loop, seed)
    await world.broker.start()
    await world.create()
    writers = [asyncio.create_task(world.produce(partition)) for partition in range(PARTITIONS)]
    for _ in range(12):
        await asyncio.sleep(rng.uniform(0.1, 1.0))
        try:
            for partition in range(PARTITIONS):
                await world.move(partition, rng.choice((FIRST, SECOND)))
        except (OdradekError, OSError):
            pass
        if rng.random() < 0.6:
            world.broker.end_at_step(rng.randint(1, 150), power=rng.random() < 0.6)
            await asyncio.wait((world.broker.death,), timeout=20)
            world.broker.disarm()
            while not world.broker.alive:
                try:
                    await world.broker.start()
                except BrokerDied:
                    continue
    await asyncio.sleep(5)
    world.over = True
    await asyncio.gather(*writers)
    for partition in range(PARTITIONS):
        assert await world.move(partition, SECOND) == 0
    await asyncio.sleep(5)
    assert set((await world.places())[0].values()) == {SECOND}
    assert sum(map(len, world.acked.values())) > 100
    await world.check_acked(list(range(PARTITIONS)))
    await world.broker.stop()
    assert world.broker.fatal is None


@pytest.mark.parametrize(
    ("error", "operations"),
    [
        (errno.EIO, EVERYTHING),
        (errno.EIO, {"fsync"}),
        (errno.ENOSPC, {"write", "create", "mkdir"}),
        (errno.EROFS, CHANGES),
        (errno.EACCES, {"open", "create", "rename", "fsync_dir"}),
    ],
)
@in_virtual_time
async def test_a_directory_that_fails_goes_offline_and_the_other_serves(loop: SimulatedLoop, error: int, operations: set[str]) -> None:
    world = DirectoriesWorld(loop, error)
    await world.broker.start()
    await world.create()
    where, _ = await world.places()
    writers = [asyncio.create_task(world.produce(partition)) for partition in range(PARTITIONS)]
    await asyncio.sleep(2)
    lost = [partition for partition, path in where.items() if path == SECOND]
    kept = [partition for partition, path in where.items() if path == FIRST]
    assert len(lost) == len(kept) == 2
    failure = world.broker.disk.fail(SECOND, operations, error)
    await asyncio.sleep(10)
    before = {partition: len(world.acked[partition]) for partition in where}
    await asyncio.sleep(2)
    assert all(len(world.acked[partition]) == before[partition] for partition in lost)
    assert all(len(world.acked[partition]) > before[partition] for partition in kept)
    _, codes = await world.places()
    assert codes == {FIRST: 0, SECOND: ErrorCode.KAFKA_STORAGE_ERROR}
    metadata = await world.metadata()
    assert all(metadata[partition].offline_replicas == [1] and metadata[partition].leader_id == -1 for partition in lost)
    assert all(metadata[partition].offline_replicas == [] and metadata[partition].leader_id == 1 for partition in kept)
    assert await world.move(kept[0], SECOND) == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.broker.fatal is None
    # The disk is replaced by itself, as it were: what was acknowledged before is there again, and nothing else was acknowledged.
    failure.lift()
    await world.broker.stop()
    await world.broker.start()
    await asyncio.sleep(20)
    world.over = True
    await asyncio.gather(*writers)
    assert all(len(world.acked[partition]) > before[partition] for partition in where)
    await world.check_acked(list(where))
    await world.broker.stop()


@in_virtual_time
async def test_a_directory_that_fails_at_the_start_stays_offline_and_keeps_its_partitions(loop: SimulatedLoop) -> None:
    world = DirectoriesWorld(loop, 1)
    await world.broker.start()
    await world.create()
    where, _ = await world.places()
    lost = [partition for partition, path in where.items() if path == SECOND]
    writers = [asyncio.create_task(world.produce(partition)) for partition in range(PARTITIONS)]
    await asyncio.sleep(2)
    world.over = True
    await asyncio.gather(*writers)
    await world.broker.stop()
    failure = world.broker.disk.fail(SECOND, "read")
    await world.broker.start()
    _, codes = await world.places()
    assert codes == {FIRST: 0, SECOND: ErrorCode.KAFKA_STORAGE_ERROR}
    metadata = await world.metadata()
    assert [metadata[partition].leader_id for partition in lost] == [-1, -1]
    assert not any(world.broker.disk.exists(f"{FIRST}/topic-{partition}") for partition in lost)  # nothing empty in their place
    await world.check_acked([partition for partition in where if partition not in lost])
    await world.broker.stop()
    failure.lift()
    await world.broker.start()
    await asyncio.sleep(5)
    await world.check_acked(list(where))
    await world.broker.stop()


@pytest.mark.parametrize("paths", [(FIRST,), (SECOND, FIRST)])
@in_virtual_time
async def test_the_last_directory_or_that_of_the_metadata_ends_the_node(loop: SimulatedLoop, paths: tuple[str, ...]) -> None:
    world = DirectoriesWorld(loop, 1)
    await world.broker.start()
    await world.create()
    writers = [asyncio.create_task(world.produce(partition)) for partition in range(PARTITIONS)]
    await asyncio.sleep(1)
    for path in paths:
        assert world.broker.fatal is None
        world.broker.disk.fail(path, {"write", "fsync"})
        await asyncio.sleep(2)
    assert world.broker.fatal is not None
    assert "\n" not in str(world.broker.fatal)
    assert FIRST in str(world.broker.fatal)
    world.over = True
    world.broker.kill()
    for writer in writers:
        writer.cancel()
    await asyncio.gather(*writers, return_exceptions=True)


@in_virtual_time
async def test_a_separate_metadata_directory_holds_no_partitions(loop: SimulatedLoop) -> None:
    world = DirectoriesWorld(loop, 1, **{"metadata.log.dir": "/metadata"})
    await world.broker.start()
    await world.create()
    where, codes = await world.places()
    assert set(where.values()) == set(codes) == {FIRST, SECOND}
    await world.broker.stop()


@in_virtual_time
async def test_a_cordoned_directory_gets_no_new_partitions(loop: SimulatedLoop) -> None:
    world = DirectoriesWorld(loop, 1, **{"cordoned.log.dirs": SECOND})
    await world.broker.start()
    await world.create()
    where, _ = await world.places()
    assert set(where.values()) == {FIRST}
    assert await world.move(0, SECOND) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    response: DescribeLogDirsResponse = await world.ask(DescribeLogDirsRequest(topics=[]), DescribeLogDirsResponse, 5)
    assert {each.log_dir: each.is_cordoned for each in response.results} == {FIRST: False, SECOND: True}
    for value, problem in (("/elsewhere", ErrorCode.INVALID_REQUEST), (FIRST, ErrorCode.NONE)):
        config = IncrementalAlterConfigsRequest.AlterableConfig(name="cordoned.log.dirs", config_operation=0, value=value)
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])
        altered: IncrementalAlterConfigsResponse = await world.ask(
            IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse, 1
        )
        assert altered.responses[0].error_code == problem
    await asyncio.sleep(1)
    assert await world.move(0, SECOND) == ErrorCode.NONE
    await asyncio.sleep(1)
    assert (await world.places())[0][0] == SECOND
    await world.broker.stop()


def test_a_replica_that_went_and_came_back_is_assigned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assigned: list[int] = []
    send = InterBrokerChannel.send

    def sent(channel: InterBrokerChannel, target: Any, api_key: Any, request: Any, *rest: Any, **how: Any) -> Any:
        if isinstance(request, AssignReplicasToDirsRequest):
            assigned.extend(each.partition_index for entry in request.directories for topic in entry.topics for each in topic.partitions)
        return send(channel, target, api_key, request, *rest, **how)

    monkeypatch.setattr(InterBrokerChannel, "send", sent)

    async def main(loop: SimulatedLoop) -> None:
        world = DirectoriesWorld(loop, 1)
        await world.broker.start()
        await world.create()
        await asyncio.sleep(1)
        assert sorted(assigned) == list(range(PARTITIONS))
        assert world.broker.broker is not None
        services = world.broker.broker.services
        topic = services.metadata.image.topics.by_name["topic"]
        for replicas in ([9], [1]) * 2:
            # Nothing moves replicas here yet: the metadata is made by the test.
            delta = MetadataDelta(services.metadata.image)
            place = {"replicas": replicas, "isr": replicas, "leader": replicas[0], "directories": [DIRECTORY_UNASSIGNED]}
            delta.replay(PartitionChangeRecord(partition_id=2, topic_id=topic.topic_id, **place))
            image = delta.apply(services.metadata.image.provenance)
            services.metadata.publish(image, services.clock.monotonic())
            assert world.broker.broker.node.replica_manager.changes.apply(delta, image) == 0
            await asyncio.sleep(1)
        assert assigned[PARTITIONS:] == [2, 2]
        await world.broker.stop()

    run(main)
