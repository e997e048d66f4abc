"""Requests of the metadata quorum to a node that leads it: none of them makes the node follow somebody else.

What makes it (a vote in a later epoch, a new leader) is in `quorum.py`. Nobody says here that another node leads this epoch: that ends the
process of JVM Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from interop.differential.case import Case
from interop.differential.peer import Peer
from interop.peers import CLUSTER_ID
from odradek.base.ids import METADATA_TOPIC_ID, ZERO_UUID
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from odradek.protocol.messages.describe_quorum import DescribeQuorumRequest
from odradek.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from odradek.protocol.messages.vote import VoteRequest
from odradek.records.batch import iter_headers

TOPIC = "__cluster_metadata"
OTHER_DIRECTORY = UUID(int=0xDAD0_0000_0000_0001)
OTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
NODE = 1
"""The id of the nodes under comparison."""
FAKE = 2
"""Another voter's, or an observer's."""

TOPIC_SHAPES: dict[str, list[tuple[str, list[int]]]] = {
    "no topics": [],
    "no partitions": [(TOPIC, [])],
    "two partitions": [(TOPIC, [0, 1])],
    "partition twice": [(TOPIC, [0, 0])],
    "two topics": [(TOPIC, [0]), ("plain", [0])],
    "topic twice": [(TOPIC, [0]), (TOPIC, [0])],
    "other partition": [(TOPIC, [1])],
    "negative partition": [(TOPIC, [-1])],
    "other topic": [("plain", [0])],
    "topic without a name": [("", [0])],
}
"""What a request about the metadata log should not name."""
WHERE_IT_IS = [(TOPIC, [0])]

CLUSTERS: dict[str, str | None] = {"another cluster": OTHER_CLUSTER, "no cluster": None, "empty cluster": ""}


class Quorum(NamedTuple):
    """What the leader says of itself."""

    epoch: int
    high_watermark: int
    end: int


def quorum(peer: Peer) -> Quorum:
    """What the node, which must lead, says of the quorum."""
    topic = DescribeQuorumRequest.TopicData(topic_name=TOPIC, partitions=[DescribeQuorumRequest.PartitionData(partition_index=0)])
    partition = peer.call(ApiKey.DESCRIBE_QUORUM, 2, DescribeQuorumRequest(topics=[topic])).topics[0].partitions[0]
    assert partition.error_code == 0, partition
    end = next(replica.log_end_offset for replica in partition.current_voters if replica.replica_id == NODE)
    return Quorum(partition.leader_epoch, partition.high_watermark, end)


def _shaped(of: Any, topics: list[tuple[str, list[int]]], partition: Callable[[int], Any]) -> list[Any]:
    """The topics of a request, with what it says of each partition."""
    return [of.TopicData(topic_name=name, partitions=[partition(index) for index in partitions]) for name, partitions in topics]


def _reached(of: Any, endpoints: tuple[tuple[str, str, int], ...]) -> list[Any]:
    return [of.LeaderEndpoint(name=name, host=host, port=port) for name, host, port in endpoints]


def vote_request(
    version: int,
    epoch: int,
    *,
    last: tuple[int, int] = (0, 0),
    replica: int = FAKE,
    voter: int = NODE,
    directories: tuple[UUID, UUID] = (ZERO_UUID, ZERO_UUID),
    pre_vote: bool = False,
    cluster: str | None = CLUSTER_ID,
    topics: list[tuple[str, list[int]]] = WHERE_IT_IS,
) -> VoteRequest:
    """`last`: epoch and offset of the candidate's log end; `directories`: of the candidate and of the voter asked."""
    of = VoteRequest.PartitionData
    options: dict[str, Any] = {"pre_vote": pre_vote} if version >= 2 else {}

    def partition(index: int) -> VoteRequest.PartitionData:
        return of(
            partition_index=index,
            replica_epoch=epoch,
            replica_id=replica,
            replica_directory_id=directories[0],
            voter_directory_id=directories[1],
            last_offset_epoch=last[0],
            last_offset=last[1],
            **options,
        )

    return VoteRequest(cluster_id=cluster, voter_id=voter, topics=_shaped(VoteRequest, topics, partition))


