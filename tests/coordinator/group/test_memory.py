"""Members that take more and more get a defined error, and nobody else is harmed."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.memory import GROUP_BYTES, MEMBER_BYTES, PENDING_BYTES, MemberMemory
from tests.coordinator.group.consumer.support import ConsumerWorld

KIB = 1024


def small(limit: int) -> tuple[ConsumerWorld, MemberMemory]:
    world = ConsumerWorld({"t": 4})
    memory = MemberMemory(lambda: world.clock.now_s, limit)
    memory.count = lambda: sum(world.runtime.each_active(lambda shard: shard.member_bytes()))
    world.shard._memory = memory
    return world, memory


def join(world: ConsumerWorld, group_id: str, size: int, member: str = "", **options: Any) -> ErrorCode:
    reply = world.join(member, group_id=group_id, protocols=[("range", bytes(size))], **options)
    world.clock.advance_s(0.001)
    return ErrorCode(reply.result().error_code) if reply.done else ErrorCode.NONE


def test_what_members_send_is_bounded_over_all_groups() -> None:
    world, _ = small(1000 * KIB)
    codes = [join(world, f"g{number}", 100 * KIB, version=3) for number in range(20)]
    assert codes[:9] == [ErrorCode.NONE] * 9
    assert codes[9:] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 11
    assert 900 * KIB < world.shard.member_bytes() < 1000 * KIB
    assert world.code("m", topics=["x" * 200]) is ErrorCode.NONE, "small ones still fit in"
    world.clock.advance_s(400)
    assert world.shard.member_bytes() < 100 * KIB, "their sessions have ended"
    assert join(world, "late", 100 * KIB, version=3) is ErrorCode.NONE


def test_groups_that_nobody_comes_back_to_are_bounded() -> None:
    each = GROUP_BYTES + PENDING_BYTES
    world, _ = small(100 * each)
    codes = [join(world, f"g{number}", 0) for number in range(200)]
    assert ErrorCode.COORDINATOR_NOT_AVAILABLE in codes
    assert len(world.shard.groups) <= 100
    assert codes.count(ErrorCode.MEMBER_ID_REQUIRED) == len(world.shard.groups)


def test_members_that_are_there_go_on_and_do_not_grow() -> None:
    world, memory = small(200 * KIB)
    world.beat("a")
    world.beat("b", topics=["x" * 249, "t"])
    world.clock.advance_s(2)
    assert world.code("a", world.member("a").member_epoch, topics=["t"], owned={}) is ErrorCode.NONE
    memory.limit = world.shard.member_bytes()
    assert world.code("c") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (
        world.code("a", world.member("a").member_epoch, topics=[str(number) * 249 for number in range(10)])
        is ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    assert world.code("a", world.member("a").member_epoch) is ErrorCode.NONE
    assert set(world.consumers.members) == {"a", "b"}


LONG = "x" * 30_000


@pytest.mark.parametrize(
    "text",
    [{"client_id": LONG}, {"instance": LONG}, {"rack_id": LONG}, {"member": LONG}, {"group_id": LONG}],
    ids=lambda text: next(iter(text)),
)
def test_each_text_of_a_heartbeat_counts(text: dict[str, str]) -> None:
    """A member that subscribes by a pattern alone counts, too."""
    world, _ = small(200 * KIB)
    codes: list[ErrorCode] = []
    for number in range(20):
        own = {"member": f"m{number}", "group_id": f"g{number}"} | {name: f"{number}{value}" for name, value in text.items()}
        codes.append(world.code(**{"regex": "t", **own}))
    assert codes[:5] == [ErrorCode.NONE] * 5
    assert codes[7:] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 13
    assert 150_000 < world.shard.member_bytes() <= 200 * KIB


@pytest.mark.parametrize("text", ["client_id", "instance", "group_id"])
@pytest.mark.parametrize("version", [3, 9])
def test_each_text_of_a_join_counts(text: str, version: int) -> None:
    world, _ = small(200 * KIB)
    codes = [join(world, **{"group_id": f"g{number}", "size": 0, "version": version, text: f"{number}{LONG}"}) for number in range(20)]
    assert ErrorCode.COORDINATOR_NOT_AVAILABLE not in codes[:3]
    assert codes[7:] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 13
    assert 80_000 < world.shard.member_bytes() <= 201 * KIB, "the random part of member ids is not counted beforehand"


def test_counting_does_not_take_the_loops_time() -> None:
    now, counted = 0.0, 0
    memory = MemberMemory(lambda: now, 10 * MEMBER_BYTES)

    def count() -> int:
        nonlocal now, counted
        now += 0.1
        counted += 1
        return 10 * MEMBER_BYTES

    memory.count = count
    for _ in range(10):
        memory.admit(MEMBER_BYTES)
    for _ in range(1000):
        now += 0.01
        with pytest.raises(KafkaError) as refused:
            memory.admit(MEMBER_BYTES)
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert counted * 0.1 < 0.05 * now


def test_what_was_loaded_counts() -> None:
    world, memory = small(200 * KIB)
    for number in range(5):
        world.beat(f"m{number}", topics=["x" * 200])
    taken = world.shard.member_bytes()
    memory.most, memory.limit = 0, taken + MEMBER_BYTES
    world.shard._memory = memory
    world.shard.on_loaded(world.cluster.image)
    assert memory.most == taken
    assert world.code("late", topics=["x" * 200]) is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", [3, 9])
def test_offsets_alone_do_not_count(version: int) -> None:
    world, _ = small(5 * KIB)
    for number in range(50):
        assert world.commit(1, group_id=f"stored-{number}").result().topics[0].partitions[0].error_code == 0
    assert join(world, "g", 10, version=version) in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)
