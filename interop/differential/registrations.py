"""What brokers and controllers tell the active controller of themselves, and what brokers tell it of their partitions.

Brokers 7, 8 and 9 exist only in these requests. What has become of them is seen through broker 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from interop.differential.case import Case
from interop.differential.exceptions import FEATURES_TO_COME
from interop.differential.peer import Peer
from interop.differential.raft import OTHER_CLUSTER, OTHER_DIRECTORY, quorum
from interop.peers import CLUSTER_ID
from interop.waiting import until
from odradek.base.ids import ZERO_UUID
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.messages.alter_partition import AlterPartitionRequest
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from odradek.protocol.messages.broker_registration import BrokerRegistrationRequest
from odradek.protocol.messages.controller_registration import ControllerRegistrationRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from odradek.protocol.messages.unregister_broker import UnregisterBrokerRequest

BROKERS = (7, 8, 9)
FEATURES: dict[str, tuple[int, int]] = {
    "metadata.version": (7, 30),
    "kraft.version": (0, 1),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
}
"""What a broker has to know."""
TOPIC = "distant"
"""Its only partition lies on brokers 7, 8 and 9."""


def incarnation(broker: int, life: int = 0) -> UUID:
    return UUID(int=(0xDAD1 << 112) + (broker << 32) + life)


def directory(broker: int, number: int = 0) -> UUID:
    return UUID(int=(0xDAD2 << 112) + ((broker & 0xFFFF_FFFF) << 32) + number)


def registration(
    version: int,
    broker: int = 7,
    *,
    life: int = 0,
    cluster: str = CLUSTER_ID,
    listeners: tuple[tuple[str, str, int, int], ...] | None = None,
    features: dict[str, tuple[int, int]] | None = None,
    directories: tuple[UUID, ...] | None = None,
    rack: str | None = None,
    **options: Any,
) -> BrokerRegistrationRequest:
    """`life` numbers the incarnations of a broker; a listener is its name, host, port and security protocol."""
    if version >= 2:
        options["log_dirs"] = list((directory(broker),) if directories is None else directories)
    of_broker = (("PLAINTEXT", "127.0.0.1", 9_000 + (broker & 0xFF), 0),)
    return BrokerRegistrationRequest(
        **{"incarnation_id": incarnation(broker, life), **options},
        broker_id=broker,
        cluster_id=cluster,
        rack=rack,
        listeners=[
            BrokerRegistrationRequest.Listener(name=name, host=host, port=port, security_protocol=protocol)
            for name, host, port, protocol in (of_broker if listeners is None else listeners)
        ],
        features=[
            BrokerRegistrationRequest.Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in (FEATURES if features is None else features).items()
        ],
    )


def heartbeat(peer: Peer, version: int, broker: int = 7, *, epoch: int | None = None, behind: bool = False, **options: Any) -> Any:
    """A heartbeat of the broker's last life, or with `epoch`; it has all of the metadata, or is `behind` with none of it."""
    return BrokerHeartbeatRequest(
        broker_id=broker,
        broker_epoch=peer.broker_epochs.get(broker, -1) if epoch is None else epoch,
        current_metadata_offset=-1 if behind else quorum(peer).end - 1,
        **options,
    )


def register(peer: Peer, broker: int, life: int = 0, **options: Any) -> None:
    """Registers the broker, as the newest version does it."""
    answer = peer.call(ApiKey.BROKER_REGISTRATION, 4, registration(4, broker, life=life, **options))
    assert answer.error_code == 0, answer
    peer.registered(broker, answer.broker_epoch)


def unfence(peer: Peer, *brokers: int) -> None:
    """Heartbeats over a connection that is kept open: Odradek takes a broker whose connection ends for gone."""
    lines = peer.notes.setdefault("heartbeats", {})
    for broker in brokers:
        line = lines.get(broker) or lines.setdefault(broker, Peer(peer.name, peer.port, broker=peer.broker))
        answer = line.call(ApiKey.BROKER_HEARTBEAT, 2, heartbeat(peer, 2, broker))
        assert (answer.error_code, answer.is_fenced) == (0, False), answer