def vote(version: int) -> Iterator[Case]:
    def case(name: str, ago: int = 0, last: tuple[int, int] = (0, 0), **options: Any) -> Case:
        def build(peer: Peer) -> VoteRequest:
            epoch = quorum(peer).epoch
            return vote_request(version, epoch - ago, last=(epoch + last[0] if last[0] else 0, last[1]), **options)

        return Case(ApiKey.VOTE, version, name, build)

    for kind in (False, True) if version >= 2 else (False,):
        ask = "a pre-vote" if kind else "a vote"
        yield case(f"{ask} for this epoch", pre_vote=kind)
        yield case(f"{ask} for an earlier epoch", 1, pre_vote=kind)
        yield case(f"{ask} for a negative epoch", 100, pre_vote=kind)
        yield case(f"{ask}, the log longer", last=(-1, 2**40), pre_vote=kind)
        yield case(f"{ask}, the last epoch this one", last=(0, 5), pre_vote=kind)
        yield case(f"{ask}, the last epoch later", last=(3, 5), pre_vote=kind)
        yield case(f"{ask}, the last epoch negative", last=(-100, 5), pre_vote=kind)
        yield case(f"{ask}, the last offset negative", last=(0, -1), pre_vote=kind)
        for replica in (NODE, -1, 9):
            yield case(f"{ask} for replica {replica}", replica=replica, pre_vote=kind)
        yield case(f"{ask} of a candidate's directory", directories=(OTHER_DIRECTORY, ZERO_UUID), pre_vote=kind)
        for voter in (-1, 9, FAKE):
            yield case(f"{ask} of voter {voter}", voter=voter, pre_vote=kind)
        yield case(f"{ask} of another directory", directories=(ZERO_UUID, OTHER_DIRECTORY), pre_vote=kind)
        yield case(f"{ask} of another directory, earlier epoch", 1, directories=(ZERO_UUID, OTHER_DIRECTORY), pre_vote=kind)
        yield case(f"{ask} of another voter, earlier epoch", 1, voter=9, pre_vote=kind)
    for name, cluster in CLUSTERS.items():
        yield case(name, cluster=cluster)
    for name, shape in TOPIC_SHAPES.items():
        yield case(name, topics=shape)


def begin_request(
    epoch: int,
    *,
    leader: int = FAKE,
    voter: int = NODE,
    directory: UUID = ZERO_UUID,
    endpoints: tuple[tuple[str, str, int], ...] = (("CONTROLLER", "127.0.0.1", 9),),
    cluster: str | None = CLUSTER_ID,
    topics: list[tuple[str, list[int]]] = WHERE_IT_IS,
) -> BeginQuorumEpochRequest:
    of = BeginQuorumEpochRequest

    def partition(index: int) -> BeginQuorumEpochRequest.PartitionData:
        return of.PartitionData(partition_index=index, voter_directory_id=directory, leader_id=leader, leader_epoch=epoch)

    shape, reached = _shaped(of, topics, partition), _reached(of, endpoints)
    return of(cluster_id=cluster, voter_id=voter, topics=shape, leader_endpoints=reached)


def _of_epochs(case: Callable[..., Case]) -> Iterator[Case]:
    """Leaders of this epoch and of others; `case` takes how many epochs ago, and the leader."""
    yield case("an earlier epoch", 1)
    yield case("a negative epoch", 100)
    for leader in (NODE, -1, 9):
        yield case(f"leader {leader} of an earlier epoch", 1, leader=leader)
    for leader in (NODE, -1):
        yield case(f"leader {leader} of this epoch", leader=leader)


