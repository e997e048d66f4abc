"""Cases of the group coordinator: classic groups and committed offsets. Every case has a group of its own, made by its `before`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from interop.differential.case import Case
from interop.differential.peer import Peer
from interop.waiting import eventually, until
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.messages.offset_delete import OffsetDeleteRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest

SUBSCRIPTION = b"\0\0\0\0\0\1\0\5plain\xff\xff\xff\xff"
UNKNOWN_ID = UUID("12345678-1234-4234-8234-123456789abc")
SESSION_MS, REBALANCE_MS = 1_800_000, 1_800_000
"""Long enough that nothing happens by itself."""

Known = tuple[str, int]
"""(member id, generation)"""

_members: dict[tuple[str, str], Known] = {}
"""(broker, group) -> its only member."""


def wait_for_groups(peer: Peer) -> None:
    """Until the coordinator of every group is there."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])

    def are_there() -> bool:
        if peer.call(ApiKey.FIND_COORDINATOR, 4, request).coordinators[0].error_code:
            return False
        return not peer.call(ApiKey.LIST_GROUPS, 0, ListGroupsRequest()).error_code

    until(are_there, f"a group coordinator of {peer.name}", 60)


def join_request(group: str, member: str = "", **options: Any) -> JoinGroupRequest:
    protocols = options.pop("protocols", (("range", SUBSCRIPTION),))
    values: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
    }
    return JoinGroupRequest(**(values | options))


def call(peer: Peer, api_key: ApiKey, version: int, request: Any) -> Any:
    """Tried again while the group's partition is still being loaded."""

    def attempt() -> Any:
        answer = peer.call(api_key, version, request)
        return None if answer.error_code in (14, 15, 16) else answer

    return eventually(attempt, f"{peer.name} to load the partition of a group", 30)


def joined(peer: Peer, group: str, **options: Any) -> Known:
    """A group with one member, which has joined and not synced."""
    answer = call(peer, ApiKey.JOIN_GROUP, 5, join_request(group, **options))
    if answer.error_code == 79:
        answer = call(peer, ApiKey.JOIN_GROUP, 5, join_request(group, answer.member_id, **options))
    assert answer.error_code == 0, (peer.name, answer)
    peer.spellings[answer.member_id] = f"(member of {group})"
    _members[(peer.name, group)] = answer.member_id, answer.generation_id
    return answer.member_id, answer.generation_id


def stable(peer: Peer, group: str, **options: Any) -> Known:
    """A group with one member, which has its assignment."""
    member, generation = joined(peer, group, **options)
    assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=b"mine")
    request = SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        group_instance_id=options.get("group_instance_id"),
        assignments=[assignment],
    )
    answer = peer.call(ApiKey.SYNC_GROUP, 3, request)
    assert answer.error_code == 0, (peer.name, answer)
    return member, generation


def emptied(peer: Peer, group: str, **options: Any) -> None:
    """A group whose only member has left."""
    member, _ = stable(peer, group, **options)
    peer.call(ApiKey.LEAVE_GROUP, 3, LeaveGroupRequest(group_id=group, members=[LeaveGroupRequest.MemberIdentity(member_id=member)]))


def known(peer: Peer, group: str) -> Known:
    return _members[(peer.name, group)]


def commit_request(peer: Peer, group: str, version: int, *, member: str = "", generation: int = -1, **options: Any) -> OffsetCommitRequest:
    topics = options.pop("topics", {"plain": (0,)})
    metadata = options.pop("metadata", "note")
    topic, partition = OffsetCommitRequest.OffsetCommitRequestTopic, OffsetCommitRequest.OffsetCommitRequestPartition
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[
            topic(
                name=name,
                topic_id=peer.topic_ids.get(name, UNKNOWN_ID),
                partitions=[partition(partition_index=number, committed_offset=7, committed_metadata=metadata) for number in numbers],
            )
            for name, numbers in topics.items()
        ],
        **options,
    )


def committed(peer: Peer, group: str, **options: Any) -> None:
    """A group without members that has an offset for plain-0."""
    request = commit_request(peer, group, 8, **options)

    def loaded() -> bool:
        return peer.call(ApiKey.OFFSET_COMMIT, 8, request).topics[0].partitions[0].error_code not in (14, 15, 16)

    until(loaded, f"{peer.name} to load the partition of {group}", 30)


def _named(api_key: ApiKey, version: int) -> Callable[[str], str]:
    return lambda name: f"{api_key.name.lower()}-{version}-{name.replace(' ', '-')}"