def unregister(peer: Peer, *brokers: int) -> None:
    """Takes the brokers away, as far as they are registered."""
    for broker in brokers:
        peer.call(ApiKey.UNREGISTER_BROKER, 0, UnregisterBrokerRequest(broker_id=broker))


def synced(peer: Peer) -> None:
    """Waits until broker 1 has heard of all that the controller has committed."""
    request = ApiVersionsRequest(client_software_name="odd", client_software_version="1")
    end = quorum(peer).end
    until(
        lambda: peer.broker.call(ApiKey.API_VERSIONS, 4, request).finalized_features_epoch >= end - 1,
        f"broker 1 of {peer.name} to have the metadata up to {end}",
        20,
    )


def brokers_now(after: str, before: Callable[[Peer], None] | None = None) -> Case:
    """The brokers as broker 1 shows them, fenced ones included, when `before` is done."""

    def wait(peer: Peer) -> None:
        if before is not None:
            before(peer)
        synced(peer)

    request = DescribeClusterRequest(include_fenced_brokers=True)

    def any_of_them(answer: Any) -> Any:
        """The same, with a name for the controller's id: any broker that is alive may be named in its place."""
        if answer.controller_id in [broker.broker_id for broker in answer.brokers if not broker.is_fenced]:
            answer.controller_id = "one that is alive"
        return answer

    return Case(ApiKey.DESCRIBE_CLUSTER, 2, f"after {after}", lambda _: request, before=wait, view=any_of_them, through_broker=True)


def topics_now(after: str, *names: str) -> Case:
    """The partitions of the topics as broker 1 shows them, with the replicas that are in sync, or eligible to lead all the same."""
    request = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names])
    return Case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, f"after {after}", lambda _: request, before=synced, through_broker=True)


