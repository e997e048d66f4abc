"""Cases of consumer groups (KIP-848). Every case has a group of its own, made by its `before`; "three" has three partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from interop.differential.case import Case
from interop.differential.groups import call, commit_request, committed, emptied, stable
from interop.differential.peer import Peer
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest

Before = Callable[[Peer, str], None]
THREE = b"\0\0\0\0\0\1\0\5three\xff\xff\xff\xff"
TIMEOUT_MS = 1_800_000


def heartbeat_request(peer: Peer, group: str, member: str, epoch: int, **options: Any) -> ConsumerGroupHeartbeatRequest:
    owned = options.pop("owned", {} if epoch == 0 else None)
    values: dict[str, Any] = {"group_id": group, "member_id": member, "member_epoch": epoch}
    if epoch == 0:
        values |= {"rebalance_timeout_ms": TIMEOUT_MS, "subscribed_topic_names": ["three"]}
    if owned is not None:
        partitions = ConsumerGroupHeartbeatRequest.TopicPartitions
        values["topic_partitions"] = [partitions(topic_id=peer.topic_ids[name], partitions=numbers) for name, numbers in owned.items()]
    return ConsumerGroupHeartbeatRequest(**(values | options))


def beat(peer: Peer, group: str, member: str = "a", epoch: int = 0, **options: Any) -> Any:
    answer = call(peer, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, heartbeat_request(peer, group, member, epoch, **options))
    assert answer.error_code == 0, (peer.name, answer)
    return answer


def alone(peer: Peer, group: str) -> None:
    """Member a, in epoch 2, has everything."""
    beat(peer, group)


def static(peer: Peer, group: str) -> None:
    """Member a, of instance i, in epoch 2, has everything."""
    beat(peer, group, instance_id="i")


def away(peer: Peer, group: str) -> None:
    """The static member has left for a while."""
    static(peer, group)
    beat(peer, group, "a", -2, instance_id="i")


def joined_by_another(peer: Peer, group: str) -> None:
    """Member a has everything, in epoch 2, b waits for its share in epoch 3."""
    alone(peer, group)
    beat(peer, group, "b")


def told_more(peer: Peer, group: str) -> None:
    """Member a has given up what was b's, and b was told so, in the epoch in which it waited."""
    joined_by_another(peer, group)
    beat(peer, group, epoch=2, owned={"three": [0]})
    answer = beat(peer, group, "b", 3)
    assert answer.member_epoch == 3, (peer.name, answer)
    assert answer.assignment is not None, (peer.name, answer)


def left(peer: Peer, group: str) -> None:
    """Nobody is there any more."""
    alone(peer, group)
    beat(peer, group, "a", -1)


def classic(peer: Peer, group: str) -> None:
    stable(peer, group, protocols=(("range", THREE),))


def connect(peer: Peer, group: str) -> None:
    stable(peer, group, protocol_type="connect")


