"""A voter among two that exist in requests only: what it answers and asks when epochs and leaders change.

Each node under comparison is a controller, voter 1 of three. Voters 2 and 3 are `FakeVoter`s on loopback, the same for both nodes but for
their ports: they grant the votes they are asked for, and keep what they are asked. All timeouts of the nodes are so long that nothing
happens by itself, so that every answer and every request of theirs follows from what was said before, epochs included.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from interop.differential.case import Case
from interop.differential.peer import PATIENCE_SECONDS, Peer
from interop.differential.raft import (
    FAKE,
    NODE,
    OTHER_DIRECTORY,
    Quorum,
    begin_request,
    end_request,
    fetch_request,
    plainly,
    quorum,
    vote_request,
)
from interop.peers import BrokerProcess, JvmBroker, OdradekBroker
from odradek.base.errors import ErrorCode
from odradek.base.ids import METADATA_TOPIC_ID, ZERO_UUID
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.headers import decode_request_header, encode_response_header
from odradek.protocol.messages.api_versions import ApiVersionsResponse
from odradek.protocol.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from odradek.protocol.messages.describe_quorum import DescribeQuorumRequest
from odradek.protocol.messages.fetch import FetchResponse
from odradek.protocol.messages.vote import VoteResponse
from odradek.protocol.registry import request_class
from odradek.protocol.schema import Message

TOPIC = "__cluster_metadata"
OTHER = 3
"""The third voter."""
HOURS_MS = "36000000"
SETTINGS = {
    "process.roles": "controller",
    "controller.quorum.election.timeout.ms": HOURS_MS,
    "controller.quorum.fetch.timeout.ms": HOURS_MS,
    "controller.quorum.election.backoff.max.ms": HOURS_MS,
    "controller.quorum.request.timeout.ms": "600000",
    "metadata.max.idle.interval.ms": "0",
}
ANSWERED = (ApiKey.API_VERSIONS, ApiKey.FETCH, ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH)
"""What a fake voter answers; of anything else it says nothing, and the sender waits."""


class FakeVoter:
    """Listens on a loopback port, answers `ANSWERED`, and keeps the votes and announcements that it is asked for in `asked`.

    It refuses fetches as one that leads nothing, so that the node stays its follower and hears nothing of a log.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked: list[Message] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            while len(size := stream.read(4)) == 4:
                frame = stream.read(struct.unpack(">i", size)[0])
                header, offset = decode_request_header(frame)
                api_key, version = ApiKey(header.api_key), header.api_version
                request = request_class(api_key).decode(frame[offset:], version)
                response = self._answer(api_key, request)
                if api_key not in (ApiKey.API_VERSIONS, ApiKey.FETCH):
                    self.asked.append(request)
                if response is not None:
                    answer = encode_response_header(api_key, version, header.correlation_id) + response.encode(version)
                    connection.sendall(struct.pack(">i", len(answer)) + answer)

    def _answer(self, api_key: ApiKey, request: Any) -> Message | None:
        if api_key == ApiKey.API_VERSIONS:
            of = ApiVersionsResponse.ApiVersion
            known = (ApiKey.FETCH_SNAPSHOT, ApiKey.END_QUORUM_EPOCH, *ANSWERED)
            ranges = [of(api_key=key, min_version=API_INFO[key].min_version, max_version=API_INFO[key].max_version) for key in known]
            return ApiVersionsResponse(api_keys=ranges)
        if api_key == ApiKey.FETCH:
            of_it = request.topics[0].partitions[0].current_leader_epoch
            leader = FetchResponse.LeaderIdAndEpoch(leader_id=-1, leader_epoch=of_it)
            refused = FetchResponse.PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=leader, records=b"")
            return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[refused])])
        if api_key == ApiKey.VOTE:
            partition = request.topics[0].partitions[0]
            granted = VoteResponse.PartitionData(leader_id=-1, leader_epoch=partition.replica_epoch, vote_granted=True)
            return VoteResponse(topics=[VoteResponse.TopicData(topic_name=TOPIC, partitions=[granted])])
        if api_key == ApiKey.BEGIN_QUORUM_EPOCH:
            partition = request.topics[0].partitions[0]
            agreed = BeginQuorumEpochResponse.PartitionData(leader_id=partition.leader_id, leader_epoch=partition.leader_epoch)
            return BeginQuorumEpochResponse(topics=[BeginQuorumEpochResponse.TopicData(topic_name=TOPIC, partitions=[agreed])])
        return None


class LoneVoter:
    """A node and its two fake fellows."""

    def __init__(self, kind: Callable[[Path], BrokerProcess], folder: Path) -> None:
        self.node = kind(folder)
        self.fakes = {number: FakeVoter(number) for number in (FAKE, OTHER)}
        voters = {NODE: self.node.controller_port, **{number: fake.port for number, fake in self.fakes.items()}}
        self.node.overrides = {
            **SETTINGS,
            "listeners": f"CONTROLLER://127.0.0.1:{self.node.controller_port}",
            "advertised.listeners": "",
            "controller.quorum.voters": ",".join(f"{number}@127.0.0.1:{port}" for number, port in voters.items()),
        }
        spellings = {str(port): f"(port of {number})" for number, port in voters.items()} | {str(self.node.data): "(folder)"}
        self.peer = Peer(self.node.name, self.node.controller_port, spellings)
        self.peer.notes["fakes"] = self.fakes

    def close(self) -> None:
        self.node.kill()
        for fake in self.fakes.values():
            fake.close()