def broker_registration(version: int) -> Iterator[Case]:
    """No listener lacks its name, host, port or a security protocol that is known: the controller of JVM Kafka resigns over it."""

    def case(name: str, broker: int = 7, before: Callable[[Peer], None] | None = None, named: bool = True, **options: Any) -> Case:
        """`named`: whether both nodes are expected to give it an epoch, so that it is counted."""
        request = registration(version, broker, **options)

        def remember(peer: Peer, answer: Any) -> None:
            if answer.error_code == 0 and named:
                peer.registered(broker, answer.broker_epoch)
            elif answer.error_code == 0:
                peer.names["broker epoch", answer.broker_epoch] = "the epoch of a new life"

        return Case(ApiKey.BROKER_REGISTRATION, version, name, lambda _: request, before=before, after=remember)

    yield case("another cluster", cluster=OTHER_CLUSTER, before=clear)
    yield case("empty cluster", cluster="")
    yield case("without features", features={})
    for name, levels in FEATURES.items():
        if name in FEATURES_TO_COME:
            continue  # JVM Kafka has finalized it, and we do not support it.
        yield case(f"without {name}", features={each: known for each, known in FEATURES.items() if each != name})
        yield case(f"{name} one too low", features={**FEATURES, name: (0, levels[1] - 1)})
    yield case("metadata.version from too high", features={**FEATURES, "metadata.version": (31, 40)})
    yield case("metadata.version upside down", features={**FEATURES, "metadata.version": (30, 7)})
    yield case("metadata.version only the one", features={**FEATURES, "metadata.version": (30, 30)}, broker=8)
    yield case("an unknown feature", features={**FEATURES, "unknown.version": (1, 3)}, broker=8)
    yield case("an unknown feature from 0", features={**FEATURES, "unknown.version": (0, 3)}, broker=8)
    yield brokers_now(f"the first registration of version {version}")
    if version >= 1:
        yield case("out of ZooKeeper", is_migrating_zk_broker=True)
    yield case("new")
    if version < 2:
        return  # Without directories nobody is registered any more.
    yield case("no directories", directories=())
    yield case("a directory that is not known", directories=(UUID(int=1),))
    yield case("a directory from before there were ids", directories=(ZERO_UUID, directory(7)))
    yield case("a lost directory", directories=(directory(7), UUID(int=2)))
    yield case("a reserved directory", directories=(UUID(int=99),))
    yield case("no more reserved", directories=(UUID(int=100),), broker=9)
    yield case("a directory twice", directories=(directory(7), directory(7)))
    yield case("a directory of another broker", directories=(directory(7), directory(8)))
    yield case("again")
    yield case("again, with another rack", rack="b")
    yield case("again, at another port", listeners=(("PLAINTEXT", "127.0.0.1", 9_999, 0),))
    yield brokers_now(f"it came again in version {version}")
    yield case("in a new life, nobody has heard of the old one", life=1)
    yield case(
        "in a new life, the old one is alive", life=2, before=lambda peer: unfence(peer, 7), rack="c", directories=(directory(7, 5),)
    )
    yield brokers_now(f"it was refused in version {version}")
    yield case("again, unfenced", life=1, rack="c")
    yield brokers_now(f"it came again unfenced in version {version}")
    yield case("as broker 1, which is alive", broker=1)
    yield case("in a new life with all that the old one had", life=3, rack="c", named=False)
    yield case("another after it was unregistered", life=4, before=lambda peer: unregister(peer, *BROKERS))
    yield brokers_now(f"it was unregistered and came back in version {version}")
    several = (("PLAINTEXT", "127.0.0.1", 65_535, 0), ("OTHER", "127.0.0.1", 2, 3))
    for name, listeners in {
        "no listeners": (),
        "two listeners": several,
        "a listener twice": (several[0], ("PLAINTEXT", "h", 3, 0)),
    }.items():
        yield case(name, life=4, listeners=listeners)
        yield brokers_now(f"{name} in version {version}")
    yield case("without an incarnation", incarnation_id=ZERO_UUID, broker=9)
    yield case("without an incarnation again", incarnation_id=ZERO_UUID, broker=9)
    for rack in ("", "r" * 300):
        yield case(f"a rack of {len(rack)} letters", life=4, rack=rack)
    yield brokers_now(f"odd listeners and racks of version {version}")
    if version >= 3:
        for epoch in (-1, 0, 2**62):
            yield case(f"after epoch {epoch}", life=5 + epoch % 3, previous_broker_epoch=epoch)
    for broker in (2**31 - 1, -1, -(2**31)):
        yield case(f"as broker {broker}", broker=broker)
    yield brokers_now(f"all have gone that version {version} registered", lambda peer: unregister(peer, *BROKERS, -1, -(2**31), 2**31 - 1))


