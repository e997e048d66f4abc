"""Ends the leaders of a metadata quorum of Odradek and JVM Kafka voters, again and again, while topics are created.

    python -m tests.campaigns.mixed_quorum --kills 20 --seed 1 --voters odradek,jvm,jvm
    python -m tests.campaigns.mixed_quorum --kills 20 --seed 1 --voters odradek,odradek,jvm --dynamic

Every leader in turn ends by SIGKILL, by SIGTERM, or stands still for 5 s (SIGSTOP), in an order that the seed decides; the others elect,
and it comes back. Named checks, at the end:
  one-leader       no epoch has two leaders, by what the nodes said all along and by the leader changes in every log;
  prefix-equal     all logs have the same batches up to the high watermark, as kafka-dump-log --cluster-metadata-decoder reads them;
  acked-is-there   every topic whose creation was acknowledged stands in the committed log;
  tool-agrees      kafka-metadata-quorum describe --status and --replication say what the leader says;
  no-complaints    no log of ours has an error, none of the JVM's one beside those that are known (`KNOWN`).
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
"""A leader that stands still does so for as long, and until there is another."""
SETTINGS = {"metadata.log.max.snapshot.interval.ms": "0", "metadata.log.max.record.bytes.between.snapshots": "1000000000"}
"""No snapshots: the whole log stays to be compared."""

KNOWN: tuple[str, ...] = (
    # Another node asked this controller, which had stopped being the active one.
    r"Unexpected error handling request .*NotControllerException",
    # UpdateRaftVoter, which a follower of a static quorum sends and we do not serve yet.
    r"UPDATE_RAFT_VOTER|UpdateVoter|UpdateRaftVoter",
    # A JVM node that shuts down closes its request channel, and with it the meters of errors, before the threads that still handle requests
    # (ControllerServer.shutdown); an error that one of them answers finds no meter. Which line is before depends on who was at work.
    r"NullPointerException: .*RequestMetrics\$ErrorMeter.* is null",
    # A JVM node is asked for its API versions while it starts or stops, and has no Raft manager yet, or none any more.
    r"NullPointerException: .*ControllerServer\.raftManager\(\)\" is null",
    # It stood still, or the machine has too much to do.
    r"Exceptionally slow controller event|controller event queue overloaded",
    # A producer has several requests on their way: what follows one that was refused for now is out of order, and comes again behind it.
    r"Error processing append operation on partition .*OutOfOrderSequenceException",
    # Tests with small segments of the metadata log.
    r"Overriding internal.metadata.log.segment.bytes is only supported for testing",
)
"""Of an error's line and the one after it."""

WOKEN: tuple[str, ...] = (
    # Markers of a coordinator that was stopped between its decision and its markers, and deposed meanwhile. It sends them when it goes on,
    # before it hears of its successor, which has written them long ago. Coordinators of both kinds look at their own state alone before
    # they send (TransactionMarkerChannelManager.generateRequests), and drop what is refused in this way
    # (TransactionMarkerRequestCompletionHandler).
    r"Error processing append operation on partition \S+ / \S+\.TransactionCoordinatorFencedException: "
    r"Invalid coordinator epoch for producerId \d+ at offset \d+ in partition \S+: \d+ \(zombie\), \d+ \(current\)$",
    r"Failed to write the transaction marker to __consumer_offsets-\d+ due to an unexpected error: .* / "
    r"\S+\.TransactionCoordinatorFencedException: ",
)
"""As `KNOWN`, where brokers that coordinate transactions have stood still until they were fenced."""


class Load(threading.Thread):
    """Creates topics, one after the other, through whichever broker answers."""

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
        # 36: an attempt before this one came through, and its answer did not.
        return response.topics[0].error_code in (0, 36)


class Observer:
    """Whom the nodes have named as the leader of each epoch."""

    def __init__(self, cluster: MixedCluster) -> None:
        self.cluster = cluster
        self.leaders: dict[int, set[int]] = {}

    def look(self) -> None:
        for node in self.cluster.voters:
            if self.cluster.nodes[node].running and (view := self.cluster.view(node)) is not None and view.leader >= 0:
                self.leaders.setdefault(view.epoch, set()).add(view.leader)


class End(NamedTuple):
    """The end of a leader: who it was, how long it took to stop, and the seconds from then until another led."""

    leader: int
    stopped_s: float
    found_s: float


def end_leader(cluster: MixedCluster, how: str, pause_s: float = PAUSE_S) -> End:
    """Ends the leader, waits for another and brings it back."""
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
    """The errors in a node's log that are not `known`, each with the line after it."""
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
    """Runs it; a line for each violation."""
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
