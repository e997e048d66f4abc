"""Our consumers in groups with members of other clients, against Odradek and JVM Kafka: one owner for each partition, nothing lost."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer

from interop.peers import QUICK, BrokerProcess, JvmBroker, jvm_command
from odradek.client import Admin, CommitFailed, Consumer, KafkaError, NewTopic, TopicPartition
from tests.client.members import PROTOCOLS, Member, fill, poll_until, share
from tests.interop.conftest import PAIR_CONFIG

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
COMMON = ("range", "roundrobin", "cooperative-sticky", "consumer")
"""What librdkafka has as well."""
PARTITIONS = 4


class ConfluentMember:
    """A member of another client, with what `poll_until` and `share` need."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str], protocol: str) -> None:
        self.seen: list[tuple[int, int]] = []
        self.events: list[Any] = []
        chosen: dict[str, Any] = {"partition.assignment.strategy": protocol, "heartbeat.interval.ms": 100}
        if protocol == "consumer":
            chosen = {"group.protocol": "consumer"}
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        self.consumer = ConfluentConsumer(settings | chosen)
        self.consumer.subscribe(list(topics))

    @property
    def owned(self) -> set[TopicPartition]:
        return {TopicPartition(each.topic, each.partition) for each in self.consumer.assignment()}

    def poll(self) -> None:
        for message in self.consumer.consume(100, 0.02):
            assert message.error() is None, message.error()
            self.seen.append((message.partition(), message.offset()))  # type: ignore[arg-type]


_numbers = itertools.count()


def new_topic(bootstrap: str, label: str, partitions: int = PARTITIONS) -> str:
    name = f"{label}-{next(_numbers)}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, partitions, 1)])
    return name


@pytest.fixture(scope="module")
def jvm_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = JvmBroker(tmp_path_factory.mktemp("jvm"), {**PAIR_CONFIG, "group.min.session.timeout.ms": "1000"})
    process.start()
    yield process
    process.stop()


@pytest.fixture(params=["odradek", pytest.param("jvm", marks=pytest.mark.jvm)])
def bootstrap(request: pytest.FixtureRequest) -> str:
    name = {"odradek": "broker", "jvm": "jvm_broker"}[request.param]
    process: BrokerProcess = request.getfixturevalue(name)
    return process.bootstrap


@pytest.mark.parametrize("protocol", COMMON)
def test_ours_and_confluent_members_share_a_group(bootstrap: str, protocol: str) -> None:
    topic = new_topic(bootstrap, f"mixed-{protocol}")
    fill(bootstrap, topic, 40, PARTITIONS)
    ours = Member(bootstrap, topic, [topic], protocol)
    share([ours], PARTITIONS)
    other = ConfluentMember(bootstrap, topic, [topic], protocol)
    second = Member(bootstrap, topic, [topic], protocol)
    members: list[Any] = [other, ours, second]
    fill(bootstrap, topic, 40, PARTITIONS)
    _all_seen(members, 80)
    share(members, PARTITIONS)
    # The member that leads has gone: the others, of both kinds, go on.
    ours.consumer.close()
    members.remove(ours)
    share(members, PARTITIONS)
    fill(bootstrap, topic, 40, PARTITIONS)
    _all_seen([ours, *members], 120, polled=members)
    other.consumer.close()
    share([second], PARTITIONS)
    second.consumer.close()


def _all_seen(members: Sequence[Any], count: int, polled: Sequence[Any] | None = None) -> None:
    poll_until(members if polled is None else polled, lambda: len({each for member in members for each in member.seen}) == count)


@pytest.mark.jvm
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_three_of_ours_in_a_group_of_the_jvm(jvm_broker: BrokerProcess, protocol: str) -> None:
    bootstrap = jvm_broker.bootstrap
    topic = new_topic(bootstrap, f"ours-{protocol}")
    fill(bootstrap, topic, 40, PARTITIONS)
    members = [Member(bootstrap, topic, [topic], protocol) for _ in range(3)]
    share(members, PARTITIONS)
    _all_seen(members, 40)
    gone = members.pop(0)
    gone.consumer.close()
    share(members, PARTITIONS)
    fill(bootstrap, topic, 40, PARTITIONS)
    _all_seen([gone, *members], 80, polled=members)
    seen = [each for member in (gone, *members) for each in member.seen]
    assert len(seen) == len(set(seen)), "what was handed out is committed before it goes to others"
    for member in members:
        member.consumer.close()


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_a_static_member_comes_back_without_a_rebalance(bootstrap: str, protocol: str) -> None:
    topic = new_topic(bootstrap, f"static-{protocol}")
    stays = Member(bootstrap, topic, [topic], protocol, group_instance_id="stays")
    goes = Member(bootstrap, topic, [topic], protocol, group_instance_id="goes")
    share([stays, goes], PARTITIONS)
    held, events = set(goes.owned), list(stays.events)
    goes.consumer.close()
    back = Member(bootstrap, topic, [topic], protocol, group_instance_id="goes")
    poll_until([stays, back], lambda: back.owned == held)
    assert stays.events == events
    back.consumer.close(leave_group=True)
    share([stays], PARTITIONS)
    stays.consumer.close(leave_group=True)


