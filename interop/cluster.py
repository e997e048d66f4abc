"""Cluster of several processes of JVM Kafka and Odradek, in any mixture, on loopback.

    with MixedCluster(folder, {1: Member("odradek"), 2: Member("jvm"), 3: Member("jvm")}) as cluster:
        cluster.nodes[cluster.leader()].kill()

Each node formats its directory with its own tool and defaults, as users do. When JVM Kafka's controllers start first, the cluster has
feature levels that Odradek does not support; Odradek's nodes have to work with them.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import NamedTuple
from uuid import UUID

from interop.peers import BrokerProcess, JvmBroker, OdradekBroker
from interop.tools import JvmTools
from interop.waiting import eventually
from odradek.base.ids import uuid_to_string
from odradek.protocol.headers import decode_response_header, encode_request_header
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from odradek.protocol.registry import response_class
from odradek.protocol.schema import Message

SMALL: dict[str, str] = {
    "log.cleaner.dedupe.buffer.size": "20000000",
    "log.cleaner.io.buffer.size": "65536",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "auto.create.topics.enable": "false",
}
"""Keys for several nodes on one machine."""

DUMP = "org.apache.kafka.tools.DumpLogSegments"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"


class Member(NamedTuple):
    """Node of a mixed cluster. `kind` is "odradek" or "jvm"; `roles` is the value of process.roles."""

    kind: str
    roles: str = "broker,controller"

    @property
    def votes(self) -> bool:
        return "controller" in self.roles

    @property
    def serves(self) -> bool:
        return "broker" in self.roles


class QuorumView(NamedTuple):
    """Response of a node to DescribeQuorum."""

    leader: int
    epoch: int
    high_watermark: int
    ends: Mapping[int, int]
    """Replica -> its log end offset, as known to the leader."""


class MixedCluster:
    """Cluster of processes; `nodes` by id. Nothing runs before `start`."""

    def __init__(
        self,
        folder: Path,
        members: Mapping[int, Member],
        *,
        dynamic: bool = False,
        settings: Mapping[str, str] | None = None,
        as_shipped: bool = False,
    ) -> None:
        """Prepare the nodes.

        With `dynamic`, the voters are in the log (kraft.version 1) instead of controller.quorum.voters. With `as_shipped`, JVM nodes have
        the heap and options of Kafka's start script, for measurements.
        """
        self.members = dict(members)
        self.nodes: dict[int, BrokerProcess] = {}
        self.dynamic = dynamic
        self.as_shipped = as_shipped
        for node, member in members.items():
            self.nodes[node] = self._process(member.kind, folder / str(node))
        self.voters = [node for node, member in members.items() if member.votes]
        reached = {node: f"{self.nodes[node].host}:{self.nodes[node].controller_port}" for node in self.voters}
        for node, member in members.items():
            process = self.nodes[node]
            listeners = [f"PLAINTEXT://{process.bootstrap}"] * member.serves
            listeners += [f"CONTROLLER://{reached[node]}"] if member.votes else []
            process.overrides = {
                **SMALL,
                "node.id": str(node),
                "process.roles": member.roles,
                "listeners": ",".join(listeners),
                "advertised.listeners": f"PLAINTEXT://{process.bootstrap}" if member.serves else "",
                "controller.quorum.voters": "" if dynamic else ",".join(f"{voter}@{at}" for voter, at in reached.items()),
                "controller.quorum.bootstrap.servers": ",".join(reached.values()) if dynamic else "",
                **(settings or {}),
            }
        if dynamic:
            initial = ",".join(f"{voter}@{at}:{uuid_to_string(_directory_id(voter))}" for voter, at in reached.items())
            for voter in self.voters:
                self.nodes[voter].format_options = ["--initial-controllers", initial]

    def _process(self, kind: str, folder: Path) -> BrokerProcess:
        if kind == "odradek":
            return OdradekBroker(folder)
        return JvmBroker(folder, as_shipped=True) if self.as_shipped else JvmBroker(folder, heap="256m")

    # -- lives of nodes --------------------------------------------------------------------------------------------------------

    def swap(self, node: int, kind: str) -> None:
        """Replace a node, which must not run, by a node of the other kind with the same directories and addresses."""
        before = self.nodes[node]
        assert not before.running
        after = self.nodes[node] = self._process(kind, before.folder)
        after.port, after.controller_port = before.port, before.controller_port
        after.overrides = before.overrides
        self.members[node] = self.members[node]._replace(kind=kind)

    def format(self) -> None:
        """Format all nodes at the same time. Raises RuntimeError with the output of a tool that fails."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(BrokerProcess.format, self.nodes.values()))

    def start(self, *nodes: int, timeout: float = 180) -> None:
        """Start the nodes (all when none is named) at the same time, and wait until each is ready."""
        for node in nodes or self.nodes:
            self.nodes[node].launch()
        for node in nodes or self.nodes:
            self.nodes[node].wait_ready(timeout)

    def __enter__(self) -> MixedCluster:
        self.format()
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    def kill(self) -> None:
        for process in self.nodes.values():
            process.kill()

    # -- questions --------------------------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """Bootstrap servers: all brokers."""
        return ",".join(self.nodes[node].bootstrap for node, member in self.members.items() if member.serves)

    def view(self, node: int, timeout: float = 5.0) -> QuorumView | None:
        """Return the node's view of the quorum, or None when the node is not the leader or does not answer."""
        topic = DescribeQuorumRequest.TopicData(
            topic_name="__cluster_metadata", partitions=[DescribeQuorumRequest.PartitionData(partition_index=0)]
        )
        try:
            process = self.nodes[node]
            response = ask(process.controller_port, DescribeQuorumRequest(topics=[topic]), 2, timeout, process.host)
        except OSError:
            return None
        assert isinstance(response, DescribeQuorumResponse)
        if response.error_code or not response.topics or response.topics[0].partitions[0].error_code:
            return None
        partition = response.topics[0].partitions[0]
        replicas = [*partition.current_voters, *partition.observers]
        ends = {replica.replica_id: replica.log_end_offset for replica in replicas}
        return QuorumView(partition.leader_id, partition.leader_epoch, partition.high_watermark, ends)

    def leader(self, *, but: int = -1, timeout: float = 30) -> int:
        """Wait for a leader of the quorum other than `but` that knows the committed offset, and return its id."""

        def found() -> int | None:
            for node in self.voters:
                if node != but and self.nodes[node].running:
                    view = self.view(node)
                    if view is not None and view.leader == node and view.high_watermark >= 0:
                        return node
            return None

        return eventually(found, "a leader of the quorum", timeout)

    def brokers(self, asked: int) -> dict[int, bool]:
        """Return broker -> whether it is fenced, according to the broker `asked`."""
        request = DescribeClusterRequest(endpoint_type=1, include_fenced_brokers=True)
        response = ask(self.nodes[asked].port, request, 2, host=self.nodes[asked].host)
        assert isinstance(response, DescribeClusterResponse)
        return {broker.broker_id: broker.is_fenced for broker in response.brokers}

    def caught_up(self, nodes: Iterable[int] | None = None, timeout: float = 30) -> QuorumView:
        """Wait until the logs of all `nodes` have reached the leader's high watermark."""
        wanted = list(self.nodes if nodes is None else nodes)

        def found() -> QuorumView | None:
            view = self.view(self.leader())
            if view is not None and all(view.ends.get(node, -1) >= view.high_watermark for node in wanted):
                return view
            return None

        return eventually(found, f"nodes {wanted} to have all that is committed", timeout)


