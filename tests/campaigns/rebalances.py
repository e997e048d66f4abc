"""Rebalances of groups whose members join, leave, die and fall silent, until a number of rebalances is reached, with a check of all
records.

    python -m tests.campaigns.rebalances --rebalances 1000 --protocol classic --seed 1
    python -m tests.campaigns.rebalances --rebalances 1000 --protocol consumer --seed 1

Members (`rebalance_members`) run in separate processes, one to three in each. Several groups use one broker at the same time, each with its
topic, to which a producer writes all the time. Each group is disturbed, and watched until it is stable again: members join, leave, are
killed (SIGKILL), paused for longer than the session timeout (SIGSTOP) and resumed, or paused for a moment; static members are restarted
within the session timeout; or several of these at once.

A rebalance is counted when the log of the groups (`__consumer_offsets`, followed by `group_log`) contains a new generation with members
(classic), or when all members of a group have reached a new group epoch (consumer). `rebalance_judging` lists the checks at the end. The
checks during the run:
  stable-again      after the last disturbance the expected members share all partitions within `PATIENCE_S`, except partitions whose
                    assignment a librdkafka has missed (`rebalance_judging.deaf`);
  static-quiet      a static member that is back within the session timeout causes no new generation, nor does a short pause.
With `--nodes 3` there is a cluster. From time to time a node is killed (SIGKILL), or all. Every member counts as silent from then on until
the cluster is whole again. The seed decides the disturbances of members; clients and broker run in real time.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple
from uuid import UUID

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, Message, Producer, TopicCollection, Uuid
from confluent_kafka.admin import AdminClient, NewTopic

from interop.peers import REPOSITORY, OdradekBroker, answers_api_versions
from odradek.testing.history import Recorder
from tests.campaigns import rebalance_judging
from tests.campaigns.cluster_nodes import NODES, Nodes
from tests.campaigns.group_log import GroupLog, Partition

SESSION_MS = 4000
HEARTBEAT_MS = 400
MAX_POLL_MS = 8000
PATIENCE_S = 45.0
PARTITIONS = 6
MOST_MEMBERS = 5
MOST_PROCESSES = 4
SETTLED_S = 0.4
"""Seconds without a change after which a group counts as stable."""
RATE = 200
"""Records per second for all groups together."""
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
}
CLASSIC = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS, "max.poll.interval.ms": MAX_POLL_MS}


GIVEN_UP = (
    "UNRELEASED_INSTANCE_ID",
    "instance ID is still used by another member",
    "INVALID_REQUEST",
    "Broker: Invalid request: ConsumerGroupHeartbeat",
)
"""Errors that librdkafka treats as fatal in the consumer protocol, when a silent member joins again.

The coordinator, like Kafka's, refuses a static member whose session has not ended. It also refuses a member that starts again and still
names partitions, or does not name its subscription (librdkafka after a pause longer than `max.poll.interval.ms`).
"""

GIVEN_UP_WHILE_BROKERS_ARE_AWAY = (*GIVEN_UP, "FENCED_INSTANCE_ID", "Static consumer fenced", "KafkaConnectionError")
"""The same errors, and those of clients while brokers are killed.

