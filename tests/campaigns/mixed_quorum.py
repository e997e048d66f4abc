"""Repeated ends of the leaders of a metadata quorum of Odradek and JVM Kafka voters, while topics are created.

    python -m tests.campaigns.mixed_quorum --kills 20 --seed 1 --voters odradek,jvm,jvm
    python -m tests.campaigns.mixed_quorum --kills 20 --seed 1 --voters odradek,odradek,jvm --dynamic

Each leader in turn ends by SIGKILL or SIGTERM, or pauses for 5 s (SIGSTOP), in an order that the seed decides. The others elect a leader,
and the node comes back. Named checks, at the end:
  one-leader       no epoch has two leaders, according to the nodes during the run and to the leader changes in every log;
  prefix-equal     all logs have the same batches up to the high watermark, as kafka-dump-log --cluster-metadata-decoder reads them;
  acked-is-there   every topic with an acknowledged creation is in the committed log;
  tool-agrees      kafka-metadata-quorum describe --status and --replication print the leader's state;
  no-complaints    no log of ours has an error, and the JVM's logs have only known errors (`KNOWN`).
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from interop.cluster import DumpedLog, Member, MixedCluster, ask, dump_metadata, quorum_replication, quorum_status
from interop.tools import JvmTools
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

ENDS = ("kill", "stop", "pause")
PAUSE_S = 5.0
"""Minimum seconds that a leader pauses; the pause also lasts until there is another leader."""
SETTINGS = {"metadata.log.max.snapshot.interval.ms": "0", "metadata.log.max.record.bytes.between.snapshots": "1000000000"}
"""Settings without snapshots, so that the whole log can be compared."""

KNOWN: tuple[str, ...] = (
    # Another node sent a request to this controller, which was no longer active.
    r"Unexpected error handling request .*NotControllerException",
    # UpdateRaftVoter, which a follower of a static quorum sends, and which Odradek does not support yet.
    r"UPDATE_RAFT_VOTER|UpdateVoter|UpdateRaftVoter",
    # A JVM node that shuts down closes its request channel with the error meters before the threads that still handle requests
    # (ControllerServer.shutdown). An error response of such a thread finds no meter. The preceding line depends on the thread.
    r"NullPointerException: .*RequestMetrics\$ErrorMeter.* is null",
    # A JVM node is asked for its API versions while it starts or stops, and has no Raft manager at that time.
    r"NullPointerException: .*ControllerServer\.raftManager\(\)\" is null",
    # The node was paused, or the machine is overloaded.
    r"Exceptionally slow controller event|controller event queue overloaded",
    # A producer has several requests under way: the requests after one with a retriable error are out of order, and are sent again after
    # it.
    r"Error processing append operation on partition .*OutOfOrderSequenceException",
    # Tests use small segments of the metadata log.
    r"Overriding internal.metadata.log.segment.bytes is only supported for testing",
)
"""Patterns of known errors, for an error's line and the line after it."""

WOKEN: tuple[str, ...] = (
    # Markers of a coordinator that was paused between its decision and its markers, and replaced during the pause. After resuming it sends
    # the markers before it learns of its successor, which has written them already. Coordinators of both kinds check only their own state
    # before they send (TransactionMarkerChannelManager.generateRequests), and drop markers that are refused in this way
    # (TransactionMarkerRequestCompletionHandler).
    r"Error processing append operation on partition \S+ / \S+\.TransactionCoordinatorFencedException: "
    r"Invalid coordinator epoch for producerId \d+ at offset \d+ in partition \S+: \d+ \(zombie\), \d+ \(current\)$",
    r"Failed to write the transaction marker to __consumer_offsets-\d+ due to an unexpected error: .* / "
    r"\S+\.TransactionCoordinatorFencedException: ",
)
"""Patterns of known errors where transaction coordinators have been paused until they were fenced."""


