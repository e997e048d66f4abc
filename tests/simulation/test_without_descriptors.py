"""A whole broker with two log directories that finds no file descriptor for a while: nothing goes offline, and nothing is lost."""

from __future__ import annotations

import asyncio
import errno
import random

import pytest

from odradek.client.types import NewTopic
from odradek.testing.simulation.clients import SimulatedAdmin, SimulatedProducer
from odradek.testing.simulation.disk import Failure
from odradek.testing.simulation.loop import SimulatedLoop, run
from odradek.testing.simulation.network import on_host
from tests.simulation.directories import FIRST, PARTITIONS, PATIENCE, SECOND, DirectoriesWorld

OPENS = frozenset({"open", "create", "fsync_dir"})
"""What needs a descriptor. The metadata log lies in the first directory, and ends the node where it finds none."""


class NoDescriptors(Failure):
    """No file is opened in the second directory, and none of the topics' in the first one."""

    def __init__(self, error: int, every: int) -> None:
        super().__init__("/", OPENS, error, 0, None)
        self._every = every
        self._asked = 0

    def strikes(self, operation: str, path: str, other: str) -> bool:
        if self.lifted or operation not in OPENS or not path.startswith((f"{SECOND}/", f"{FIRST}/topic-", f"{FIRST}/late-")):
            return False
        self._asked += 1
        if self._asked % self._every:
            return False
        self.hits += 1
        return True


@pytest.mark.parametrize(
    ("error", "every"), [(errno.EMFILE, 1), (errno.ENFILE, 1), (errno.EMFILE, 2), (errno.EMFILE, 3), (errno.EMFILE, 7)]
)
def test_want_of_descriptors_is_no_failure_of_a_directory(error: int, every: int) -> None:
    async def create_late(world: DirectoriesWorld) -> None:
        with on_host("late"):
            async with SimulatedAdmin(world.clock, random.Random(7), bootstrap_servers=world.broker.bootstrap_servers, **PATIENCE) as admin:
                await admin.create_topics([NewTopic("late", 6, 1)])

    async def write_late(world: DirectoriesWorld) -> None:
        with on_host("late writer"):
            async with SimulatedProducer(
                world.clock, random.Random(7), bootstrap_servers=world.broker.bootstrap_servers, **PATIENCE
            ) as producer:
                for partition in range(6):
                    assert (await asyncio.wait_for(await producer.send("late", b"x", partition=partition), 30)).offset == 0

    async def main(loop: SimulatedLoop) -> None:
        world = DirectoriesWorld(
            loop, every, **{"log.flush.offset.checkpoint.interval.ms": "1000", "log.retention.check.interval.ms": "1000"}
        )
        await world.broker.start()
        await world.create()
        writers = [asyncio.create_task(world.produce(partition)) for partition in range(PARTITIONS)]
        await asyncio.sleep(2)
        for _ in range(2):
            failure = NoDescriptors(error, every)
            world.broker.disk.fail_by(failure)
            creating = asyncio.create_task(create_late(world)) if not world.broker.disk.exists(f"{FIRST}/late-0") else None
            await asyncio.sleep(10)
            failure.lift()
            assert failure.hits
            await asyncio.sleep(3)
            if creating is not None:
                await creating
        assert world.broker.fatal is None
        assert set((await world.places())[1].values()) == {0}
        assert {number: each.leader_id for number, each in (await world.metadata()).items()} == dict.fromkeys(range(PARTITIONS), 1)
        await write_late(world)
        before = {partition: len(acked) for partition, acked in world.acked.items()}
        await asyncio.sleep(2)
        assert all(len(world.acked[partition]) > before[partition] for partition in before), "everybody is served again"
        world.over = True
        await asyncio.gather(*writers)
        await world.check_acked(list(range(PARTITIONS)))
        if every % 2:
            world.broker.power_cut()
        else:
            await world.broker.stop()
        await world.broker.start()
        await world.check_acked(list(range(PARTITIONS)))
        await world.broker.stop()

    run(main)