def broker_heartbeat(version: int) -> Iterator[Case]:
    def case(name: str, broker: int = 7, before: Callable[[Peer], None] | None = None, **options: Any) -> Case:
        return Case(ApiKey.BROKER_HEARTBEAT, version, name, lambda peer: heartbeat(peer, version, broker, **options), before=before)

    def come(peer: Peer) -> None:
        clear(peer)
        register(peer, 7, directories=(directory(7), directory(7, 1)))

    def until_it_may_go(peer: Peer) -> None:
        """Beats until all brokers have seen that it wants to go; broker 1 tells what it has seen every two seconds."""

        def may_go() -> bool:
            if peer.call(ApiKey.BROKER_HEARTBEAT, version, heartbeat(peer, version, 7, want_shut_down=True)).should_shut_down:
                return True
            unfence(peer, 8, 9)
            return False

        until(may_go, f"{peer.name} to let a broker go that leads nothing", 20)

    yield case("nobody's", 9)
    yield case("of a negative epoch", epoch=-5, before=come)
    for epoch in (0, 2**62, -1):
        yield case(f"of epoch {epoch}", epoch=epoch)
    yield case("behind", behind=True)
    yield case("behind, wants to be fenced", behind=True, want_fence=True)
    yield case("up to date, wants to be fenced", want_fence=True)
    yield case("up to date")
    yield brokers_now(f"a heartbeat of version {version}")
    yield case("unfenced, behind", behind=True)
    yield case("unfenced, wants to be fenced", want_fence=True)
    yield brokers_now(f"a wish to be fenced of version {version}")
    yield case("fenced, wants to go", want_shut_down=True)
    yield case("fenced, wants to go and to be fenced", want_shut_down=True, want_fence=True)
    yield case("up to date again")
    yield case("unfenced, wants to go and to be fenced", want_shut_down=True, want_fence=True)
    yield case("up to date once more")
    yield case("unfenced, wants to go", want_shut_down=True)
    yield brokers_now(f"a wish to go of version {version}")
    yield case("back after it wanted to go")
    if version >= 1:
        yield case("an unknown directory is offline", offline_log_dirs=[OTHER_DIRECTORY])
        yield case("a reserved directory is offline", offline_log_dirs=[ZERO_UUID])
        yield case("a directory is offline", offline_log_dirs=[directory(7, 1)])
        yield case("it is offline still, twice", offline_log_dirs=[directory(7, 1), directory(7, 1)])
        yield case("it is online again")
        yield case("all directories are offline", offline_log_dirs=[directory(7), directory(7, 1)])
        yield brokers_now(f"its directories went offline in version {version}")
    if version >= 2:
        for name, cordoned in {
            "nothing": [],
            "one": [directory(7)],
            "it twice": [directory(7), directory(7)],
            "an unknown one": [OTHER_DIRECTORY],
            "a reserved one": [ZERO_UUID],
            "no word of it": None,
        }.items():
            yield case(f"cordoned: {name}", cordoned_log_dirs=cordoned)
    yield case("after it was unregistered", before=lambda peer: unregister(peer, 7))
    if version == 2:
        yield case("a leader wants to go", want_shut_down=True, before=place)
        yield topics_now("its leader wants to go", TOPIC)
        yield case("it wants to go still, and not all have heard of it", want_shut_down=True)
        yield case("it does not want to go any more")
        yield case("all have heard of it", want_shut_down=True, before=until_it_may_go)
        yield brokers_now("a leader has gone")
        yield case("it is back")
        yield topics_now("its leader is back", TOPIC)
    yield brokers_now(f"heartbeats of version {version}", clear)


def clear(peer: Peer) -> None:
    """Takes the three brokers and their topic away."""
    peer.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=20_000))
    unregister(peer, *BROKERS)


def place(peer: Peer) -> None:
    """Registers the three brokers anew, unfences them, and makes the topic anew on them; broker 7 leads it."""
    clear(peer)
    for broker in BROKERS:
        register(peer, broker, directories=(directory(broker), directory(broker, 1)))
    unfence(peer, *BROKERS)
    assignment = CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=list(BROKERS))
    creatable = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=[assignment])
    answer = peer.call(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[creatable], timeout_ms=20_000))
    assert answer.topics[0].error_code == 0, answer
    peer.topic_ids[TOPIC] = answer.topics[0].topic_id
    peer.names[answer.topics[0].topic_id] = f"id of {TOPIC}"
    peer.notes["epochs"] = (0, 0)


def epochs_after(peer: Peer, answer: Any) -> None:
    """Remembers the leader epoch and the partition epoch that AlterPartition has answered."""
    for partition in (partition for topic in answer.topics for partition in topic.partitions):
        if partition.error_code == 0:
            peer.notes["epochs"] = (partition.leader_epoch, partition.partition_epoch)


Proposal = list[tuple[int, int]]
"""Brokers in sync, and which of their epochs is named: 0 the right one, -1 none, another number another one."""