@contextlib.contextmanager
def lone_voters(folder: Path) -> Iterator[list[Peer]]:
    """Odradek and JVM Kafka, each as the only live voter of three; launched here, waited for with `ready`."""
    voters = [
        LoneVoter(OdradekBroker, folder / "voter-odradek"),
        LoneVoter(lambda path: JvmBroker(path, heap="128m"), folder / "voter-jvm"),
    ]
    try:
        for voter in voters:
            voter.node.launch()
            voter.peer.notes["node"] = voter.node
        yield [voter.peer for voter in voters]
    finally:
        for voter in voters:
            voter.close()


def ready(peer: Peer) -> None:
    peer.notes["node"].wait_ready(180)


def asked(peer: Peer, number: int, kind: ApiKey, times: int = 1) -> list[Message]:
    """Waits until the fake voter has been asked this so often since the last time, and takes it."""
    fake: FakeVoter = peer.notes["fakes"][number]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(found := [each for each in fake.asked if kind == each.API_KEY]) < times:
        if time.monotonic() > deadline:
            return found
        time.sleep(0.005)
    fake.asked = [each for each in fake.asked if each not in found]
    return found


def story() -> Iterator[Case]:
    """One request after the other; each finds the node as the one before has left it.

    No leader is one whose address nobody knows: JVM Kafka ends at it.
    """

    def vote(name: str, version: int, epoch: int, **options: Any) -> Case:
        return Case(ApiKey.VOTE, version, name, lambda _: vote_request(version, epoch, **options))

    def begin(name: str, version: int, epoch: int, leader: int = FAKE, **options: Any) -> Case:
        def build(peer: Peer) -> Any:
            port = next(int(own) for own, shared in peer.spellings.items() if shared == f"(port of {leader if leader in (2, 3) else FAKE})")
            return begin_request(epoch, leader=leader, **{"endpoints": (("CONTROLLER", "127.0.0.1", port),), **options})

        return Case(ApiKey.BEGIN_QUORUM_EPOCH, version, name, build)

    def end(name: str, version: int, epoch: int, leader: int = FAKE, **options: Any) -> Case:
        return Case(ApiKey.END_QUORUM_EPOCH, version, name, lambda _: end_request(epoch, leader=leader, **{"endpoints": (), **options}))

    def fetch(name: str, version: int, epoch: int, offset: int = 0, **options: Any) -> Case:
        return Case(ApiKey.FETCH, version, name, lambda _: fetch_request(version, epoch, offset, **options))

    def described(name: str) -> Case:
        topic = DescribeQuorumRequest.TopicData(topic_name=TOPIC, partitions=[DescribeQuorumRequest.PartitionData(partition_index=0)])
        return Case(ApiKey.DESCRIBE_QUORUM, 2, f"after {name}", lambda _: DescribeQuorumRequest(topics=[topic]))

    def refused(name: str, epoch: int) -> Iterator[Case]:
        """What only a leader answers, in this epoch, the one before and the one after."""
        for each in (epoch - 1, epoch, epoch + 1):
            yield fetch(f"{name}, epoch {each}", 18, each)
        yield fetch(f"{name}, version 13", 13, epoch)
        yield described(name)

    # Nobody leads, and nobody has asked for a vote.
    yield from refused("at the beginning", 0)
    yield vote("a pre-vote at the beginning", 2, 0, pre_vote=True)
    yield vote("a pre-vote for the next epoch", 2, 1, pre_vote=True)
    yield from refused("a pre-vote for the next epoch", 1)
    yield vote("a vote", 1, 3)
    yield vote("the same vote again", 1, 3)
    yield vote("the same vote in version 0", 0, 3)
    yield vote("a vote for another in the same epoch", 1, 3, replica=OTHER)
    yield vote("a pre-vote for another in the same epoch", 2, 3, replica=OTHER, pre_vote=True)
    yield vote("a vote for the same with a directory", 2, 3, directories=(OTHER_DIRECTORY, ZERO_UUID))
    yield vote("a vote in an epoch that is over", 2, 2)
    yield vote("a vote of somebody unknown in a later epoch", 2, 4, replica=9)
    yield vote("a vote for this very node", 2, 5, replica=9, voter=9)
    yield vote("a vote in the later epoch that it was not asked for", 2, 5)
    yield from refused("it has voted", 5)
    # A leader comes.
    yield begin("a leader of the epoch in which it has voted", 1, 5)
    yield begin("the same leader again", 1, 5)
    yield begin("the same leader in version 0", 0, 5)
    yield begin("the same leader without endpoints", 1, 5, endpoints=())
    yield begin("the leader of an epoch that is over", 1, 4, OTHER)
    yield from refused("it follows", 5)
    yield vote("a vote in the epoch of the leader", 2, 5)
    yield vote("a pre-vote in the epoch of the leader that it has not heard", 2, 5, replica=OTHER, pre_vote=True)
    yield vote("a vote for another in the epoch of the leader", 2, 5, replica=OTHER)
    yield begin("a leader of a later epoch, meant for another voter", 1, 7, OTHER, voter=9)
    yield from refused("a leader made itself known to another voter", 7)
    yield begin("a leader of a later epoch, meant for another directory", 1, 8, OTHER, directory=OTHER_DIRECTORY)
    yield begin("a leader of a later epoch", 1, 9, OTHER)
    yield vote("a pre-vote in a later epoch", 2, 10, pre_vote=True)
    yield begin("one who is known", 1, 13, FAKE)
    yield end("the end of an epoch that is over", 1, 12)
    yield end("the end, others preferred", 1, 13, preferred=((OTHER, ZERO_UUID), (9, ZERO_UUID)))
    yield from refused("the leader has gone", 13)
    yield end("the end of an epoch that it has not heard of", 1, 15, OTHER, preferred=((FAKE, ZERO_UUID), (OTHER, ZERO_UUID)))
    yield from refused("a leader that it had not heard of has gone", 15)
    yield begin("the last leader", 1, 16)
    # It is asked to stand, and wins.
    yield end("the end, and it is preferred", 1, 16)
    yield from led(17)