kafka-python raises when no broker listens where it has a request to send. A librdkafka without a coordinator for a session timeout forgets
its member id. If it is a static member, and commits or has a heartbeat under way before it has joined again, its own instance fences it.
"""


FATAL = re.compile(r"FATAL\|([^|#]+)#[^|]*\|.*?(Fatal error: .*)")
HEARTBEAT_GIVEN_UP = re.compile(r"\|([0-9.]+)\|REQTMOUT\|([^|#]+)#[^|]*\|.*Timed out ConsumerGroupHeartbeatRequest in flight")


class Kind(NamedTuple):
    """Kind of group: the clients of its members, their settings, and whether members are static."""

    name: str
    clients: tuple[str, ...]
    settings: Mapping[str, object]
    static: bool = False
    pattern: bool = False


RANGE = {**CLASSIC, "partition.assignment.strategy": "range"}
STICKY = {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"}
NEW = {"group.protocol": "consumer", "max.poll.interval.ms": MAX_POLL_MS}
NEW_RANGE = {**NEW, "group.remote.assignor": "range"}
KINDS: Mapping[str, tuple[Kind, ...]] = {
    "classic": (
        Kind("mixed", ("confluent", "aiokafka", "kafka-python"), RANGE),
        Kind("sticky", ("confluent",), STICKY),
        Kind("static", ("confluent",), RANGE, static=True),
        Kind("range", ("confluent",), RANGE),
        Kind("static-sticky", ("confluent",), STICKY, static=True),
        # Without kafka-python: as the leader it joins again when it sees the topics' metadata late, also with JVM Kafka.
        Kind("static-mixed", ("aiokafka", "confluent"), RANGE, static=True),
    ),
    "consumer": (
        Kind("uniform", ("confluent",), {**NEW, "group.remote.assignor": "uniform"}),
        Kind("static", ("confluent",), NEW, static=True),
        Kind("range", ("confluent",), NEW_RANGE),
        Kind("pattern", ("confluent",), NEW, pattern=True),
        Kind("default", ("confluent",), NEW),
        Kind("static-range", ("confluent",), NEW_RANGE, static=True),
    ),
}


@dataclass
class Evidence:
    """Facts that histories do not contain: deaths and pauses of processes, hosts, instance ids and clients of members."""

    deaths: dict[str, float] = field(default_factory=dict)
    pauses: list[rebalance_judging.Silence] = field(default_factory=list)
    broker_silences: list[rebalance_judging.Silence] = field(default_factory=list)
    brokers_killed: bool = False
    given_up: list[str] = field(default_factory=list)
    deaf: list[str] = field(default_factory=list)
    heartbeats_given_up: dict[str, list[float]] = field(default_factory=dict)
    """Member -> times at which its librdkafka gave up a heartbeat, in seconds since 1970."""
    hosts: dict[str, str] = field(default_factory=dict)
    instances: dict[str, str | None] = field(default_factory=dict)
    clients: dict[str, str] = field(default_factory=dict)


class Pulse(threading.Thread):
    """Thread that asks the broker for its versions all the time and notes when it did not answer: sessions that end then are not the
    broker's fault.
    """

    def __init__(self, port: int) -> None:
        super().__init__(name="pulse", daemon=True)
        self.port = port
        self.stopping = threading.Event()
        self.silences: list[rebalance_judging.Silence] = []

    def run(self) -> None:
        while not self.stopping.wait(0.1):
            begun = time.monotonic()
            answers_api_versions(self.port, timeout=60)
            ended = time.monotonic()
            if ended - begun > HEARTBEAT_MS / 1000:
                self.silences.append(rebalance_judging.Silence("", begun, ended))


class Killer(threading.Thread):
    """Thread that kills a node of a cluster again and again, or all nodes, and starts them again."""

    def __init__(self, cluster: Nodes, every_s: float, rng: random.Random) -> None:
        super().__init__(name="killer", daemon=True)
        self.cluster = cluster
        self.every_s = every_s
        self.rng = rng
        self.stopping = threading.Event()
        self.strikes: list[rebalance_judging.Silence] = []
        """Each strike ends when all replicas are in sync again; the last strike may not have ended."""
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stopping.wait(self.rng.uniform(0.3, 1.7) * self.every_s):
                self._strike()
        except BaseException as error:
            self.failure = error
            raise

    def _strike(self) -> None:
        nodes = list(self.cluster.nodes)
        struck = nodes if self.rng.random() < 0.1 else [self.rng.choice(nodes)]
        begun = time.monotonic()
        self.strikes.append(rebalance_judging.Silence("", begun, math.inf))
        for node in struck:
            self.cluster.nodes[node].kill()
        time.sleep(self.rng.uniform(0, 3))
        self.cluster.start(*struck)
        self.cluster.wait_whole()
        self.strikes[-1] = self.strikes[-1]._replace(ended=time.monotonic())

    def struck_since(self, begun: float) -> bool:
        """Return whether sessions may have ended since `begun` because of a strike."""
        return any(each.ended + SESSION_MS / 1000 > begun for each in self.strikes)


class Host:
    """Process with members."""

    def __init__(self, name: str, bootstrap: str, folder: Path, heartbeats_given_up: dict[str, list[float]]) -> None:
        self.name = name
        self.members: dict[str, str | None] = {}
        """Member that should be in the group -> its instance id."""
        self.owns: dict[str, frozenset[Partition]] = {}
        self.ids: dict[str, tuple[str, int]] = {}
        """Member -> its member id, and the generation of its last assignment."""
        self.died: dict[str, str] = {}
        self.heartbeats_given_up = heartbeats_given_up
        self.ready = threading.Event()
        self.paused = False
        self._errors = folder / f"{name}.err"
        self._errors_read = 0
        with self._errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.campaigns.rebalance_members", name, bootstrap, str(folder)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=REPOSITORY,
            )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin: IO[bytes] = self.process.stdin
        self.stdout: IO[bytes] = self.process.stdout
        self.reader = threading.Thread(target=self._read, args=(self.stdout,), daemon=True)
        self.reader.start()

    def _read(self, lines: IO[bytes]) -> None:
        for line in lines:
            try:
                said = json.loads(line)
            except ValueError:
                continue  # cut off by a kill
            if "ready" in said:
                self.ready.set()
            elif "owns" in said:
                if "id" in said:
                    self.ids[said["member"]] = (said["id"], said["generation"])
                self.owns[said["member"]] = frozenset((topic, partition) for topic, partition in said["owns"])
            elif "died" in said:
                self.died[said["member"]] = said["died"]
            elif "left" in said:
                self.owns.pop(said["member"], None)

    def read_errors(self) -> None:
        """Read the errors that librdkafka reports on standard error only.

        If librdkafka gives up while it loses its partitions, its polls return nothing, without end. Heartbeats that it gives up appear
        nowhere else.
        """
        with self._errors.open("rb") as errors:
            errors.seek(self._errors_read)
            lines = errors.read()
        whole = lines[: lines.rfind(b"\n") + 1]
        self._errors_read += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            if (ended := FATAL.search(line)) and ended[1] in self.members:
                self.died.setdefault(ended[1], ended[2])
            elif given_up := HEARTBEAT_GIVEN_UP.search(line):
                self.heartbeats_given_up.setdefault(given_up[2], []).append(float(given_up[1]))

    def order(self, **fields: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.stdin.write(json.dumps(fields).encode() + b"\n")
            self.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> None:
        """End the process, whatever it is doing."""
        with contextlib.suppress(OSError):
            self.stdin.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.read_errors()
        self.reader.join()
        self.stdout.close()


class Group(threading.Thread):
    """Group, and the thread that disturbs it."""

    def __init__(self, name: str, kind: Kind, seed: str, campaign: Campaign) -> None:
        super().__init__(name=name, daemon=True)
        self.kind = kind
        self.topic = f"{name}-topic"
        self.partitions = frozenset((self.topic, number) for number in range(PARTITIONS))
        self.rng = random.Random(seed)
        self.campaign = campaign
        self.hosts: list[Host] = []
        self.numbers = itertools.count(1)
        self.problems: list[str] = []
        self.done: list[str] = []
        self.failure: BaseException | None = None

    # -- changes -----------------------------------------------------------------------------------------------------------------

    def add_host(self) -> Host:
        evidence = self.campaign.evidence
        host = Host(f"{self.name}-p{next(self.numbers)}", self.campaign.bootstrap, self.campaign.folder, evidence.heartbeats_given_up)
        self.hosts.append(host)
        if not host.ready.wait(PATIENCE_S):
            self.problems.append(f"{host.name} did not start")
        return host

    def add_member(self, host: Host, instance: str | None = None) -> str:
        name = f"{self.name}-m{next(self.numbers)}"
        if self.kind.static and instance is None:
            instance = f"{self.name}-i{next(self.numbers)}"
        settings = dict(self.kind.settings)
        if instance is not None:
            settings["group.instance.id"] = instance
        host.members[name] = instance
        self.campaign.evidence.hosts[name] = host.name
        self.campaign.evidence.instances[name] = instance
        topics = [f"^{self.topic[:-1]}.*"] if self.kind.pattern else [self.topic]
        client = self.campaign.evidence.clients[name] = self.rng.choice(self.kind.clients)
        host.order(do="join", member=name, group=self.name, topics=topics, client=client, settings=settings)
        return name

    def remove_member(self, host: Host, name: str) -> str | None:
        host.order(do="leave", member=name)
        instance = host.members.pop(name)
        if self.kind.static:
            # A static member that does not come back stays until its session ends; here only its own record can be awaited.
            self.wait(lambda: name not in host.owns, f"{name} left")
        return instance

    def kill(self, host: Host) -> dict[str, str | None]:
        """Kill the process with SIGKILL, and return its members with their instance ids."""
        self.hosts.remove(host)
        host.end()
        self.campaign.evidence.deaths[host.name] = time.monotonic()
        return host.members

    def pause(self, host: Host, seconds: float) -> None:
        begun = time.monotonic()
        host.signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            host.signal(signal.SIGCONT)
        self.campaign.evidence.pauses.append(rebalance_judging.Silence(host.name, begun, time.monotonic()))

    # -- observation -------------------------------------------------------------------------------------------------------------

    def stable(self) -> bool:
        """Return whether all expected members share the partitions, and the coordinator's log agrees."""
        owns = [partition for host in self.hosts for name in host.members for partition in host.owns.get(name, ())]
        wanted = sum(len(host.members) for host in self.hosts)
        if wanted and (len(owns) != len(self.partitions) or set(owns) != self.partitions):
            return False
        log = self.campaign.log
        with log.lock:
            state = log.state(self.name)
            quiet = time.monotonic() - state.changed_at > SETTLED_S
            said = [host.ids[name] for host in self.hosts for name in host.members if name in host.ids]
            if any(member_id not in state.members or generation > state.generation for member_id, generation in said):
                return False  # the members are ahead of the log as read so far
            held = frozenset[Partition]().union(*(member.held for member in state.members.values()))
            return quiet and len(state.members) == wanted and state.settled and (not wanted or held == self.partitions)

    def generation(self) -> int:
        with self.campaign.log.lock:
            return self.campaign.log.state(self.name).generation

    def wait(self, done: Callable[[], bool], what: str, excuse: Callable[[], bool] = lambda: False) -> bool:
        """Wait until `done`. Return False after a timeout, which is a problem unless `excuse` returns True."""
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            strange = self.bury()
            if not strange and time.monotonic() > deadline and excuse():
                return False
            if strange or time.monotonic() > deadline:
                self.problems.append(f"stable-again: {self.name} after {self.done[-4:]}: {what}; {self.picture()}")
                return False
            if self.campaign.over.is_set() and self.campaign.broken:
                return False
            time.sleep(0.02)
        return True

    def bury(self) -> bool:
        """Remove the members whose client has given up. Return whether one did so for an unexpected reason."""
        strange = False
        for host in self.hosts:
            host.read_errors()
            for name in [name for name in host.members if name in host.died]:
                why = host.died[name]
                host.members.pop(name)
                host.owns.pop(name, None)
                self.campaign.evidence.given_up.append(f"{name}: {why}")
                if not any(code in why for code in self.campaign.given_up):
                    self.problems.append(f"{name} died: {why}")
                    strange = True
        return strange

    def deaf(self) -> bool:
        """Return whether the group waits only for `deaf` members, and note them."""
        owned = {name: host.owns.get(name, frozenset[Partition]()) for host in self.hosts for name in host.members}
        with self.campaign.log.lock:
            state = self.campaign.log.state(self.name)
            if frozenset[Partition]().union(*(member.held for member in state.members.values())) != self.partitions:
                return False
            found = rebalance_judging.deaf(owned, state, self.campaign.evidence.heartbeats_given_up, SESSION_MS / 1000)
        self.campaign.evidence.deaf += found
        return bool(found)

    def picture(self) -> str:
        members = {name: sorted(host.owns.get(name, ())) for host in self.hosts for name in host.members}
        with self.campaign.log.lock:
            state = self.campaign.log.state(self.name)
            return f"members own {members}, the log says {state.members}, generation {state.generation}, {state.history[-12:]}"

    def settle(self) -> bool:
        if self.wait(self.stable, "is stable", self.deaf):
            return True
        for host in list(self.hosts):
            self.kill(host)
        return False

    # -- disturbances ------------------------------------------------------------------------------------------------------------

    def some_member(self) -> tuple[Host, str] | None:
        members = [(host, name) for host in self.hosts for name in host.members]
        return self.rng.choice(members) if members else None

    def count(self) -> int:
        return sum(len(host.members) for host in self.hosts)

    def come(self) -> None:
        room = [host for host in self.hosts if len(host.members) < 3]
        new = not room or (len(self.hosts) < MOST_PROCESSES and self.rng.random() < 0.5)
        self.add_member(self.add_host() if new else self.rng.choice(room))

    def leave(self) -> None:
        found = self.some_member()
        if found is not None:
            host, name = found
            self.remove_member(host, name)
            if not host.members:
                self.hosts.remove(host)
                self.campaign.leaving(host)

    def die(self) -> None:
        if self.hosts:
            self.kill(self.rng.choice(self.hosts))

    def fall_silent(self) -> None:
        hosts = [host for host in self.hosts if host.members]
        if hosts:
            self.pause(self.rng.choice(hosts), SESSION_MS / 1000 * self.rng.uniform(1.1, 1.7))

    def blink(self) -> None:
        """Pause a process for less than the session timeout."""
        hosts = [host for host in self.hosts if host.members]
        if hosts:
            self.quietly(lambda: self.pause(self.rng.choice(hosts), SESSION_MS / 1000 * self.rng.uniform(0.05, 0.3)))

    def restart(self) -> None:
        """Restart a static member, or kill a process and start its members again at once."""
        found = self.some_member()
        if found is None:
            return
        host, name = found
        # In the consumer protocol no other member gets an unreleased instance id before its session ends.
        if self.rng.random() < 0.5 or self.campaign.protocol == "consumer":
            self.quietly(lambda: self.add_member(host, self.remove_member(host, name)))
            return
        spare = self.add_host()

        def killed() -> None:
            for instance in self.kill(host).values():
                self.add_member(spare, instance)

        self.quietly(killed)

    def quietly(self, disturb: Callable[[], object]) -> None:
        """Check that a disturbance causes no new generation, if it was over in time."""
        if not self.settle():
            return
        before, begun = self.generation(), time.monotonic()
        disturb()
        if not self.settle():
            return
        time.sleep(2 * HEARTBEAT_MS / 1000)
        if not self.settle():
            return
        late = time.monotonic() - begun > (0.7 * SESSION_MS + 2 * HEARTBEAT_MS) / 1000 + SETTLED_S
        late = late or (self.campaign.killer is not None and self.campaign.killer.struck_since(begun))
        with self.campaign.log.lock:
            history = self.campaign.log.state(self.name).history[-8:]
        if self.generation() != before:
            if late:
                self.campaign.too_late += 1
            else:
                self.problems.append(f"static-quiet: {self.name}: {self.done[-1]}: generation {before} -> {self.generation()}: {history}")
        else:
            self.campaign.quiet += 1

    def several(self) -> None:
        for _ in range(self.rng.randint(2, 4)):
            self.rng.choice((self.come, self.leave, self.die) if self.count() > 2 else (self.come,))()
            time.sleep(self.rng.uniform(0, 0.5))

    def choose(self) -> Callable[[], None]:
        if self.count() < 2:
            return self.come
        choices = [(self.leave, 6), (self.die, 2), (self.fall_silent, 2), (self.blink, 1), (self.several, 3)]
        if self.count() < MOST_MEMBERS:
            choices.append((self.come, 7))
        if self.kind.static:
            choices.append((self.restart, 5))
        return self.rng.choices([each for each, _ in choices], [weight for _, weight in choices])[0]

    def run(self) -> None:
        try:
            while not self.campaign.over.is_set():
                disturb = self.choose()
                self.done.append(disturb.__name__)
                disturb()
                self.settle()
            # A member has to read the rest.
            if not self.count():
                self.come()
            self.settle()
        except BaseException as error:
            self.failure = error
            raise