def alter_partition(version: int) -> Iterator[Case]:
    """No recovery state is one that nobody knows: the controller of JVM Kafka resigns over it."""

    def case(
        name: str,
        isr: Proposal | tuple[int, ...] = BROKERS,
        broker: int = 7,
        *,
        stale: int = 0,
        leader_epoch: int = 0,
        partition_epoch: int = 0,
        recovery: int = 0,
        topic: UUID | None = None,
        partitions: tuple[int, ...] = (0,),
        times: int = 1,
        before: Callable[[Peer], None] | None = None,
    ) -> Case:
        """`stale`, `leader_epoch` and `partition_epoch`: by how much these epochs are not the right ones."""

        def state(peer: Peer, member: int, wrong: int) -> AlterPartitionRequest.BrokerState:
            right = peer.broker_epochs.get(member, 12)
            return AlterPartitionRequest.BrokerState(broker_id=member, broker_epoch=-1 if wrong == -1 else right + wrong)

        def build(peer: Peer) -> AlterPartitionRequest:
            proposed: Proposal = [each if isinstance(each, tuple) else (each, 0) for each in isr]
            leader, own = peer.notes["epochs"]

            def partition(index: int) -> AlterPartitionRequest.PartitionData:
                members: dict[str, Any] = (
                    {"new_isr_with_epochs": [state(peer, *each) for each in proposed]}
                    if version >= 3
                    else {"new_isr": [member for member, _ in proposed]}
                )
                return AlterPartitionRequest.PartitionData(
                    partition_index=index,
                    leader_epoch=leader + leader_epoch,
                    partition_epoch=own + partition_epoch,
                    leader_recovery_state=recovery,
                    **members,
                )

            named = AlterPartitionRequest.TopicData(
                topic_id=peer.topic_ids[TOPIC] if topic is None else topic, partitions=[partition(index) for index in partitions]
            )
            return AlterPartitionRequest(broker_id=broker, broker_epoch=peer.broker_epochs.get(broker, -1) + stale, topics=[named] * times)

        return Case(ApiKey.ALTER_PARTITION, version, name, build, after=epochs_after, before=before)

    def come_anew(peer: Peer) -> None:
        unregister(peer, 8)
        register(peer, 8, 1)

    yield case("of a past life", stale=-1, before=place)
    yield case("of a life to come", stale=1)
    yield case("of an unknown broker", broker=5)
    yield case("as it is")
    yield case("two of three", (7, 8))
    yield topics_now(f"two of three in version {version}", TOPIC)
    yield case("all three")
    yield case("all three in another order", (9, 7, 8))
    yield case("of a follower", (7, 8), 8)
    yield case("of a broker without the partition", (7, 8), 8)
    for difference in (-1, 1, -100, 100):
        yield case(f"leader epoch {difference:+}", (7, 8), leader_epoch=difference)
        yield case(f"partition epoch {difference:+}", (7, 8), partition_epoch=difference)
        yield case(f"both epochs {difference:+}", (7, 8), leader_epoch=difference, partition_epoch=difference)
    yield case("leader epoch older, of a follower", (7, 8), 8, leader_epoch=-1)
    yield case("partition epoch older, of a follower", (7, 8), 8, partition_epoch=-1)
    yield case("partition epoch older, nobody in sync", (), partition_epoch=-1)
    yield case("nobody in sync", ())
    yield case("without the leader", (8, 9))
    yield case("one twice", (7, 8, 8))
    yield case("the leader twice", (7, 7))
    yield case("one who has no replica", (7, 8, 9, 1))
    yield case("one nobody knows", (7, 5))
    yield case("recovering", (7,), recovery=1)
    yield case("recovering, two in sync", (7, 8), recovery=1)
    yield case("unknown topic", topic=OTHER_DIRECTORY)
    yield case("no topic id", topic=ZERO_UUID)
    yield case("unknown partition", partitions=(3, -1))
    yield case("no partitions", partitions=())
    yield case("a partition twice", (7, 9), partitions=(0, 0))
    yield case("the topic twice", times=2)
    yield case("no topics", times=0)
    if version >= 3:
        yield case("no epochs of those in sync", [(7, -1), (8, -1)])
        yield case("one has another epoch", [(7, 0), (8, 1), (9, 0)])
        yield case("one has an earlier epoch", [(7, 0), (8, -2)])
        yield case("the leader has another epoch", [(7, 3), (8, 0)])
    yield topics_now(f"what version {version} was refused", TOPIC)
    yield case("alone", (7,))
    yield topics_now(f"it is alone in version {version}", TOPIC)
    yield case("with one that has come anew and is fenced", (7, 8), before=come_anew)
    yield case("with one that has gone", (7, 9), before=lambda peer: unregister(peer, 9))
    yield topics_now(f"others have gone in version {version}", TOPIC)
    yield brokers_now(f"version {version} of AlterPartition", clear)