def join_group(version: int) -> Iterator[Case]:
    group_of = _named(ApiKey.JOIN_GROUP, version)

    def remember(peer: Peer, answer: Any) -> None:
        if answer.member_id:
            peer.spellings.setdefault(answer.member_id, "(a member)")

    def case(name: str, before: Callable[[Peer, str], object] | None = None, *, member: str | None = "", **options: Any) -> Case:
        group = options.pop("group_id", group_of(name))

        def build(peer: Peer) -> JoinGroupRequest:
            request = join_request(group, known(peer, group)[0] if member is None else member, **options)
            if version < 5:
                request.group_instance_id = None
            return request

        return Case(ApiKey.JOIN_GROUP, version, name, build, before=None if before is None else lambda p: before(p, group), after=remember)

    # First, so that the broken bodies made of it change nothing.
    yield case("no group id", group_id="")
    yield case("new member")
    yield case("session too short", session_timeout_ms=5_999)
    yield case("session too long", session_timeout_ms=1_800_001)
    yield case("unknown member", member="nobody")
    yield case("unknown member of a group", stable, member="nobody")
    yield case("no protocols", protocols=())
    yield case("no protocol type", protocol_type="")
    yield case("other protocols", stable, protocols=(("other", b""),))
    yield case("other protocol type", stable, protocol_type="connect")
    yield case("connect", protocol_type="connect", protocols=(("sessioned", b"x"),))
    yield case("the leader again", stable, member=None)
    yield case("again before the sync", joined, member=None)
    yield case("again before the sync with more protocols", joined, member=None, protocols=(("range", SUBSCRIPTION), ("more", b"")))
    yield case("after leaving", emptied, member=None)
    if version >= 5:
        static = {"group_instance_id": "static"}
        yield case("static member", **static)
        yield case("static member comes back", lambda p, g: stable(p, g, **static), **static)
        yield case("static member with its id", lambda p, g: stable(p, g, **static), member=None, **static)
        yield case("fenced static member", lambda p, g: stable(p, g, **static), member="former", **static)
        yield case("unknown static member", stable, member=None, group_instance_id="nobody")


def sync_group(version: int) -> Iterator[Case]:
    group_of = _named(ApiKey.SYNC_GROUP, version)

    def case(name: str, before: Callable[[Peer, str], object] | None = joined, **options: Any) -> Case:
        group = options.pop("group_id", group_of(name))

        def build(peer: Peer) -> SyncGroupRequest:
            member, generation = known(peer, group) if before is not None else ("nobody", 1)
            values: dict[str, Any] = {"group_id": group, "generation_id": generation, "member_id": member}
            if version >= 5:
                values |= {"protocol_type": "consumer", "protocol_name": "range"}
            values["assignments"] = [SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=b"mine")]
            return SyncGroupRequest(**(values | options))

        return Case(ApiKey.SYNC_GROUP, version, name, build, before=None if before is None else lambda p: before(p, group))

    yield case("leader")
    yield case("leader without assignments", assignments=[])
    yield case("again", stable)
    yield case("no group id", None, group_id="")
    yield case("unknown group", None)
    yield case("unknown member", member_id="nobody")
    yield case("old generation", generation_id=0)
    yield case("after leaving", emptied)
    if version >= 3:
        yield case("unknown instance", group_instance_id="nobody")
    if version >= 5:
        yield case("no protocol", protocol_type=None, protocol_name=None)
        yield case("other protocol", protocol_name="other")
        yield case("other protocol type", protocol_type="connect")


def heartbeat(version: int) -> Iterator[Case]:
    group_of = _named(ApiKey.HEARTBEAT, version)

    def case(name: str, before: Callable[[Peer, str], object] | None = stable, **options: Any) -> Case:
        group = options.pop("group_id", group_of(name))

        def build(peer: Peer) -> HeartbeatRequest:
            member, generation = known(peer, group) if before is not None else ("nobody", 1)
            return HeartbeatRequest(**({"group_id": group, "generation_id": generation, "member_id": member} | options))

        return Case(ApiKey.HEARTBEAT, version, name, build, before=None if before is None else lambda p: before(p, group))

    yield case("stable")
    yield case("before the sync", joined)
    yield case("no group id", None, group_id="")
    yield case("unknown group", None)
    yield case("unknown member", member_id="nobody")
    yield case("old generation", generation_id=0)
    yield case("after leaving", emptied)
    if version >= 3:
        yield case("unknown instance", group_instance_id="nobody")