class Feeder(threading.Thread):
    """Thread that writes numbers to all topics."""

    def __init__(self, bootstrap: str, topics: list[str], folder: Path) -> None:
        super().__init__(name="feeder", daemon=True)
        self.topics = topics
        self.recorder = Recorder(folder / "feeder.jsonl", "feeder")
        self.stopping = threading.Event()
        self.ends: dict[Partition, int] = {}
        self.failed = 0
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset()
        if error is not None or offset is None:
            self.failed += 1
            return
        self.ends[topic, partition] = max(self.ends.get((topic, partition), 0), offset + 1)
        self.recorder.ok("send", [["send", topic, partition, offset, (message.value() or b"").decode()]])

    def run(self) -> None:
        for number in itertools.count():
            if self.stopping.is_set():
                break
            topic, partition = self.topics[number % len(self.topics)], number // len(self.topics) % PARTITIONS
            self.producer.produce(topic, b"%d" % number, partition=partition, on_delivery=self._delivered)
            self.producer.poll(0)
            self.stopping.wait(1 / RATE)
        self.producer.flush(PATIENCE_S)
        self.recorder.close()


class Campaign:
    """A broker or a cluster, its groups, and all records."""

    def __init__(self, protocol: str, seed: int, folder: Path, groups: int, nodes: int, kill_every_s: float) -> None:
        self.protocol = protocol
        self.folder = folder
        self.evidence = Evidence()
        self.over = threading.Event()
        self.broken = False
        self.quiet = self.too_late = 0
        self._leaving: list[Host] = []
        self.cluster = Nodes(folder / "nodes", SETTINGS) if nodes > 1 else None
        self.brokers = [OdradekBroker(folder, SETTINGS)] if self.cluster is None else list(self.cluster.nodes.values())
        self.given_up = GIVEN_UP if self.cluster is None else GIVEN_UP_WHILE_BROKERS_ARE_AWAY
        self.killer: Killer | None = None
        if self.cluster is not None:
            self.killer = Killer(self.cluster, kill_every_s, random.Random(f"{protocol} {seed} kills"))
        kinds = KINDS[protocol]
        self.groups = [
            Group(f"{kinds[number % len(kinds)].name}{number}", kinds[number % len(kinds)], f"{protocol} {seed} {number}", self)
            for number in range(groups)
        ]
        self.bootstrap = ",".join(broker.bootstrap for broker in self.brokers)
        self.log = GroupLog(self.bootstrap, {})

    def leaving(self, host: Host) -> None:
        """Let a host without members end when it is ready."""
        host.order(do="end")
        self._leaving.append(host)

    def completed(self) -> int:
        with self.log.lock:
            return sum(len(state.completed) for state in self.log.groups.values())

    def run(self, rebalances: int) -> list[str]:
        if self.cluster is not None:
            self.cluster.format()
        for broker in self.brokers:
            broker.launch()
        try:
            for broker in self.brokers:
                broker.wait_ready(60)
            return self._run(rebalances)
        finally:
            self.over.set()
            self.broken = True
            for host in [*self._leaving, *(host for group in self.groups for host in group.hosts)]:
                host.end()
            self.log.stopping.set()
            if self.killer is not None and self.killer.is_alive():
                self.killer.stopping.set()
                self.killer.join()
            for broker in self.brokers:
                broker.kill()

    def _run(self, rebalances: int) -> list[str]:
        feeder = self._prepare()
        pulses = [Pulse(broker.port) for broker in self.brokers]
        for pulse in pulses:
            pulse.start()
        self.log.start()
        if self.killer is not None:
            self.killer.start()
        for group in self.groups:
            group.start()
        begun = said = time.monotonic()
        told = 0
        while self.completed() < rebalances and not any(group.failure for group in self.groups):
            time.sleep(0.2)
            if time.monotonic() - said > 20:
                said = time.monotonic()
                found = [problem for group in self.groups for problem in group.problems]
                print(f"{said - begun:.0f} s: {self.completed()} of {rebalances} rebalances, {len(found)} problems", flush=True)
                if len(found) > told:
                    told = len(found)
                    print(f"  among them: {found[-1]}", flush=True)
            if self.log.failure is not None:
                raise RuntimeError("the groups' log cannot be read") from self.log.failure
            if self.killer is not None and self.killer.failure is not None:
                raise RuntimeError("a node did not come back") from self.killer.failure
        if self.killer is not None:
            self.killer.stopping.set()
            self.killer.join()
        reached, seconds = self.completed(), time.monotonic() - begun
        self.over.set()
        for group in self.groups:
            group.join()
        feeder.stopping.set()
        feeder.join()
        problems = [f"the driver of {group.name} failed: {group.failure!r}" for group in self.groups if group.failure is not None]
        problems += self._read_to_the_end(feeder)
        for group in self.groups:
            problems += group.problems
            for host in group.hosts:
                host.order(do="end")
        for host in [*self._leaving, *(host for group in self.groups for host in group.hosts)]:
            with contextlib.suppress(subprocess.TimeoutExpired):
                host.process.wait(PATIENCE_S)
            host.read_errors()
        self.log.stopping.set()
        self.log.join()
        for pulse in pulses:
            pulse.stopping.set()
            pulse.join()
        kills = self.killer.strikes if self.killer is not None else []
        self.evidence.brokers_killed = bool(kills)
        self.evidence.broker_silences = sorted(
            [*kills, *(each for pulse in pulses for each in pulse.silences)], key=lambda each: each.begun
        )
        verdict = rebalance_judging.judge(
            self.folder, self.evidence, self.log, feeder.ends, SESSION_MS / 1000, HEARTBEAT_MS / 1000, MAX_POLL_MS / 1000
        )
        problems += verdict.problems
        if feeder.failed:
            problems.append(f"{feeder.failed} records were not accepted")
        statuses = {1: self.brokers[0].stop()} if self.cluster is None else self.cluster.stop()
        if any(statuses.values()):
            problems.append(f"the last shutdown ended with status {statuses}")
        done = [name for group in self.groups for name in group.done]
        tally = ", ".join(f"{name} {done.count(name)}" for name in sorted(set(done)))
        print(
            f"{self.protocol}: {reached} rebalances in {seconds:.0f} s ({tally}), {len(kills)} kills of brokers; "
            f"{self.quiet} restarts and short pauses brought none, "
            f"{self.too_late} were too slow to be judged; {verdict.summary}; {len(problems)} problems"
        )
        return problems

    def _prepare(self) -> Feeder:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        topics = [group.topic for group in self.groups]
        for future in admin.create_topics([NewTopic(topic, PARTITIONS, len(self.brokers)) for topic in topics]).values():
            future.result(30)
        described = admin.describe_topics(TopicCollection(topics))
        self.log.topics = {topic_id(future.result(30).topic_id): topic for topic, future in described.items()}
        # The first look-up of a coordinator creates the topic that contains the log.
        admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.groups[0].name)])[self.groups[0].name].result(30)
        feeder = Feeder(self.bootstrap, topics, self.folder)
        feeder.start()
        return feeder

    def _read_to_the_end(self, feeder: Feeder) -> list[str]:
        """Wait until the remaining members have committed the end of every partition. Return the problems after a timeout."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with self.log.lock:
                committed = {each.partition: each.offset for group in self.log.groups.values() for each in group.commits}
            behind = {each: (committed.get(each, 0), end) for each, end in feeder.ends.items() if committed.get(each, 0) < end}
            if not behind:
                return []
            if time.monotonic() > deadline:
                return [f"read-to-the-end: {partition} is committed to {at} of {end}" for partition, (at, end) in behind.items()]
            time.sleep(0.1)


def topic_id(given: Uuid) -> UUID:
    """Combine librdkafka's two signed halves of a UUID."""
    return UUID(int=(given.get_most_significant_bits() % 2**64 << 64) + given.get_least_significant_bits() % 2**64)


