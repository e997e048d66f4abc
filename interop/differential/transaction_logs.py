"""Cases of what transactions leave in the logs: their records, markers, offsets and producers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from interop.differential.batches import batch
from interop.differential.case import Case
from interop.differential.groups import call
from interop.differential.peer import Peer
from interop.differential.transactions import (
    STATES,
    Before,
    Cases,
    Partitions,
    Producer,
    add_offsets,
    add_partitions,
    added,
    all_settled,
    data_batch,
    describe_transactions,
    end_txn,
    ended,
    initialized,
    known_producers,
    list_transactions,
    transactional_produce,
    written,
)
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.describe_producers import DescribeProducersRequest
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest


def read(name: str, topic: str, isolation_level: int, partitions: Sequence[int] = (0, 1, 2)) -> Case:
    """What lies in a topic, with the aborted transactions in it."""

    def build(peer: Peer) -> FetchRequest:
        wanted = [
            FetchRequest.FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1_000_000, log_start_offset=-1)
            for number in partitions
        ]
        return FetchRequest(
            max_wait_ms=100,
            min_bytes=0,
            max_bytes=10_000_000,
            isolation_level=isolation_level,
            topics=[FetchRequest.FetchTopic(topic=topic, partitions=wanted)],
        )

    return Case(ApiKey.FETCH, 12, name, build)


def write_markers(version: int) -> Iterator[Case]:
    cases = Cases(ApiKey.WRITE_TXN_MARKERS, version)
    topic, ongoing = f"markers-{version}", f"markers-{version}-ongoing"
    base = 5_500_000 + version * 1_000

    def marker(number: int, epoch: int, partitions: Partitions, *, commit: bool = True, coordinator: int = 0, transaction: int = 0) -> Any:
        topics = [WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=n, partition_indexes=list(each)) for n, each in partitions.items()]
        return WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=base + number,
            producer_epoch=epoch,
            transaction_result=commit,
            topics=topics,
            coordinator_epoch=coordinator,
            transaction_version=transaction,
        )

    def case(name: str, *markers: Any, before: Before | None = None) -> Case:
        return cases.case(name, before, lambda *_: WriteTxnMarkersRequest(markers=list(markers)))

    def wrote(number: int, epoch: int, sequence: int = 0) -> Before:
        """A batch that is in no transaction, so that the producer's epoch is known."""

        def produce(peer: Peer, _: str) -> None:
            request = transactional_produce(peer, 12, None, {0: data_batch(base + number, epoch, sequence, transactional=False)}, topic)
            answer = peer.call(ApiKey.PRODUCE, 12, request)
            assert answer.responses[0].partition_responses[0].error_code == 0, (peer.name, answer)

        return produce

    def of_open(name: str, number: int, transaction: int, epochs_on: int, before: Before | None = None) -> Case:
        """A marker for the producer whose transaction is open, with its epoch or a later one."""

        def build(_: Peer, __: str, producer: Producer) -> WriteTxnMarkersRequest:
            wanted = marker(0, producer[1] + epochs_on, {ongoing: (0,)}, transaction=transaction)
            wanted.producer_id = producer[0]
            return WriteTxnMarkersRequest(markers=[wanted])

        return cases.case(name, before, build, transactional_id=f"{topic}-open-{number}")

    def opened(peer: Peer, transactional_id: str) -> None:
        written(peer, transactional_id, ongoing)

    own = {topic: (0,)}
    yield case("no markers", before=lambda peer, _: peer.create_topic(topic, 3))
    yield case("no topics", marker(1, 0, {}))
    yield case("no partitions", marker(1, 0, {topic: ()}))
    yield case("unknown topic", marker(1, 0, {"nowhere": (0,)}))
    yield case("unknown partition", marker(1, 0, {topic: (0, 3)}))
    yield case("commit of an unknown producer", marker(2, 0, own))
    yield case("abort of an unknown producer", marker(3, 0, {topic: (0, 1, 2)}, commit=False))
    yield case("the same epoch", marker(4, 3, own), before=wrote(4, 3))
    yield case("a later epoch", marker(5, 3, own), before=wrote(5, 1))
    yield case("an older epoch", marker(6, 1, own), before=wrote(6, 3))
    yield case("coordinator epoch 5", marker(7, 3, own, coordinator=5), before=wrote(7, 3))
    yield case("an older coordinator epoch", marker(7, 3, own, coordinator=4))
    yield case("a negative coordinator epoch", marker(8, 0, own, coordinator=-1))
    yield case("a negative epoch", marker(9, -1, own))
    yield case("offsets", marker(10, 0, {"__consumer_offsets": (0, 1)}))
    yield case("offsets and records", marker(11, 0, {"__consumer_offsets": (2,), **own}, commit=False))
    yield case("an unknown partition of the offsets", marker(12, 0, {"__consumer_offsets": (70,)}))
    yield case("two producers", marker(13, 0, own), marker(14, 0, {topic: (1,)}))
    yield case("one producer twice", marker(15, 0, {topic: (0,)}), marker(15, 1, {topic: (1,)}, commit=False))
    if version >= 2:
        yield case("the same epoch, version 2", marker(16, 3, own, transaction=2), before=wrote(16, 3))
        yield case("the next epoch, version 2", marker(17, 4, own, transaction=2), before=wrote(17, 3))
        yield case("an older epoch, version 2", marker(18, 2, own, transaction=2), before=wrote(18, 3))
        yield case("an unknown producer, version 2", marker(19, 0, own, transaction=2))
        yield case("the same epoch, version 1", marker(20, 3, own, transaction=1), before=wrote(20, 3))
        yield case("offsets, version 2", marker(21, 1, {"__consumer_offsets": (0,)}, transaction=2))
        yield case("offsets again, version 2", marker(21, 1, {"__consumer_offsets": (0,)}, transaction=2))
        yield case("the next epoch again, version 2", marker(17, 4, own, transaction=2))
        yield case("the same epoch, version 3", marker(22, 3, own, transaction=3), before=wrote(22, 3))
        yield case("a negative version", marker(23, 3, own, transaction=-1), before=wrote(23, 3))
        yield case("no markers again", before=lambda peer, _: peer.create_topic(ongoing))
        for number in (0, 1, 2, 3):
            yield of_open(f"the epoch of an open transaction, version {number}", number, number, 0, opened)
            yield of_open(f"the epoch after that of an open transaction, version {number}", number, number, 1)
            yield of_open(f"the epoch after that of an open transaction again, version {number}", number, number, 1)
    yield read(f"what WriteTxnMarkers v{version} left", topic, 0)
    yield read(f"what WriteTxnMarkers v{version} left, committed", topic, 1)
    left = {topic: (0, 1, 2), ongoing: (0,)}
    yield Case(ApiKey.DESCRIBE_PRODUCERS, 0, f"after WriteTxnMarkers v{version}", lambda _: _producers_request(left))