def leave_group(version: int) -> Iterator[Case]:
    group_of = _named(ApiKey.LEAVE_GROUP, version)

    def case(
        name: str, *members: tuple[str | None, str | None], before: Callable[[Peer, str], object] | None = stable, **more: Any
    ) -> Case:
        group = more.get("group_id", group_of(name))

        def build(peer: Peer) -> LeaveGroupRequest:
            ids = [(known(peer, group)[0] if member is None else member, instance) for member, instance in members]
            if version < 3:
                return LeaveGroupRequest(group_id=group, member_id=ids[0][0])
            identity = LeaveGroupRequest.MemberIdentity
            return LeaveGroupRequest(group_id=group, members=[identity(member_id=m, group_instance_id=i) for m, i in ids])

        return Case(ApiKey.LEAVE_GROUP, version, name, build, before=None if before is None else lambda p: before(p, group))

    yield case("member", (None, None))
    yield case("no group id", ("x", None), before=None, group_id="")
    yield case("unknown group", ("x", None), before=None)
    yield case("unknown member", ("nobody", None))
    yield case("before the sync", (None, None), before=joined)
    if version >= 3:
        yield case("nobody at all")
        yield case("several", ("nobody", None), (None, None), ("", "unknown"), (None, None))
        yield case("by instance", ("", "static"), before=lambda p, g: stable(p, g, group_instance_id="static"))
        yield case("fenced instance", ("former", "static"), before=lambda p, g: stable(p, g, group_instance_id="static"))
        yield case("several of an unknown group", ("x", None), ("", "y"), before=None)


def offset_commit(version: int) -> Iterator[Case]:
    group_of = _named(ApiKey.OFFSET_COMMIT, version)

    def case(name: str, before: Callable[[Peer, str], object] | None = None, *, as_member: bool = False, **options: Any) -> Case:
        group = options.pop("group_id", group_of(name))

        def build(peer: Peer) -> OffsetCommitRequest:
            member, generation = known(peer, group) if as_member else (options.get("member", ""), options.get("generation", -1))
            rest = {key: value for key, value in options.items() if key not in ("member", "generation")}
            if as_member and "generation" in options:
                generation = options["generation"]
            return commit_request(peer, group, version, member=member, generation=generation, **rest)

        return Case(ApiKey.OFFSET_COMMIT, version, name, build, before=None if before is None else lambda p: before(p, group))

    yield case("simple consumer")
    yield case("no group id", group_id="")
    yield case("member", stable, as_member=True)
    yield case("old generation", stable, as_member=True, generation=0)
    yield case("without a generation", stable, as_member=True, generation=-1)
    yield case("unknown member", stable, member="nobody", generation=1)
    yield case("simple consumer of a group in use", stable)
    yield case("before the sync", joined, as_member=True)
    yield case("member of no group", member="nobody", generation=1)
    yield case("to an empty group", emptied)
    yield case("metadata at the limit", metadata="x" * 4096)
    yield case("metadata too long", committed, metadata="x" * 4097)
    yield case("null metadata", metadata=None)
    yield case("unknown partition", topics={"plain": (0, 5)})
    yield case("unknown topic", topics={"nowhere": (0,)})
    yield case("known and unknown topics", topics={"plain": (0,), "nowhere": (0,), "three": (0, 1, 2)})
    yield case("no topics", topics={})
    yield case("no partitions", topics={"plain": ()})
    if version <= 4:
        yield case("retention time", retention_time_ms=60_000)
    if version >= 7:
        yield case("unknown instance", stable, as_member=True, group_instance_id="nobody")


def offset_fetch(version: int) -> Iterator[Case]:
    group_of = _named(ApiKey.OFFSET_FETCH, version)

    def case(
        name: str, topics: dict[str, tuple[int, ...]] | None, before: Callable[[Peer, str], object] | None = committed, **more: Any
    ) -> Case:
        group = more.pop("group_id", group_of(name))

        def build(peer: Peer) -> OffsetFetchRequest:
            if version < 8:
                topic = OffsetFetchRequest.OffsetFetchRequestTopic
                old = None if topics is None else [topic(name=name, partition_indexes=list(each)) for name, each in topics.items()]
                return OffsetFetchRequest(group_id=group, topics=old, **more)
            topic_of = OffsetFetchRequest.OffsetFetchRequestTopics
            wanted = None
            if topics is not None:
                wanted = [
                    topic_of(name=name, topic_id=peer.topic_ids.get(name, UNKNOWN_ID), partition_indexes=list(each))
                    for name, each in topics.items()
                ]
            return OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=wanted)], **more)

        return Case(ApiKey.OFFSET_FETCH, version, name, build, before=None if before is None else lambda p: before(p, group))

    yield case("committed", {"plain": (0,)})
    yield case("not committed", {"plain": (1,), "three": (0, 1)})
    yield case("unknown topic", {"nowhere": (0,), "plain": (0,)})
    yield case("unknown group", {"plain": (0,)}, None)
    yield case("no group id", {"plain": (0,)}, None, group_id="")
    yield case("no topics", {})
    yield case("no partitions", {"plain": ()})
    if version >= 2:
        yield case("everything", None)
        yield case("everything of an unknown group", None, None)
    if version >= 7:
        yield case("stable", {"plain": (0,)}, require_stable=True)
        yield case("everything stable", None, require_stable=True)


