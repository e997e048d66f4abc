"""A broker that is stopped for longer than a session: members that sent their heartbeats in time stay, without a rebalance."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar, cast
from uuid import uuid4

import pytest

from interop.peers import OdradekBroker
from odradek.base.errors import ErrorCode
from odradek.protocol.framing import frame
from odradek.protocol.headers import decode_response_header, encode_request_header
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.protocol.registry import response_class
from odradek.protocol.schema import Message

R = TypeVar("R", bound=Message)

SESSION_MS = 2_000
STOP_S = 3.0
_NOT_YET = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR})
_OVERRIDES = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
}


class Member:
    """A connection of one member. Requests may be sent first and answered later."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.member_id = ""

    def send(self, request: Message, version: int) -> None:
        self.socket.sendall(frame(encode_request_header(request.API_KEY, version, 0, "member"), request.encode(version)))

    def receive(self, answer: type[R], version: int) -> R:
        (size,) = struct.unpack(">i", self._exactly(4))
        body = self._exactly(size)
        _, offset = decode_response_header(body, answer.API_KEY, version)
        return cast(R, response_class(answer.API_KEY).decode(memoryview(body)[offset:], version))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            assert piece, "the broker has closed the connection"
            data += piece
        return data

    def ask(self, request: Message, answer: type[R], version: int) -> R:
        self.send(request, version)
        return self.receive(answer, version)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekBroker]:
    broker = OdradekBroker(tmp_path_factory.mktemp("stalled"), _OVERRIDES)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


@pytest.fixture
def members(broker: OdradekBroker) -> Iterator[list[Member]]:
    members = [Member(broker.port), Member(broker.port)]
    yield members
    for member in members:
        member.socket.close()


@contextmanager
def stopped(broker: OdradekBroker) -> Iterator[None]:
    """The broker stands still for longer than a session, the time within included."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        _, status = os.waitpid(broker.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        yield
        time.sleep(STOP_S)
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def await_coordinator(member: Member, group: str) -> None:
    def served() -> bool:
        found = member.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), FindCoordinatorResponse, 4)
        beat = member.ask(HeartbeatRequest(group_id=group, generation_id=0, member_id="nobody"), HeartbeatResponse, 4)
        return not found.coordinators[0].error_code and beat.error_code == ErrorCode.UNKNOWN_MEMBER_ID

    deadline = time.monotonic() + 60
    while not served():
        assert time.monotonic() < deadline, "there is no coordinator"


def join(group: str, member: Member) -> None:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=30_000,
        member_id=member.member_id,
        protocol_type="consumer",
        protocols=[protocol],
    )
    member.send(request, 3)


def test_members_of_a_classic_group_stay(broker: OdradekBroker, members: list[Member]) -> None:
    group = f"classic-{uuid4()}"
    await_coordinator(members[0], group)
    leader, follower = members
    join(group, leader)
    leader.member_id = leader.receive(JoinGroupResponse, 3).member_id
    join(group, follower)
    while True:  # the leader's second join may come in before the follower's first
        join(group, leader)
        joined = leader.receive(JoinGroupResponse, 3)
        assert joined.error_code == ErrorCode.NONE
        if len(joined.members) == 2:
            break
    answer = follower.receive(JoinGroupResponse, 3)
    follower.member_id = answer.member_id
    assert answer.generation_id == joined.generation_id
    generation = joined.generation_id
    for member in members:
        assert member.ask(sync(group, generation, member, members), SyncGroupResponse, 3).error_code == ErrorCode.NONE

    with stopped(broker):
        for member in members:
            member.send(HeartbeatRequest(group_id=group, generation_id=generation, member_id=member.member_id), 3)
    assert [member.receive(HeartbeatResponse, 3).error_code for member in members] == [ErrorCode.NONE, ErrorCode.NONE]
    for member in members:
        again = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member.member_id)
        assert member.ask(again, HeartbeatResponse, 3).error_code == ErrorCode.NONE


def sync(group: str, generation: int, member: Member, members: list[Member]) -> SyncGroupRequest:
    assignments = [SyncGroupRequest.SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"all") for each in members]
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member.member_id,
        assignments=assignments if member is members[0] else [],
    )


def test_members_of_a_consumer_group_stay(broker: OdradekBroker, members: list[Member]) -> None:
    group = f"consumer-{uuid4()}"
    await_coordinator(members[0], group)
    for member in members:
        member.member_id = str(uuid4())

    def heartbeat(member: Member, epoch: int) -> ConsumerGroupHeartbeatResponse:
        first = epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member.member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=30_000 if first else -1,
            subscribed_topic_names=["nothing"] if first else None,
            topic_partitions=[] if first else None,
        )
        answer = member.ask(request, ConsumerGroupHeartbeatResponse, 1)
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        return answer

    epochs = [heartbeat(member, 0).member_epoch for member in members]
    while epochs[0] != epochs[1]:
        epochs = [heartbeat(member, known).member_epoch for member, known in zip(members, epochs, strict=True)]
    epoch = epochs[0]

    with stopped(broker):
        for member in members:
            member.send(ConsumerGroupHeartbeatRequest(group_id=group, member_id=member.member_id, member_epoch=epoch), 1)
    answers = [member.receive(ConsumerGroupHeartbeatResponse, 1) for member in members]
    assert [(answer.error_code, answer.member_epoch) for answer in answers] == [(ErrorCode.NONE, epoch)] * 2
    assert [heartbeat(member, epoch).member_epoch for member in members] == [epoch, epoch]