def assign_replicas_to_dirs(version: int) -> Iterator[Case]:
    def case(
        name: str,
        *wanted: tuple[UUID, list[tuple[str | UUID, list[int]]]],
        broker: int = 7,
        stale: int = 0,
        before: Callable[[Peer], None] | None = None,
    ) -> Case:
        """`wanted`: each directory with its topics (by name or id) and their partitions."""
        of = AssignReplicasToDirsRequest

        def build(peer: Peer) -> AssignReplicasToDirsRequest:
            return of(
                broker_id=broker,
                broker_epoch=peer.broker_epochs.get(broker, -1) + stale,
                directories=[
                    of.DirectoryData(
                        id=where,
                        topics=[
                            of.TopicData(
                                topic_id=peer.topic_ids[topic] if isinstance(topic, str) else topic,
                                partitions=[of.PartitionData(partition_index=index) for index in partitions],
                            )
                            for topic, partitions in topics
                        ],
                    )
                    for where, topics in wanted
                ],
            )

        def named(peer: Peer, answer: Any) -> None:
            for entry in answer.directories:
                peer.names.setdefault(entry.id, f"directory {entry.id}")

        return Case(ApiKey.ASSIGN_REPLICAS_TO_DIRS, version, name, build, before=before, after=named)

    here, there = directory(7), directory(7, 1)
    yield case("of a past life", (here, [(TOPIC, [0])]), stale=-1, before=place)
    yield case("of a life to come", (here, [(TOPIC, [0])]), stale=1)
    yield case("of an unknown broker", (here, [(TOPIC, [0])]), broker=5)
    yield case("one", (here, [(TOPIC, [0])]))
    yield case("the same again", (here, [(TOPIC, [0])]))
    yield case("moved", (there, [(TOPIC, [0])]))
    yield case("of a follower", (directory(8), [(TOPIC, [0])]), broker=8)
    yield case("both directories", (here, [(TOPIC, [0])]), (there, [(TOPIC, [0])]))
    yield case("a directory twice", (here, [(TOPIC, [0])]), (here, [(TOPIC, [0])]))
    yield case("a partition twice", (here, [(TOPIC, [0, 0])]))
    yield case("a topic twice", (here, [(TOPIC, [0]), (TOPIC, [0])]))
    yield case("unknown topic", (here, [(OTHER_DIRECTORY, [0])]))
    yield case("no topic id", (here, [(ZERO_UUID, [0])]))
    yield case("unknown partition", (here, [(TOPIC, [4, -1])]))
    yield case("no replica of its", (here, [("plain", [0])]))
    yield case("known and unknown", (here, [(TOPIC, [0, 7]), (OTHER_DIRECTORY, [0]), ("plain", [0])]))
    yield case("no partitions", (here, [(TOPIC, [])]))
    yield case("no topics", (here, []))
    yield case("no directories")
    yield topics_now(f"assignments of version {version}", TOPIC)
    for reserved in (0, 1, 2, 99):
        yield case(f"reserved directory {reserved}", (UUID(int=reserved), [(TOPIC, [0])]), before=place)
        yield topics_now(f"an assignment to reserved directory {reserved}", TOPIC)
    yield case("a directory of another broker", (directory(8), [(TOPIC, [0])]), before=place)
    yield topics_now("an assignment to a directory of another broker", TOPIC)
    yield case("an unknown directory, of a follower", (OTHER_DIRECTORY, [(TOPIC, [0])]), broker=8, before=place)
    yield topics_now("an assignment of a follower to an unknown directory", TOPIC)
    yield brokers_now("assignments", clear)