@pytest.mark.parametrize("protocol", ["cooperative-sticky", "consumer"])
def test_who_does_not_poll_loses_its_partitions(bootstrap: str, protocol: str) -> None:
    topic = new_topic(bootstrap, f"slow-{protocol}")
    slow = Member(bootstrap, topic, [topic], protocol, max_poll_interval_ms=1000)
    share([slow], PARTITIONS)
    held = next(iter(slow.owned))
    other = Member(bootstrap, topic, [topic], protocol, max_poll_interval_ms=1000)
    poll_until([other], lambda: len(other.owned) == PARTITIONS)
    with pytest.raises(CommitFailed):
        slow.consumer.commit({held: 1})
    share([slow, other], PARTITIONS)
    assert "lost" in [kind for kind, _ in slow.events]
    slow.consumer.close()
    other.consumer.close()


def test_errors_of_groups_are_told(bootstrap: str) -> None:
    topic = new_topic(bootstrap, "errors")
    first = Member(bootstrap, topic, [topic], "range", group_instance_id="one")
    share([first], PARTITIONS)
    stranger = Member(bootstrap, topic, [topic], "roundrobin")
    with pytest.raises(KafkaError, match="INCONSISTENT_GROUP_PROTOCOL"):
        poll_until([stranger], lambda: False)
    stranger.consumer.close()
    second = Member(bootstrap, topic, [topic], "range", group_instance_id="one")
    share([second], PARTITIONS)
    with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
        poll_until([first], lambda: False)
    first.consumer.close()
    second.consumer.close(leave_group=True)
    wrong = Member(bootstrap, f"{topic}-wrong", [topic], "consumer", group_remote_assignor="nonesuch")
    with pytest.raises(KafkaError, match="UNSUPPORTED_ASSIGNOR"):
        poll_until([wrong], lambda: False)
    wrong.consumer.close()


class JavaMember:
    """Kafka's VerifiableConsumer as a process of its own; what it says, event by event."""

    def __init__(self, bootstrap: str, group: str, topic: str, *options: str) -> None:
        arguments = ("--bootstrap-server", bootstrap, "--group-id", group, "--topic", topic, "--reset-policy", "earliest", *options)
        self._process = subprocess.Popen(
            jvm_command("org.apache.kafka.tools.VerifiableConsumer", *arguments, options=QUICK),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.owned: set[TopicPartition] = set()
        self.seen: set[tuple[int, int]] = set()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith(b"{"):
                continue
            event = json.loads(line)
            named = {TopicPartition(each["topic"], each["partition"]) for each in event.get("partitions", ()) if "minOffset" not in each}
            if event["name"] == "partitions_assigned":
                self.owned |= named
            elif event["name"] == "partitions_revoked":
                self.owned -= named
            elif event["name"] == "records_consumed":
                for each in event["partitions"]:
                    self.seen.update((each["partition"], offset) for offset in range(each["minOffset"], each["maxOffset"] + 1))

    def poll(self) -> None:
        """It polls by itself."""

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._reader.join(60)
        assert self._process.stdout is not None
        self._process.stdout.close()


_ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
JAVA_OPTIONS = {
    "consumer": ("--group-protocol", "consumer"),
    **{name: ("--assignment-strategy", f"org.apache.kafka.clients.consumer.{each}") for name, each in _ASSIGNORS.items()},
}


@pytest.mark.jvm
@pytest.mark.parametrize("protocol", JAVA_OPTIONS)
def test_a_java_consumer_in_the_same_group(bootstrap: str, protocol: str) -> None:
    topic = new_topic(bootstrap, f"java-{protocol}")
    fill(bootstrap, topic, 40, PARTITIONS)
    ours = Member(bootstrap, topic, [topic], protocol)
    share([ours], PARTITIONS)
    java = JavaMember(bootstrap, topic, topic, *JAVA_OPTIONS[protocol])
    try:
        members: list[Any] = [ours, java]
        _shared(members)
        fill(bootstrap, topic, 40, PARTITIONS)
        _all_seen(members, 80)
        # Now Java's client leads the group, where a member does.
        second = Member(bootstrap, topic, [topic], protocol)
        ours.consumer.close()
        _shared([second, java])
        fill(bootstrap, topic, 40, PARTITIONS)
        _all_seen([ours, second, java], 120, polled=[second])
    finally:
        java.stop()
    share([second], PARTITIONS)
    second.consumer.close()


def _shared(members: Sequence[Any]) -> None:
    poll_until(
        [each for each in members if isinstance(each, Member)],
        lambda: [len(member.owned) for member in members] == [2, 2] and members[0].owned.isdisjoint(members[1].owned),
    )


def test_committed_offsets_are_those_of_other_clients(bootstrap: str) -> None:
    topic = new_topic(bootstrap, "committed")
    fill(bootstrap, topic, 40, PARTITIONS)
    other = ConfluentMember(bootstrap, topic, [topic], "range")
    _all_seen([other], 40)
    other.consumer.commit(asynchronous=False)
    other.consumer.close()
    with Consumer(bootstrap_servers=bootstrap, group_id=topic) as consumer:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        committed = consumer.committed(partitions)
        assert [each.offset for each in committed.values() if each is not None] == [10] * PARTITIONS