def heartbeats(version: int) -> Iterator[Case]:
    key = ApiKey.CONSUMER_GROUP_HEARTBEAT

    def case(name: str, before: Before | None = alone, *, member: str = "a", epoch: int = 2, **options: Any) -> Case:
        group = options.pop("group_id", f"consumer-{version}-{name.replace(' ', '-')}")

        def build(peer: Peer) -> ConsumerGroupHeartbeatRequest:
            return heartbeat_request(peer, group, member, epoch, **options)

        def remember(peer: Peer, answer: Any) -> None:
            if answer.member_id and len(answer.member_id) > 3:
                peer.spellings.setdefault(answer.member_id, "(a member)")

        return Case(key, version, name, build, before=None if before is None else lambda p: before(p, group), after=remember)

    yield case("no group id", None, group_id="", epoch=0)
    yield case("first", None, epoch=0)
    yield case("without an id", None, epoch=0, member="")
    yield case("again", epoch=0)
    yield case("after offsets", committed, epoch=0)
    yield case("another", member="b", epoch=0)
    yield case("unknown topic", None, epoch=0, subscribed_topic_names=["nowhere"])
    yield case("no topics", None, epoch=0, subscribed_topic_names=[])
    yield case("no subscription", None, epoch=0, subscribed_topic_names=None)
    yield case("no timeout", None, epoch=0, rebalance_timeout_ms=-1)
    yield case("joins with partitions", None, epoch=0, owned={"three": [0]})
    yield case("joins without saying what it owns", None, epoch=0, topic_partitions=None)
    yield case("range", None, epoch=0, server_assignor="range")
    yield case("unknown assignor", None, epoch=0, server_assignor="odd")
    yield case("empty instance", None, epoch=0, instance_id="")
    yield case("empty rack", None, epoch=0, rack_id="")
    yield case("alive")
    yield case("alive and full", rebalance_timeout_ms=TIMEOUT_MS, subscribed_topic_names=["three"], owned={"three": [0, 1, 2]})
    yield case("other topics", subscribed_topic_names=["plain"])
    yield case("other topics, given up", subscribed_topic_names=["plain"], owned={})
    yield case("later epoch", epoch=3)
    yield case("earlier epoch", epoch=1)
    yield case("epoch of nonsense", epoch=-3)
    yield case("unknown member", member="nobody")
    yield case("unknown group", None)
    yield case("told to give up", joined_by_another)
    yield case("gives up", joined_by_another, owned={"three": [0]})
    full: dict[str, Any] = {"rebalance_timeout_ms": TIMEOUT_MS, "subscribed_topic_names": ["three"], "owned": {}}
    yield case("says everything before it was given anything, of what it was told", joined_by_another, **full)
    yield case("waits", joined_by_another, member="b", epoch=3)
    yield case("goes on after a lost answer", told_more, member="b", epoch=3)
    yield case("says what it has after a lost answer", told_more, member="b", epoch=3, owned={})
    yield case("says everything after a lost answer", told_more, member="b", epoch=3, **full)
    yield case("one epoch behind", joined_by_another, member="b", epoch=0)
    yield case("leaves", epoch=-1)
    yield case("leaves unknown", member="nobody", epoch=-1)
    yield case("leaves for a while without an instance", epoch=-2)
    yield case("after the last has left", left, epoch=0)
    yield case("static", None, epoch=0, instance_id="i")
    yield case("static goes on", static, instance_id="i")
    yield case("static unknown", instance_id="i")
    yield case("static fenced", static, member="b", instance_id="i")
    yield case("static place taken", static, member="b", epoch=0, instance_id="i")
    yield case("static leaves for a while", static, epoch=-2, instance_id="i")
    yield case("static comes back", away, member="b", epoch=0, instance_id="i")
    yield case("static leaves for good", static, epoch=-1, instance_id="i")
    yield case("upgrades a classic group", classic, epoch=0)
    yield case("a group that is not of consumers", connect, epoch=0)
    yield case("an emptied classic group", emptied, epoch=0)
    yield case("goes on in a classic group", classic)
    if version >= 1:
        yield case("pattern", None, epoch=0, subscribed_topic_names=None, subscribed_topic_regex="thr.*")
        yield case("broken pattern", None, epoch=0, subscribed_topic_names=None, subscribed_topic_regex="(")
        yield case("empty pattern", None, epoch=0, subscribed_topic_regex="")
        yield from _others()


def describe(version: int) -> Iterator[Case]:
    def case(name: str, before: Before | None, *groups: str, **options: Any) -> Case:
        group = f"described-{version}-{name.replace(' ', '-')}"
        request = ConsumerGroupDescribeRequest(group_ids=list(groups) or [group], **options)
        before_it = None if before is None else lambda p: before(p, group)
        return Case(ApiKey.CONSUMER_GROUP_DESCRIBE, version, name, lambda _: request, before=before_it)

    yield case("alone", alone)
    yield case("static", static)
    yield case("away", away)
    yield case("reconciling", joined_by_another)
    yield case("left", left)
    yield case("classic", classic)
    yield case("unknown", None)
    yield case("empty id", None, "")
    yield case("with operations", alone, include_authorized_operations=True)