class Load(threading.Thread):
    """Thread that creates topics, one after the other, through any broker that answers."""

    def __init__(self, cluster: MixedCluster, rng: random.Random) -> None:
        super().__init__(name="topics")
        self.cluster = cluster
        self.rng = rng
        self.acked: list[str] = []
        self.slowest_s = 0.0
        self.stopping = threading.Event()
        self._ports = [cluster.nodes[node].port for node, member in cluster.members.items() if member.serves]

    def run(self) -> None:
        for number in itertools.count():
            if self.stopping.is_set():
                return
            begin = time.monotonic()
            name = f"topic-{number}"
            while not self._create(name):
                if self.stopping.is_set():
                    return
                time.sleep(0.05)
            self.acked.append(name)
            self.slowest_s = max(self.slowest_s, time.monotonic() - begin)
            time.sleep(0.05)

    def _create(self, name: str) -> bool:
        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=2, replication_factor=1)
        try:
            response = ask(self.rng.choice(self._ports), CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7, timeout=8)
        except OSError:
            return False
        assert isinstance(response, CreateTopicsResponse)
        # 36 (TOPIC_ALREADY_EXISTS): an earlier attempt succeeded, and its response was lost.
        return response.topics[0].error_code in (0, 36)


class Observer:
    """Leaders of each epoch, as the nodes have reported them."""

    def __init__(self, cluster: MixedCluster) -> None:
        self.cluster = cluster
        self.leaders: dict[int, set[int]] = {}

    def look(self) -> None:
        for node in self.cluster.voters:
            if self.cluster.nodes[node].running and (view := self.cluster.view(node)) is not None and view.leader >= 0:
                self.leaders.setdefault(view.epoch, set()).add(view.leader)


class End(NamedTuple):
    """End of a leader: its id, the seconds that the stop took, and the seconds from the stop until another node led."""

    leader: int
    stopped_s: float
    found_s: float


def end_leader(cluster: MixedCluster, how: str, pause_s: float = PAUSE_S) -> End:
    """End the leader, wait for another leader, and bring the node back."""
    leader = cluster.leader()
    process = cluster.nodes[leader]
    begin = time.monotonic()
    if how == "stop":
        assert process.stop() in (0, 143), f"node {leader} ended badly:\n{process.log_tail()}"
    else:
        (process.pause if how == "pause" else process.kill)()
    ended = time.monotonic()
    try:
        cluster.leader(but=leader)
        found = time.monotonic()
        if how == "pause":
            time.sleep(max(0.0, ended + pause_s - found))
    finally:
        if how == "pause":
            process.resume()
    if how != "pause":
        cluster.start(leader)
    cluster.caught_up()
    return End(leader, ended - begin, found - ended)


def one_leader(logs: dict[int, DumpedLog], seen: dict[int, set[int]]) -> list[str]:
    epochs: dict[int, set[int]] = {epoch: set(leaders) for epoch, leaders in seen.items()}
    for log in logs.values():
        for epoch, leader in log.leaders.items():
            epochs.setdefault(epoch, set()).add(leader)
    return [f"one-leader: epoch {epoch} has {sorted(leaders)}" for epoch, leaders in epochs.items() if len(leaders) > 1]


def prefix_equal(logs: dict[int, DumpedLog], high_watermark: int) -> list[str]:
    first, *others = sorted(logs)
    expected = {base: batch for base, batch in logs[first].batches.items() if batch[0] < high_watermark}
    problems = [] if expected else ["prefix-equal: nothing to compare"]
    for other in others:
        found = {base: batch for base, batch in logs[other].batches.items() if batch[0] < high_watermark}
        if found != expected:
            different = sorted(base for base in expected.keys() | found.keys() if expected.get(base) != found.get(base))
            problems.append(f"prefix-equal: node {other} differs from node {first} at offsets {different[:5]} ({len(different)} batches)")
    return problems


def acked_is_there(log: DumpedLog, acked: Sequence[str]) -> list[str]:
    created = set(re.findall(r'"TOPIC_RECORD".*?"name":"([^"]+)"', "\n".join(log.records.values())))
    missing = [name for name in acked if name not in created]
    return [f"acked-is-there: {len(missing)} of {len(acked)} topics are not in the log, first {missing[:5]}"] if missing else []