def _directory_id(node: int) -> UUID:
    return UUID(int=(node << 64) + 0x0DAD)


def ask(port: int, request: Message, version: int, timeout: float = 5.0, host: str = "127.0.0.1") -> Message:
    """Send a request to a port and return the response. Raises OSError without a response."""
    frame = encode_request_header(request.API_KEY, version, 7, "interop") + request.encode(version)
    with socket.create_connection((host, port), timeout) as connection:
        connection.settimeout(timeout)
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", _exactly(connection, 4))
        body = _exactly(connection, size)
    _, offset = decode_response_header(body, request.API_KEY, version)
    return response_class(request.API_KEY).decode(body[offset:], version)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("closed")
        data += piece
    return data


# -- the metadata log as JVM Kafka's tool reads it -----------------------------------------------------------------------------------

_RECORD = re.compile(r"^\| offset: (\d+) .*?(payload: .*|endTxnMarker: .*|SnapshotHeader.*|LeaderChange.*|KRaftVersion.*|KRaftVoters.*)$")
_LEADER = re.compile(r"LeaderChange: \{.*?\"leaderId\":(-?\d+)")
_BATCH = re.compile(r"^baseOffset: (\d+) lastOffset: (\d+) .*partitionLeaderEpoch: (\d+) .*crc: (\d+)")


class DumpedLog(NamedTuple):
    """Metadata log. `batches`: base offset -> (last offset, epoch, crc). `leaders`: epoch -> leader of its LeaderChange. `records`: offset
    -> text.
    """

    batches: dict[int, tuple[int, int, int]]
    leaders: dict[int, int]
    records: dict[int, str]


def dump_metadata(process: BrokerProcess, tools: JvmTools) -> DumpedLog:
    """Return the output of kafka-dump-log --cluster-metadata-decoder for all segments of a node's metadata log."""
    files = sorted((process.data / "__cluster_metadata-0").glob("*.log"))
    done = tools.run(DUMP, "--cluster-metadata-decoder", "--files", ",".join(map(str, files)))
    assert done.returncode == 0, done.stderr.decode()
    log = DumpedLog({}, {}, {})
    epoch = -1
    for line in done.stdout.decode().splitlines():
        if (batch := _BATCH.match(line)) is not None:
            base, last, epoch, crc = map(int, batch.groups())
            log.batches[base] = (last, epoch, crc)
        elif line.startswith("|"):
            if (leader := _LEADER.search(line)) is not None:
                log.leaders[epoch] = int(leader[1])
            if (record := _RECORD.match(line)) is not None:
                log.records[int(record[1])] = record[2]
    return log


def _describe(cluster: MixedCluster, what: str, tools: JvmTools) -> list[str]:
    servers = ",".join(f"127.0.0.1:{cluster.nodes[node].controller_port}" for node in cluster.voters if cluster.nodes[node].running)
    done = tools.run(QUORUM, "--bootstrap-controller", servers, "describe", what)
    assert done.returncode == 0, done.stderr.decode()
    return [line for line in done.stdout.decode().splitlines() if line.strip()]


def quorum_status(cluster: MixedCluster, tools: JvmTools) -> dict[str, str]:
    """Return the fields of kafka-metadata-quorum describe --status: LeaderId, LeaderEpoch, HighWatermark, CurrentVoters, ..."""
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in _describe(cluster, "--status", tools))}


def quorum_replication(cluster: MixedCluster, tools: JvmTools) -> dict[int, str]:
    """Return node -> Leader, Follower or Observer, of kafka-metadata-quorum describe --replication."""
    head, *rows = [line.split() for line in _describe(cluster, "--replication", tools)]
    assert (head[0], head[-1]) == ("NodeId", "Status"), head
    return {int(row[0]): row[-1] for row in rows}