def begin_quorum_epoch(version: int) -> Iterator[Case]:
    def case(name: str, ago: int = 0, **options: Any) -> Case:
        return Case(ApiKey.BEGIN_QUORUM_EPOCH, version, name, lambda peer: begin_request(quorum(peer).epoch - ago, **options))

    yield from _of_epochs(case)
    for voter in (-1, 9, FAKE):
        yield case(f"to voter {voter}", leader=NODE, voter=voter)
    yield case("to another directory", leader=NODE, directory=OTHER_DIRECTORY)
    yield case("to another directory, earlier epoch", 1, directory=OTHER_DIRECTORY)
    yield case("without endpoints", leader=NODE, endpoints=())
    yield case("with an endpoint of another listener", leader=NODE, endpoints=(("PLAINTEXT", "127.0.0.1", 9),))
    for name, cluster in CLUSTERS.items():
        yield case(name, 1, cluster=cluster)
    for name, shape in TOPIC_SHAPES.items():
        yield case(name, 1, topics=shape)


def end_request(
    epoch: int,
    *,
    leader: int = FAKE,
    preferred: tuple[tuple[int, UUID], ...] = ((NODE, ZERO_UUID),),
    endpoints: tuple[tuple[str, str, int], ...] = (("CONTROLLER", "127.0.0.1", 9),),
    cluster: str | None = CLUSTER_ID,
    topics: list[tuple[str, list[int]]] = WHERE_IT_IS,
) -> EndQuorumEpochRequest:
    of = EndQuorumEpochRequest

    def partition(index: int) -> EndQuorumEpochRequest.PartitionData:
        return of.PartitionData(
            partition_index=index,
            leader_id=leader,
            leader_epoch=epoch,
            preferred_successors=[node for node, _ in preferred],
            preferred_candidates=[of.ReplicaInfo(candidate_id=node, candidate_directory_id=where) for node, where in preferred],
        )

    return of(cluster_id=cluster, topics=_shaped(of, topics, partition), leader_endpoints=_reached(of, endpoints))


def end_quorum_epoch(version: int) -> Iterator[Case]:
    def case(name: str, ago: int = 0, **options: Any) -> Case:
        return Case(ApiKey.END_QUORUM_EPOCH, version, name, lambda peer: end_request(quorum(peer).epoch - ago, **options))

    yield from _of_epochs(case)
    yield case("nobody preferred", leader=NODE, preferred=())
    yield case("others preferred", leader=NODE, preferred=((FAKE, ZERO_UUID), (9, OTHER_DIRECTORY)))
    yield case("without endpoints", leader=NODE, endpoints=())
    for name, cluster in CLUSTERS.items():
        yield case(name, 1, cluster=cluster)
    for name, shape in TOPIC_SHAPES.items():
        yield case(name, 1, topics=shape)


def fetch_request(
    version: int,
    epoch: int,
    offset: int,
    *,
    last_epoch: int = 0,
    replica: int = FAKE,
    directory: UUID = ZERO_UUID,
    max_wait_ms: int = 0,
    high_watermark: int = 2**63 - 1,
    cluster: str | None = CLUSTER_ID,
    topics: list[tuple[str, list[int]]] = WHERE_IT_IS,
    topic_id: UUID = METADATA_TOPIC_ID,
    **options: Any,
) -> FetchRequest:
    """Fields that the version does not have are left out."""

    def partition(index: int) -> FetchRequest.FetchPartition:
        fields: dict[str, Any] = {"current_leader_epoch": epoch} if version >= 9 else {}
        fields |= {"last_fetched_epoch": last_epoch} if version >= 12 else {}
        fields |= {"replica_directory_id": directory} if version >= 17 else {}
        fields |= {"high_watermark": high_watermark} if version >= 18 else {}
        return FetchRequest.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=2**20, **fields)

    def topic_of(name: str, partitions: list[int]) -> FetchRequest.FetchTopic:
        naming: dict[str, Any] = {"topic_id": topic_id if name == TOPIC else OTHER_DIRECTORY} if version >= 13 else {"topic": name}
        return FetchRequest.FetchTopic(partitions=[partition(index) for index in partitions], **naming)

    if version >= 12:
        options["cluster_id"] = cluster
    if version >= 15:
        options["replica_state"] = FetchRequest.ReplicaState(replica_id=replica)
    else:
        options["replica_id"] = replica
    return FetchRequest(max_wait_ms=max_wait_ms, topics=[topic_of(name, partitions) for name, partitions in topics], **options)