def txn_offset_commit(version: int) -> Iterator[Case]:
    cases = Cases(ApiKey.TXN_OFFSET_COMMIT, version)

    def with_offsets(peer: Peer, transactional_id: str) -> None:
        """An open transaction with the offsets of the group that is called like the id."""
        producer_id, epoch = initialized(peer, transactional_id)
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, group_id=transactional_id
        )
        answer = call(peer, ApiKey.ADD_OFFSETS_TO_TXN, 3, request)
        assert answer.error_code == 0, (peer.name, answer)

    def case(
        name: str,
        before: Before | None,
        topics: Partitions | None = None,
        change: Callable[[Producer], Producer] = lambda producer: producer,
        *,
        metadata: str | None = "note",
        group: str | None = None,
        transactional_id: str | None = None,
        **options: Any,
    ) -> Case:
        topic, partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic, TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition

        def build(peer: Peer, own: str, producer: Producer) -> TxnOffsetCommitRequest:
            producer_id, epoch = change(producer)
            wanted = {"plain": (0,)} if topics is None else topics
            return TxnOffsetCommitRequest(
                transactional_id=own,
                group_id=own if group is None else group,
                producer_id=producer_id,
                producer_epoch=epoch,
                topics=[
                    topic(
                        name=name,
                        partitions=[partition(partition_index=each, committed_offset=9, committed_metadata=metadata) for each in numbers],
                    )
                    for name, numbers in wanted.items()
                ],
                **options,
            )

        return cases.case(name, before, build, transactional_id=transactional_id)

    yield case("offsets added", with_offsets)
    yield case("unknown id", None)
    yield case("empty id", None, transactional_id="", group="txn-offset-empty-id")
    yield case("empty group", with_offsets, group="")
    yield case("offsets of another group", with_offsets, group=f"another-{version}")
    yield case("unknown topic", with_offsets, {"nowhere": (0,)})
    yield case("unknown partition", with_offsets, {"plain": (0, 4), "three": (0, 2)})
    yield case("no topics", with_offsets, {})
    yield case("no partitions", with_offsets, {"plain": ()})
    yield case("metadata too long", with_offsets, metadata="x" * 4097)
    yield case("no metadata", with_offsets, metadata=None)
    yield case("older epoch", with_offsets, None, lambda p: (p[0], p[1] - 1))
    yield case("later epoch", with_offsets, None, lambda p: (p[0], p[1] + 1))
    yield case("other producer", with_offsets, None, lambda p: (4_000_000_000, p[1]))
    for state, before in STATES.items():
        yield case(f"offsets not added, {state}", before)
    if version >= 3:
        yield case("unknown member", with_offsets, member_id="nobody", generation_id=1)
        yield case("generation without member", with_offsets, generation_id=5)
        yield case("member without generation", with_offsets, member_id="nobody")
        yield case("unknown instance", with_offsets, member_id="nobody", generation_id=1, group_instance_id="me")