def campaign(
    rebalances: int, protocol: str, seed: int, folder: Path, groups: int = 6, *, nodes: int = 1, kill_every_s: float = 30.0
) -> list[str]:
    """Run until `rebalances` rebalances are complete, and return the violations.

    With several nodes, a node is killed every `kill_every_s` seconds on average.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return Campaign(protocol, seed, folder, groups, nodes, kill_every_s).run(rebalances)


@contextlib.contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    if keep is not None:
        yield Path(keep)
        return
    with tempfile.TemporaryDirectory(prefix="odradek-rebalances-") as folder:
        yield Path(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description="rebalances of groups whose members come, go, die and fall silent")
    parser.add_argument("--rebalances", type=int, default=1000)
    parser.add_argument("--protocol", choices=sorted(KINDS), default="classic")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--groups", type=int, default=6)
    parser.add_argument("--nodes", type=int, choices=(1, NODES), default=1, help="a single node, or a cluster")
    parser.add_argument("--kill-every", type=float, default=30.0, help="seconds between two kills of nodes of a cluster, on average")
    parser.add_argument("--keep", help="a folder for the histories, which stay there")
    options = parser.parse_args()
    # Ending the campaign also ends the broker and the members.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with _folder(options.keep) as folder:
        problems = campaign(
            options.rebalances,
            options.protocol,
            options.seed,
            folder,
            options.groups,
            nodes=options.nodes,
            kill_every_s=options.kill_every,
        )
    for problem in problems:
        print(f"(seed {options.seed}) {problem}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