def plainly(peer: Peer, answer: Any, now: Quorum) -> None:
    """Puts into a Fetch answer what must be true of its offsets and records: two logs of metadata are never equal."""
    offsets = {now.end: "the end", now.high_watermark: "the high watermark"}
    ends = {end: "the end of a snapshot" for end, _, _ in snapshots(peer)}
    for partition in (partition for topic in answer.responses for partition in topic.partitions):
        partition.high_watermark = offsets.get(partition.high_watermark, partition.high_watermark)
        partition.diverging_epoch.end_offset = offsets.get(partition.diverging_epoch.end_offset, partition.diverging_epoch.end_offset)
        partition.snapshot_id.end_offset = ends.get(partition.snapshot_id.end_offset, partition.snapshot_id.end_offset)
        data = memoryview(bytes(partition.records or b""))
        headers = list(iter_headers(data))
        if headers:
            whole = headers[-1][0] + headers[-1][1].size == len(data)
            partition.records = None
            partition.aborted_transactions = f"batches{'' if whole else ', the last one cut'}, {partition.aborted_transactions}"


def fetch(version: int) -> Iterator[Case]:
    def case(name: str, offset: Callable[[Quorum], int] = lambda _: 0, later: int = 0, last: int = 0, **options: Any) -> Case:
        """`later`: by how much the epoch is not the leader's; `last`: the same of the last fetched epoch, 0 for epoch 0."""
        seen: dict[str, Quorum] = {}

        def build(peer: Peer) -> FetchRequest:
            now = seen[peer.name] = quorum(peer)
            last_epoch = now.epoch + last if last else 0
            return fetch_request(version, now.epoch + later, offset(now), **{"last_epoch": last_epoch, **options})

        return Case(ApiKey.FETCH, version, name, build, after=lambda peer, answer: plainly(peer, answer, seen[peer.name]))

    def end(now: Quorum) -> int:
        return now.end

    yield case("an earlier epoch, nobody's cluster", later=-1, replica=-1, cluster=None)
    yield case("from the beginning")
    yield case("from the beginning, as a consumer", replica=-1)
    yield case("from the beginning, as the debugging consumer", replica=-2)
    yield case("from the end", end, last_epoch=1)
    yield case("from the end, as the leader itself", end, last_epoch=1, replica=NODE)
    yield case("from the end, as a consumer", end, last_epoch=1, replica=-1)
    yield case("from the middle of the last batch, if it has one", lambda now: now.end - 1, last_epoch=1)
    yield case("beyond the end", lambda now: now.end + 10, last_epoch=1)
    yield case("far beyond the end", lambda _: 2**62, last_epoch=1)
    yield case("before the beginning", lambda _: -1)
    yield case("long before the beginning", lambda _: -(2**62))
    for later in (-1, 1, 100, -100):
        yield case(f"epoch {later:+}", later=later)
        yield case(f"epoch {later:+} from beyond the end", lambda now: now.end + 10, later=later)
    yield case("no epoch", later=-2)
    for last in (-1, -2, -3, 1, 5):
        yield case(f"last epoch {last:+}", lambda _: 1, last=last)
        yield case(f"last epoch {last:+} from the end", end, last=last)
    yield case("last epoch 0 from the end", end)
    for replica in (9, 2**31 - 1, -3, -(2**31)):
        yield case(f"replica {replica}", replica=replica)
    yield case("replica with a directory", directory=OTHER_DIRECTORY)
    for high_watermark in (-1, 0, 2**62) if version >= 18 else ():
        yield case(f"high watermark {high_watermark}", end, last_epoch=1, high_watermark=high_watermark, max_wait_ms=1_000)
    yield case("a short wait", end, last_epoch=1, max_wait_ms=30)
    yield case("a negative wait", end, last_epoch=1, max_wait_ms=-1)
    for size in (0, 1, -1, 100):
        yield case(f"at most {size} bytes", lambda now: now.end - 1, last_epoch=1, max_bytes=size)
    yield case("at least more than there is", lambda now: now.end - 1, last_epoch=1, min_bytes=2**30)
    yield case("read committed", lambda now: now.end - 1, last_epoch=1, isolation_level=1)
    yield case("isolation level 5", lambda now: now.end - 1, last_epoch=1, isolation_level=5)
    if version >= 7:
        yield case("a new session", end, last_epoch=1, session_epoch=0)
        yield case("a session nobody knows", session_id=77, session_epoch=3)
        yield case("forgotten topics", forgotten_topics_data=[FetchRequest.ForgottenTopic(partitions=[0])])
    if version >= 11:
        yield case("with a rack", rack_id="a")
    if version >= 12:
        for name, cluster in CLUSTERS.items():
            yield case(name, cluster=cluster)
    if version >= 13:
        yield case("no topic id", topic_id=ZERO_UUID)
        yield case("unknown topic id", topic_id=OTHER_DIRECTORY)
    for name, shape in TOPIC_SHAPES.items():
        yield case(name, topics=shape)