def _others() -> Iterator[Case]:
    """What other APIs say of consumer groups."""

    def case(key: ApiKey, version: int, name: str, request: Callable[[Peer, str], Any], before: Before = alone, **options: Any) -> Case:
        group = f"{key.name.lower()}-{version}-{name.replace(' ', '-')}-848"
        return Case(key, version, f"consumer group: {name}", lambda p: request(p, group), before=lambda p: before(p, group), **options)

    for version in (8, 9):
        for name, epoch in (("its epoch", 2), ("later epoch", 3), ("earlier epoch", 1), ("no epoch", -1)):
            yield case(
                ApiKey.OFFSET_COMMIT,
                version,
                name,
                lambda p, g, v=version, e=epoch: commit_request(p, g, v, member="a", generation=e, topics={"three": (0,)}),  # type: ignore[misc]
            )
    for version in (5, 6):
        yield case(ApiKey.DESCRIBE_GROUPS, version, "described as classic", lambda _, g: DescribeGroupsRequest(groups=[g]))
    yield case(ApiKey.DELETE_GROUPS, 2, "with members", lambda _, g: DeleteGroupsRequest(groups_names=[g]))
    yield case(ApiKey.DELETE_GROUPS, 2, "without members", lambda _, g: DeleteGroupsRequest(groups_names=[g]), left)
    yield case(ApiKey.HEARTBEAT, 4, "by the classic protocol", lambda _, g: HeartbeatRequest(group_id=g, member_id="a", generation_id=2))
    yield case(
        ApiKey.SYNC_GROUP,
        5,
        "by the classic protocol",
        lambda _, g: SyncGroupRequest(group_id=g, member_id="a", generation_id=2, protocol_type="consumer", protocol_name="range"),
    )
    for name in ("nobody", "a"):
        leaving = [LeaveGroupRequest.MemberIdentity(member_id=name)]
        yield case(ApiKey.LEAVE_GROUP, 5, f"leaves {name}", lambda _, g, m=leaving: LeaveGroupRequest(group_id=g, members=m))  # type: ignore[misc]
    for state in ("Stable", "reconciling", "EMPTY"):
        listed = ListGroupsRequest(states_filter=[state], types_filter=["Consumer"])
        yield case(ApiKey.LIST_GROUPS, 5, f"listed {state}", lambda _, g, r=listed: r)  # type: ignore[misc]
    for name, of, epoch in (
        ("its", "a", 2),
        ("a later", "a", 3),
        ("no", "a", -1),
        ("nobody's", "nobody", 2),
        ("no member and no", None, -1),
    ):
        yield case(ApiKey.OFFSET_FETCH, 9, f"{name} epoch", lambda _, g, m=of, e=epoch: _fetch(g, m, e))  # type: ignore[misc]
    for name, protocol_type, protocol, before in (
        ("joins", "consumer", "range", alone),
        ("joins an empty one", "consumer", "range", left),
        ("joins with another type", "connect", "range", alone),
    ):
        yield case(
            ApiKey.JOIN_GROUP,
            9,
            name,
            lambda _, g, t=protocol_type, n=protocol: _join(g, t, n),  # type: ignore[misc]
            before,
            after=lambda p, answer: p.spellings.setdefault(answer.member_id, "(a member)") if answer.member_id else None,
        )


def _fetch(group: str, member: str | None, epoch: int) -> OffsetFetchRequest:
    asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, member_id=member, member_epoch=epoch, topics=None)
    return OffsetFetchRequest(groups=[asked])


def _join(group: str, protocol_type: str, name: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=TIMEOUT_MS,
        rebalance_timeout_ms=TIMEOUT_MS,
        member_id="known",
        protocol_type=protocol_type,
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=THREE)],
    )


CONSUMER_GROUP_CASES: dict[ApiKey, Callable[[int], Iterator[Case]]] = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: heartbeats,
    ApiKey.CONSUMER_GROUP_DESCRIBE: describe,
}