def led(epoch: int) -> Iterator[Case]:
    """The node is about to lead this epoch."""

    def leading(peer: Peer) -> None:
        for number in (FAKE, OTHER):
            peer.notes[number] = [*asked(peer, number, ApiKey.VOTE, 2), *asked(peer, number, ApiKey.BEGIN_QUORUM_EPOCH)]

    for number in (FAKE, OTHER):
        yield Case(
            ApiKey.DESCRIBE_QUORUM,
            0,
            f"and what voter {number} was asked",
            lambda _: DescribeQuorumRequest(topics=[]),
            before=leading if number == FAKE else None,
            after=lambda peer, answer, number=number: setattr(answer, "topics", peer.notes[number]),
        )
    seen: dict[str, Quorum] = {}

    def look(peer: Peer) -> Quorum:
        seen[peer.name] = quorum(peer)
        return seen[peer.name]

    def commit(peer: Peer) -> None:
        """A voter fetches until all is committed that there is; the node's own registration may still follow."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while look(peer).high_watermark != seen[peer.name].end or seen[peer.name].end < 2:
            assert time.monotonic() < deadline, seen[peer.name]
            peer.call(ApiKey.FETCH, 18, fetch_request(18, epoch, seen[peer.name].end, last_epoch=epoch))

    def fetch(name: str, offset: Callable[[Quorum], int], later: int = 0, *, committed: bool = False, **options: Any) -> Case:
        """`committed`: first all is, and what of it is told is compared by its sign."""

        def compared(peer: Peer, answer: Any) -> None:
            plainly(peer, answer, seen[peer.name])
            partition = answer.responses[0].partitions[0]
            if committed and partition.high_watermark != -1:
                partition.high_watermark = "some"

        return Case(
            ApiKey.FETCH,
            18,
            name,
            lambda peer: fetch_request(18, epoch + later, offset(look(peer)), **options),
            before=commit if committed else None,
            after=compared,
        )

    topic = DescribeQuorumRequest.TopicData(topic_name=TOPIC, partitions=[DescribeQuorumRequest.PartitionData(partition_index=0)])

    def described(name: str) -> Case:
        return Case(ApiKey.DESCRIBE_QUORUM, 2, f"after {name}", lambda _: DescribeQuorumRequest(topics=[topic]))

    yield described("it leads")
    yield fetch("nothing is committed yet", lambda _: 0, replica=-1)
    yield fetch("nothing is committed yet, as a voter", lambda _: 0)
    yield described("a voter fetched from the beginning")
    yield fetch("beyond the end", lambda now: now.end + 3, last_epoch=epoch)
    yield fetch("of a later epoch", lambda _: 0, 1)
    yield fetch("an observer reads what is committed", lambda _: 0, replica=8, directory=OTHER_DIRECTORY, committed=True)
    yield fetch("a consumer reads what is committed", lambda _: 0, replica=-1, committed=True)
    yield fetch("a voter reads what is committed", lambda _: 0, committed=True)
    yield described("a voter and an observer have fetched")
    yield Case(ApiKey.VOTE, 2, "a vote in its epoch", lambda _: vote_request(2, epoch, last=(0, 0)))
    yield Case(ApiKey.VOTE, 2, "a pre-vote in its epoch", lambda _: vote_request(2, epoch, last=(epoch, 2**40), pre_vote=True))
    yield Case(ApiKey.VOTE, 2, "a pre-vote in a later epoch", lambda _: vote_request(2, epoch + 2, last=(epoch, 2**40), pre_vote=True))
    yield described("a pre-vote in a later epoch")