def _producers_request(partitions: Partitions) -> DescribeProducersRequest:
    topic = DescribeProducersRequest.TopicRequest
    return DescribeProducersRequest(topics=[topic(name=name, partition_indexes=list(numbers)) for name, numbers in partitions.items()])


def describe_producers(version: int) -> Iterator[Case]:
    cases = Cases(ApiKey.DESCRIBE_PRODUCERS, version)

    def case(name: str, partitions: Partitions, before: Before | None = None) -> Case:
        return cases.case(name, before, lambda *_: _producers_request(partitions))

    def topic_with(before: Before) -> Before:
        def prepare(peer: Peer, own: str) -> None:
            peer.create_topic(own)
            before(peer, own)

        return prepare

    def several_of(peer: Peer, own: str) -> None:
        peer.create_topic(own, 2)
        for number, epoch in ((1, 0), (2, 3)):
            for partition in (0, 1):
                records = batch(2, producer_id=5_800_000 + number, producer_epoch=epoch, base_sequence=0)
                peer.call(ApiKey.PRODUCE, 12, transactional_produce(peer, 12, None, {partition: records}, own))

    yield case("no producers", {"plain": (0,)})
    yield case("unknown topic", {"nowhere": (0,)})
    yield case("unknown partition", {"plain": (0, 8, -1)})
    yield case("no topics", {})
    yield case("no partitions", {"plain": ()})
    yield case("a partition twice", {"plain": (0, 0)})
    yield case("two producers", {cases.id_of("two producers"): (0, 1)}, several_of)
    name = cases.id_of("ongoing")
    yield case("ongoing", {name: (0,)}, topic_with(lambda peer, own: written(peer, own, own)))
    yield case("committed", {name: (0,)}, lambda peer, _: ended(peer, name, commit=True, version=5))
    old = cases.id_of("aborted")

    def aborted(peer: Peer, own: str) -> None:
        peer.create_topic(own)
        written(peer, own, own)
        ended(peer, own, commit=False, version=4)

    yield case("aborted", {old: (0,)}, aborted)