def offset_delete(version: int) -> Iterator[Case]:
    group_of = _named(ApiKey.OFFSET_DELETE, version)

    def case(name: str, topics: dict[str, tuple[int, ...]], before: Callable[[Peer, str], object] | None = committed, **more: Any) -> Case:
        group = more.pop("group_id", group_of(name))
        topic, partition = OffsetDeleteRequest.OffsetDeleteRequestTopic, OffsetDeleteRequest.OffsetDeleteRequestPartition
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[topic(name=n, partitions=[partition(partition_index=each) for each in numbers]) for n, numbers in topics.items()],
        )
        return Case(ApiKey.OFFSET_DELETE, version, name, lambda _: request, before=None if before is None else lambda p: before(p, group))

    yield case("committed", {"plain": (0,)})
    yield case("not committed", {"three": (0,)})
    yield case("unknown topic", {"nowhere": (0,)})
    yield case("unknown partition", {"plain": (0, 9)})
    yield case("unknown partition only", {"plain": (9,)})
    yield case("known and unknown topics", {"plain": (0,), "nowhere": (0,)})
    yield case("unknown group", {"plain": (0,)}, None)
    yield case("no group id", {"plain": (0,)}, None, group_id="")
    yield case("no topics", {})
    yield case("no topics of an unknown group", {}, None)
    yield case("subscribed", {"plain": (0,), "three": (0,)}, stable)
    yield case("connect", {"plain": (0,)}, lambda p, g: stable(p, g, protocol_type="connect"))
    yield case("an emptied group", {"plain": (0,)}, emptied)


def describe_groups(version: int) -> Iterator[Case]:
    group_of = _named(ApiKey.DESCRIBE_GROUPS, version)

    def case(name: str, before: Callable[[Peer, str], object] | None, *groups: str, **options: Any) -> Case:
        group = group_of(name)
        request = DescribeGroupsRequest(groups=list(groups) or [group], **options)
        return Case(ApiKey.DESCRIBE_GROUPS, version, name, lambda _: request, before=None if before is None else lambda p: before(p, group))

    yield case("stable", stable)
    yield case("before the sync", joined)
    yield case("emptied", emptied)
    yield case("offsets only", committed)
    yield case("unknown", None)
    yield case("empty id", None, "")
    if version >= 4:
        yield case("static", lambda p, g: stable(p, g, group_instance_id="static"))
    if version >= 3:
        yield case("with operations", stable, include_authorized_operations=True)
        yield case("unknown with operations", None, include_authorized_operations=True)


def list_groups(version: int) -> Iterator[Case]:
    def case(name: str, **options: Any) -> Case:
        return Case(ApiKey.LIST_GROUPS, version, name, lambda _: ListGroupsRequest(**options), before=lambda p: committed(p, "listed"))

    yield case("all")
    if version >= 4:
        yield case("stable", states_filter=["Stable"])
        yield case("lower case", states_filter=["stable", "EMPTY"])
        yield case("unknown state", states_filter=["Lost"])
    if version >= 5:
        yield case("classic", types_filter=["classic"])
        yield case("upper case", types_filter=["CLASSIC"])
        yield case("consumer", types_filter=["consumer"])
        yield case("unknown type", types_filter=["odd"])


def delete_groups(version: int) -> Iterator[Case]:
    group_of = _named(ApiKey.DELETE_GROUPS, version)

    def case(name: str, before: Callable[[Peer, str], object] | None, *groups: str) -> Case:
        group = group_of(name)
        request = DeleteGroupsRequest(groups_names=list(groups) or [group])
        return Case(ApiKey.DELETE_GROUPS, version, name, lambda _: request, before=None if before is None else lambda p: before(p, group))

    yield case("offsets only", committed)
    yield case("stable", stable)
    yield case("emptied", emptied)
    yield case("unknown", None)
    yield case("empty id", None, "")
    yield case("several", committed, group_of("several"), "unknown", group_of("several"))


GROUP_CASES: dict[ApiKey, Callable[[int], Iterator[Case]]] = {
    ApiKey.OFFSET_COMMIT: offset_commit,
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.JOIN_GROUP: join_group,
    ApiKey.HEARTBEAT: heartbeat,
    ApiKey.LEAVE_GROUP: leave_group,
    ApiKey.SYNC_GROUP: sync_group,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.DELETE_GROUPS: delete_groups,
    ApiKey.OFFSET_DELETE: offset_delete,
}
