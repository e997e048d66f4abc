"""What a request repeats does not make its answer longer than a few times: every list of every API's samples is repeated."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from interop.differential.access_samples import G1, GONE1, GONE2, NOT_ASKED, SAMPLES, T1, T2, Facts
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, ProtocolError
from odradek.base.repeats import MOST_REPEATS, answered
from odradek.handlers.table import APIS, Api
from odradek.network.chunks import join_chunks
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.headers import encode_request_header
from odradek.protocol.registry import request_class
from odradek.protocol.schema import Message, Struct
from tests.handlers.access_world import LISTENERS, AccessWorld, in_world

TIMES = 400
LARGE = 100_000
"""Bytes of what a group's member subscribes and was assigned."""
BYTES_PER_BYTE = 16
"""What an answer may grow by for each byte of a repeated name: an echo of the name with an error code and offsets."""

READING = ("DESCRIBE", "LIST", "OFFSET_FETCH")


def lists_of(struct: Struct, path: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Every list in a request that has elements, with its path."""
    for field in type(struct).FIELDS:
        value = getattr(struct, field.name)
        where = f"{path}.{field.name}"
        if isinstance(value, list) and value:
            yield where, value
            for each in value:
                if isinstance(each, Struct):
                    yield from lists_of(each, where)
        elif isinstance(value, Struct):
            yield from lists_of(value, where)


def repeated(request: Message) -> Iterator[tuple[str, Message]]:
    """Copies of a request with one list repeated in each."""
    for number, (path, _) in enumerate(lists_of(request)):
        other = copy.deepcopy(request)
        _, found = list(lists_of(other))[number]
        found *= TIMES
        yield path, other


async def fill_with_much(world: AccessWorld) -> None:
    """A group with a large member, offsets with long metadata, a producer: whatever a short name can stand for."""
    message: Any = request_class(ApiKey.OFFSET_COMMIT)
    partition = message.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="m" * 4000)
    topics = [message.OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in (T1, T2)]
    committed = await world.ask(ApiKey.OFFSET_COMMIT, 9, message(group_id=G1, topics=topics))
    assert not committed.topics[0].partitions[0].error_code
    join: Any = request_class(ApiKey.JOIN_GROUP)
    protocol = join.JoinGroupRequestProtocol(name="range", metadata=b"m" * LARGE)

    def joining(member_id: str) -> Message:
        request: Message = join(
            group_id=G1,
            session_timeout_ms=1_800_000,
            rebalance_timeout_ms=1_800_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        return request

    first = await world.ask(ApiKey.JOIN_GROUP, 9, joining(""))
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = await world.ask(ApiKey.JOIN_GROUP, 9, joining(first.member_id))
    assert not joined.error_code


async def size_of(world: AccessWorld, scope: str, api_key: ApiKey, version: int, request: Message) -> int:
    """Bytes of the answer; 0 where the connection is closed instead."""
    assert world.node.broker is not None
    frame = encode_request_header(api_key, version, 1, "world") + request.encode(version)
    dispatcher = world.node.broker.node.dispatcher
    try:
        _, answer = dispatcher.handle_embedded(frame, scope=scope, listener_name=LISTENERS[scope], peer_host="10.0.0.7")
        chunks = await answer if isinstance(answer, Deferred) else answer
    except ProtocolError:
        return 0
    return len(join_chunks(chunks or ()))


async def grown(world: AccessWorld, scope: str, api: Api, version: int) -> list[str]:
    """The lists of an API's samples whose repeats make its answer too long."""
    faults: list[str] = []
    for topic in (GONE1, GONE2):
        await world.create(topic)
    for name, request in SAMPLES[scope][api.api_key](version, Facts(world.topic_ids, principal="ANONYMOUS")):
        once = await size_of(world, scope, api.api_key, version, request)
        asked = len(request.encode(version))
        for path, other in repeated(request):
            size = await size_of(world, scope, api.api_key, version, other)
            more = len(other.encode(version)) - asked
            if size > (MOST_REPEATS + 2) * once + BYTES_PER_BYTE * more:
                faults.append(f"{api.api_key.name} v{version}, {name}{path}: {once} -> {size} bytes for {more} more")
    return faults


@pytest.mark.timeout(240)
def test_no_answer_grows_with_what_its_request_repeats() -> None:
    async def story(world: AccessWorld) -> list[str]:
        await fill_with_much(world)
        faults: list[str] = []
        served = {(scope, api.api_key): api for api in APIS for scope in api.deciders}
        asked = [key for key in served if key[1] in SAMPLES[key[0]] and key[1] not in NOT_ASKED]
        # What only reads comes first, before members leave and topics go.
        for scope, api_key in sorted(asked, key=lambda key: not any(word in key[1].name for word in READING)):
            api = served[scope, api_key]
            for version in sorted({api.min_version, api.max_version}):
                faults += await grown(world, scope, api, version)
        return faults

    assert in_world(story) == []


def test_the_first_repeats_are_answered_where_they_stand() -> None:
    assert answered(["a", "b", "a", "c", "b"]) == ["a", "b", "a", "c", "b"]
    assert answered(["a"] * 100 + ["b"] + ["a"]) == ["a"] * (MOST_REPEATS + 1) + ["b"]
    assert answered(["a", "b"] * 100) == (["a", "b"] * 100)[: 2 + MOST_REPEATS]


def test_a_few_repeats_are_answered_as_in_kafka() -> None:
    async def story(world: AccessWorld) -> list[int]:
        message: Any = request_class(ApiKey.DESCRIBE_CONFIGS)
        resource = message.DescribeConfigsResource(resource_type=2, resource_name=T1, configuration_keys=None)
        answer = await world.ask(ApiKey.DESCRIBE_CONFIGS, 4, message(resources=[resource] * 3))
        fetch: Any = request_class(ApiKey.OFFSET_FETCH)
        group = fetch.OffsetFetchRequestGroup(group_id=G1, topics=None)
        offsets = await world.ask(ApiKey.OFFSET_FETCH, 9, fetch(groups=[group] * 3))
        return [len(result.configs) for result in answer.results] + [len(group.topics) for group in offsets.groups]

    sizes = in_world(story)
    assert len(sizes) == 6
    assert len(set(sizes[:3])) == 1
    assert sizes[3:] == [2, 2, 2]