def _within_one(version: int, case: Callable[..., Case]) -> Iterator[Case]:
    """What its producer and others send while the first case's transaction is open."""
    yield case("txn, again", None, like="txn, added")
    yield case("txn, the next", None, 2, like="txn, added")
    yield case("txn, a gap", None, 9, like="txn, added")
    yield case("txn, not added but open elsewhere", None, like="txn, added", partitions=(1,))
    yield case("txn, some added", None, 4, like="txn, added", partitions=(0, 2))
    yield case("txn, not transactional", None, 4, like="txn, added", transactional=False)
    yield case("txn, another transactional id", None, 4, like="txn, added", named="somebody-else")
    yield case("txn, older epoch", None, 4, change=lambda p: (p[0], p[1] - 1), like="txn, added")
    yield case("txn, later epoch", None, 0, change=lambda p: (p[0], p[1] + 1), like="txn, added")
    yield case("txn, other producer", None, 0, change=lambda p: (4_000_000_000 + version, p[1]), like="txn, added")
    yield case("txn, two batches", None, 4, 6, like="txn, added")
    yield case("txn, acks 1", None, 4, like="txn, added", acks=1)
    yield case("txn, acks 0", None, 6, like="txn, added", acks=0)


def produce_transactionally(version: int) -> Iterator[Case]:
    """Produce of transactional records; those of the others stand in `cases` and `combinations`."""
    cases = Cases(ApiKey.PRODUCE, version)
    topic = f"transactional-{version}"

    def opened(peer: Peer, own: str) -> None:
        added(peer, own, {topic: (0,)})

    def case(
        name: str,
        before: Before | None,
        *sequences: int,
        change: Callable[[Producer], Producer] = lambda producer: producer,
        partitions: Sequence[int] = (0,),
        named: str | None = None,
        to: str = topic,
        transactional: bool = True,
        like: str | None = None,
        acks: int = -1,
    ) -> Case:
        def build(peer: Peer, own: str, producer: Producer) -> ProduceRequest:
            producer_id, epoch = change(producer)
            records = b"".join(data_batch(producer_id, epoch, sequence, transactional=transactional) for sequence in sequences or (0,))
            return transactional_produce(peer, version, own if named is None else named, dict.fromkeys(partitions, records), to, acks=acks)

        own = None if like is None else cases.id_of(like)
        return cases.case(name, before, build, transactional_id=own, expect_silence=acks == 0)

    def create(peer: Peer, own: str) -> None:
        peer.create_topic(topic, 3)
        opened(peer, own)

    yield case("txn, added", create)
    yield from _within_one(version, case)
    yield case("txn, unknown topic", initialized, to="nowhere")
    yield case("txn, unknown partition", initialized, partitions=(0, 7))
    yield case("txn, unknown id", None)
    yield case("txn, empty id", initialized, named="")
    yield case("txn, in mid-sequence", opened, 5)
    for state, before in STATES.items():
        yield case(f"txn, {state}", before)
        yield case(f"txn, older epoch, {state}", before, change=lambda p: (p[0], p[1] - 1))
        yield case(f"txn, later epoch, {state}", before, change=lambda p: (p[0], p[1] + 1))

    def two_producers(peer: Peer, own: str, producer: Producer) -> ProduceRequest:
        records = {0: data_batch(*producer, 0), 1: data_batch(producer[0] + 1_000_000, producer[1], 0)}
        return transactional_produce(peer, version, own, records, topic)

    yield cases.case("txn, two producers", opened, two_producers)
    yield read(f"transactions of Produce v{version}, open", topic, 0)
    yield read(f"transactions of Produce v{version}, open, committed", topic, 1)

    def end_all(peer: Peer) -> None:
        """Every transaction that the cases left open, the first by a commit."""
        for (broker, transactional_id), _ in sorted(known_producers.items()):
            if broker == peer.name and transactional_id.startswith(f"produce-{version}-"):
                initialized(peer, transactional_id)
        all_settled(peer)

    last = read(f"transactions of Produce v{version}, ended", topic, 1)
    last.before = end_all
    yield last
    yield read(f"transactions of Produce v{version}, ended, with the aborted", topic, 0)
    yield Case(
        ApiKey.DESCRIBE_PRODUCERS, 0, f"after the transactions of Produce v{version}", lambda _: _producers_request({topic: (0, 1, 2)})
    )


TRANSACTION_CASES: dict[ApiKey, Callable[[int], Iterator[Case]]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: add_offsets,
    ApiKey.END_TXN: end_txn,
    ApiKey.WRITE_TXN_MARKERS: write_markers,
    ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions,
    ApiKey.LIST_TRANSACTIONS: list_transactions,
}