def _folder(peer: Peer) -> Path:
    """Of the metadata log."""
    return Path(next(own for own, shared in peer.spellings.items() if shared == "(folder)")) / f"{TOPIC}-0"


def snapshots(peer: Peer) -> list[tuple[int, int, int]]:
    """(end offset, epoch, size) of the snapshots that lie in the node's folder, the oldest first; not what formatting has left."""
    found = [(path.name.partition(".")[0].split("-"), path) for path in sorted(_folder(peer).glob("*.checkpoint"))]
    return [(int(offset), int(epoch), path.stat().st_size) for (offset, epoch), path in found if int(offset)]


def echoed(answer: Any, topic: str, index: int, snapshot: tuple[int, int]) -> None:
    """Puts "as asked" for the topic, partition and snapshot that the answer repeats."""
    for about in answer.topics:
        about.name = "as asked" if about.name == topic else about.name
        for partition in about.partitions:
            partition.index = "as asked" if partition.index == index else partition.index
            if (partition.snapshot_id.end_offset, partition.snapshot_id.epoch) == snapshot:
                partition.snapshot_id.end_offset = partition.snapshot_id.epoch = "as asked"


def of_file(peer: Peer, answer: Any, wanted: tuple[int, int, int]) -> None:
    """Puts into a FetchSnapshot answer what must be true of it: two snapshots are never equal. `wanted`: end offset, epoch and size."""
    offset, epoch, size = wanted
    content = (_folder(peer) / f"{offset:020}-{epoch:010}.checkpoint").read_bytes()
    for partition in (partition for topic in answer.topics for partition in topic.partitions if not partition.error_code):
        piece = bytes(partition.unaligned_records or b"")
        right = content[partition.position : partition.position + len(piece)] == piece
        partition.unaligned_records = None
        whole = "all that is left" if len(piece) == size - partition.position else f"{len(piece)} bytes"
        partition.size = f"{'all' if partition.size == size else partition.size}; {whole}, {'right' if right else 'wrong'}"
        partition.position = "near the end" if partition.position == size - 10 else partition.position