def tool_agrees(cluster: MixedCluster, tools: JvmTools) -> list[str]:
    view = cluster.caught_up()
    status = quorum_status(cluster, tools)
    problems = []
    if (int(status["LeaderId"]), int(status["LeaderEpoch"])) != (view.leader, view.epoch):
        problems.append(f"tool-agrees: the tool says {status}, the leader {view}")
    voters = [int(found) for found in re.findall(r"(?:\"id\": ?|^\[|, ?)(\d+)(?=[,\]])", status["CurrentVoters"])]
    if sorted(voters) != sorted(cluster.voters):
        problems.append(f"tool-agrees: the voters are {status['CurrentVoters']}, not {cluster.voters}")
    expected = {
        node: "Leader" if node == view.leader else "Follower" if member.votes else "Observer" for node, member in cluster.members.items()
    }
    if (found := quorum_replication(cluster, tools)) != expected:
        problems.append(f"tool-agrees: --replication says {found}, and it is {expected}")
    return problems


def complaints(kind: str, text: str, known: Sequence[str] = KNOWN) -> list[str]:
    """Return the errors in a node's log that are not `known`, each with the line after it."""
    bad = r" (ERROR|CRITICAL) |Traceback" if kind == "odradek" else r" (ERROR|FATAL) "
    lines = text.splitlines()
    pairs = [f"{line} / {following}" for line, following in itertools.zip_longest(lines, lines[1:], fillvalue="") if re.search(bad, line)]
    return [pair for pair in pairs if not any(re.search(pattern, pair) for pattern in known)]


def no_complaints(cluster: MixedCluster, known: Sequence[str] = KNOWN) -> list[str]:
    problems = []
    for node, process in cluster.nodes.items():
        for log in sorted(process.folder.glob("*.log")):
            errors = complaints(log.stem, log.read_text(errors="replace"), known)
            problems += [f"no-complaints: node {node} ({log.stem}): {error}" for error in errors[:3]]
    return problems


def campaign(
    kinds: Sequence[str], kills: int, seed: int, folder: Path, tools: JvmTools, *, dynamic: bool = False, pause_s: float = PAUSE_S
) -> list[str]:
    """Run the campaign and return one line per violation."""
    rng = random.Random(seed)
    members = {number: Member(kind) for number, kind in enumerate(kinds, 1)}
    cluster = MixedCluster(folder, members, dynamic=dynamic, settings=SETTINGS)
    with cluster:
        observer = Observer(cluster)
        load = Load(cluster, random.Random(f"{seed} load"))
        load.start()
        try:
            ends = list(ENDS)
            for number in range(kills):
                if number % len(ends) == 0:
                    rng.shuffle(ends)
                acked = len(load.acked)
                observer.look()
                end = end_leader(cluster, ends[number % len(ends)], pause_s)
                observer.look()
                what = f"{ends[number % len(ends)]} of node {end.leader} ({cluster.members[end.leader].kind}) in {end.stopped_s:.1f} s"
                created = len(load.acked) - acked
                print(f"{number + 1} of {kills}: {what}, the next leader {end.found_s:.1f} s later, {created} topics meanwhile", flush=True)
        finally:
            load.stopping.set()
            load.join()
        view = cluster.caught_up()
        problems = tool_agrees(cluster, tools)
        with ThreadPoolExecutor() as pool:
            logs = dict(zip(cluster.nodes, pool.map(lambda process: dump_metadata(process, tools), cluster.nodes.values()), strict=True))
        problems += one_leader(logs, observer.leaders)
        problems += prefix_equal(logs, view.high_watermark)
        problems += acked_is_there(logs[view.leader], load.acked)
        problems += no_complaints(cluster)
    print(f"{kills} ends, {len(load.acked)} topics acknowledged, the slowest in {load.slowest_s:.1f} s; {len(problems)} problems")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--voters", default="odradek,jvm,jvm", help="the kind of each voter: odradek or jvm")
    parser.add_argument("--dynamic", action="store_true", help="voters in the log, kraft.version 1")
    arguments = parser.parse_args()
    tools = JvmTools()
    try:
        with tempfile.TemporaryDirectory(prefix="odradek-mixed-") as folder:
            kinds = arguments.voters.split(",")
            problems = campaign(kinds, arguments.kills, arguments.seed, Path(folder), tools, dynamic=arguments.dynamic)
    finally:
        tools.close()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