def allocate_producer_ids(version: int) -> Iterator[Case]:
    def case(name: str, broker: int = 7, stale: int = 0, before: Callable[[Peer], None] | None = None) -> Case:
        def since(peer: Peer, answer: Any) -> None:
            """Where the block begins, as seen from the one before it."""
            if answer.error_code == 0:
                former, peer.notes["producer ids"] = peer.notes.get("producer ids"), answer.producer_id_start
                answer.producer_id_start -= answer.producer_id_start if former is None else former

        return Case(
            ApiKey.ALLOCATE_PRODUCER_IDS,
            version,
            name,
            lambda peer: AllocateProducerIdsRequest(broker_id=broker, broker_epoch=peer.broker_epochs.get(broker, -1) + stale),
            before=before,
            after=since,
        )

    def come(peer: Peer) -> None:
        clear(peer)
        register(peer, 7)

    yield case("of a past life", stale=-1, before=come)
    yield case("of a life to come", stale=1)
    yield case("of an unknown broker", 5)
    yield case("of a negative broker", -1)
    for _ in range(3):
        yield case("of a fenced broker")
    yield brokers_now("producer ids", clear)


def controller_registration(version: int) -> Iterator[Case]:
    of = ControllerRegistrationRequest

    def case(name: str, node: int = 4, features: dict[str, tuple[int, int]] | None = None, **options: Any) -> Case:
        request = of(
            **{
                "incarnation_id": incarnation(node, 1),
                "listeners": [of.Listener(name="CONTROLLER", host="127.0.0.1", port=9_004, security_protocol=0)],
                **options,
            },
            controller_id=node,
            features=[
                of.Feature(name=feature, min_supported_version=low, max_supported_version=high)
                for feature, (low, high) in (FEATURES if features is None else features).items()
            ],
        )
        return Case(ApiKey.CONTROLLER_REGISTRATION, version, name, lambda _: request)

    def now(after: str) -> Case:
        return Case(ApiKey.DESCRIBE_CLUSTER, 2, f"after {after}", lambda _: DescribeClusterRequest(endpoint_type=2), before=synced)

    yield case("a new one")
    yield now("a controller registered")
    yield case("the same again")
    yield case("another life", incarnation_id=incarnation(4, 2))
    yield case("without an incarnation", incarnation_id=ZERO_UUID)
    yield case("without listeners", listeners=[])
    yield case("without features", features={})
    yield case("features upside down", features={"metadata.version": (30, 7)})
    yield case("ready for ZooKeeper", zk_migration_ready=True)
    yield case("listener twice", listeners=[of.Listener(name="CONTROLLER", host="h", port=port, security_protocol=0) for port in (1, 2)])
    yield case("listener of another name", listeners=[of.Listener(name="OTHER", host="h", port=1, security_protocol=0)])
    for node in (-1, 2**31 - 1):
        yield case(f"as controller {node}", node)
    yield now("odd controllers registered")


REGISTRATION_CASES: dict[ApiKey, Callable[[int], Iterator[Case]]] = {
    ApiKey.BROKER_REGISTRATION: broker_registration,
    ApiKey.BROKER_HEARTBEAT: broker_heartbeat,
    ApiKey.ALTER_PARTITION: alter_partition,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: assign_replicas_to_dirs,
    ApiKey.ALLOCATE_PRODUCER_IDS: allocate_producer_ids,
    ApiKey.CONTROLLER_REGISTRATION: controller_registration,
}