def snapshot_request(
    epoch: int,
    snapshot: tuple[int, int],
    position: int = 0,
    *,
    replica: int = FAKE,
    directory: UUID = ZERO_UUID,
    max_bytes: int = 2**31 - 1,
    cluster: str | None = CLUSTER_ID,
    topics: list[tuple[str, list[int]]] = WHERE_IT_IS,
) -> FetchSnapshotRequest:
    """`snapshot`: its end offset and epoch."""
    return FetchSnapshotRequest(
        cluster_id=cluster,
        replica_id=replica,
        max_bytes=max_bytes,
        topics=[
            FetchSnapshotRequest.TopicSnapshot(
                name=topic,
                partitions=[
                    FetchSnapshotRequest.PartitionSnapshot(
                        partition=index,
                        current_leader_epoch=epoch,
                        snapshot_id=FetchSnapshotRequest.SnapshotId(end_offset=snapshot[0], epoch=snapshot[1]),
                        position=position,
                        replica_directory_id=directory,
                    )
                    for index in partitions
                ],
            )
            for topic, partitions in topics
        ],
    )


def fetch_snapshot(version: int) -> Iterator[Case]:
    def case(name: str, later: int = 0, snapshot: tuple[int, int] = (3, 1), position: int = 0, **options: Any) -> Case:
        topics = options.get("topics", WHERE_IT_IS)
        return Case(
            ApiKey.FETCH_SNAPSHOT,
            version,
            name,
            lambda peer: snapshot_request(quorum(peer).epoch + later, snapshot, position, **options),
            after=lambda _, answer: echoed(answer, topics[0][0], topics[0][1][0], snapshot),
        )

    def of_the_last(name: str, start: Callable[[int], int] = lambda _: 0, **options: Any) -> Case:
        """A piece of the last snapshot that there is, compared with its file; `start` makes its position of the size."""

        last: dict[str, tuple[int, int, int]] = {}

        def build(peer: Peer) -> FetchSnapshotRequest:
            offset, epoch, size = last[peer.name] = snapshots(peer)[-1]
            return snapshot_request(quorum(peer).epoch, (offset, epoch), start(size), **options)

        def compared(peer: Peer, answer: Any) -> None:
            of_file(peer, answer, last[peer.name])
            echoed(answer, TOPIC, 0, last[peer.name][:2])

        return Case(ApiKey.FETCH_SNAPSHOT, version, name, build, after=compared)

    for name, cluster in CLUSTERS.items():
        yield case(name, cluster=cluster)
    yield of_the_last("the last one")
    yield of_the_last("the last one as a consumer", replica=-1)
    yield of_the_last("the last one with a directory", directory=OTHER_DIRECTORY)
    yield of_the_last("the first 100 bytes", max_bytes=100)
    yield of_the_last("100 bytes from 57", lambda _: 57, max_bytes=100)
    yield of_the_last("the last bytes", lambda size: size - 10)
    yield of_the_last("no bytes", max_bytes=0)
    yield of_the_last("the end", lambda size: size)
    yield of_the_last("beyond the end", lambda size: size + 1)
    yield of_the_last("before the beginning", lambda _: -1)
    yield case("a snapshot that is not there")
    for later in (-1, 1, 100, -100):
        yield case(f"epoch {later:+}", later)
    for snapshot in ((0, 0), (0, 1), (-1, -1), (2**62, 1), (3, -1), (-5, 1)):
        yield case(f"snapshot {snapshot}", snapshot=snapshot)
    for position in (1, -1, 2**62):
        yield case(f"position {position}", position=position)
    for replica in (-1, NODE, 9):
        yield case(f"replica {replica}", replica=replica)
    for size in (0, -1):
        yield case(f"at most {size} bytes", max_bytes=size)
    for name, shape in TOPIC_SHAPES.items():
        if all(partitions for _, partitions in shape) and shape:  # without topics or partitions it ends the process of JVM Kafka
            yield case(name, topics=shape)


RAFT_CASES: dict[ApiKey, Callable[[int], Iterator[Case]]] = {
    ApiKey.VOTE: vote,
    ApiKey.BEGIN_QUORUM_EPOCH: begin_quorum_epoch,
    ApiKey.END_QUORUM_EPOCH: end_quorum_epoch,
    ApiKey.FETCH: fetch,
    ApiKey.FETCH_SNAPSHOT: fetch_snapshot,
}
