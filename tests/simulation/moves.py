"""Random stories of producers with transactions on three brokers, while coordinators, leaders and links come and go.

At the end, when all is well again: what a producer was told is committed can be read, exactly once and in order, what it was told is
aborted cannot; a transaction is visible in all of its partitions or in none, offsets included; nothing hangs; replicas are equal.
Meanwhile: an offset that was acknowledged to a group, or shown, is what its coordinator answers from then on, or a later one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.coordinator.transaction.state import AT_REST
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from odradek.protocol.schema import Message
from odradek.records.batch import decode_batch, iter_headers
from odradek.storage.append import read_marker
from tests.replication.support import batch
from tests.simulation.cluster import DATA, LEADERS, NODES, OFFSETS, TRANSACTIONS, Cluster

STATE, GROUPS = TopicPartition(TRANSACTIONS, 0), TopicPartition(OFFSETS, 0)
PATIENCE_S = 3.0
FENCED = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE}
ABORTABLE = {ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
Then = Callable[[Any], object]


class Producer:
    """One instance of a transactional producer. Every request is repeated, byte by byte, until it is answered."""

    def __init__(self, story: Story, name: str, number: int) -> None:
        self.story = story
        self.name = name
        self.number = number
        self.alive = True
        self.who: tuple[int, int] | None = None
        self.coordinator: int | None = None
        self.transactions = 0
        self.pending: tuple[Callable[[], int | None], Message, int, Then] | None = None
        self.waiting: object | None = None
        self._begin()

    def _begin(self) -> None:
        self.transactions += 1
        self.tag = f"{self.name}.{self.number}.{self.transactions}"
        self.sequences: dict[int, int] = getattr(self, "sequences", {})
        self.steps = self.story.rng.randint(1, 4)
        self.added: set[TopicPartition] = set()
        self.decision: bool | None = None
        self.doomed = False

    # -- asking ------------------------------------------------------------------------------------------------------------------

    def _ask(self, where: Callable[[], int | None], request: Message, version: int, then: Then) -> None:
        self.pending = (where, request, version, then)
        self._send()

    def _send(self) -> None:
        assert self.pending is not None
        where, request, version, then = self.pending
        node = where()
        if node is None:
            return
        token = self.waiting = object()
        story = self.story

        def gave_up() -> None:
            if self.waiting is token:
                self.waiting = None
                self.coordinator = None

        def arrived(done: Any) -> None:
            if self.waiting is token and self.alive:
                self.waiting = None
                then(done.result())

        story.cluster.clock.call_later(PATIENCE_S, gave_up)
        story.cluster.ask(node, request, version).add_callback(arrived)

    def _coordinator(self) -> int | None:
        if self.coordinator is None:
            asked = self.story.cluster.ask(
                self.story.rng.choice(NODES), FindCoordinatorRequest(key_type=1, coordinator_keys=[self.name]), 4
            )
            asked.add_callback(self._found)
        return self.coordinator

    def _found(self, done: Any) -> None:
        (found,) = done.result().coordinators
        if found.error_code == ErrorCode.NONE:
            self.coordinator = found.node_id

    def _judge(self, code: int, done: Then) -> None:
        """Goes on, begins anew, gives the transaction up, or asks again with the next step."""
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self.pending = None
            done(None)
        elif code in FENCED:
            self.pending = self.who = None
            self.sequences = {}
            self._begin()
        elif code in ABORTABLE:
            self.pending = None
            self.doomed = True
        else:
            self.coordinator = None

    # -- the steps of a transaction ----------------------------------------------------------------------------------------------

    def step(self) -> None:
        if self.waiting is not None or not self.alive:
            return
        if self.pending is not None:
            self._send()
        elif self.who is None:
            self._initialize()
        elif self.doomed:
            self._end(commit=False)
        elif self.steps > 0:
            self.steps -= 1
            self._write()
        else:
            self._end(commit=self.story.rng.random() < 0.75)

    def _initialize(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=8_000)

        def answered(answer: Any) -> None:
            def known(_: None) -> None:
                self.who = answer.producer_id, answer.producer_epoch
                self.sequences = {}

            self._judge(answer.error_code, known)

        self._ask(self._coordinator, request, 4, answered)

    def _write(self) -> None:
        number = self.story.rng.randrange(4)
        if self.story.version < 2:
            partition = GROUPS if number == 3 else TopicPartition(DATA, number)
            if partition not in self.added:
                self._add(partition)
                return
        if number == 3:
            self._commit_offsets()
        else:
            self._produce(number)

    def _add(self, partition: TopicPartition) -> None:
        producer_id, epoch = self.who or (0, 0)
        self.steps += 1
        if partition == GROUPS:
            offsets = AddOffsetsToTxnRequest(
                transactional_id=self.name, producer_id=producer_id, producer_epoch=epoch, group_id=f"g{self.name}"
            )
            self._ask(self._coordinator, offsets, 3, lambda answer: self._judge(answer.error_code, lambda _: self.added.add(partition)))
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=DATA, partitions=[partition.partition])],
        )

        def answered(answer: Any) -> None:
            code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            self._judge(code, lambda _: self.added.add(partition))

        self._ask(self._coordinator, request, 3, answered)

    def _produce(self, number: int) -> None:
        producer_id, epoch = self.who or (0, 0)
        story, tag = self.story, self.tag
        sequence = self.sequences.get(number, 0)
        value = story.next_value()
        data = batch(f"{tag}:{value}".encode(), producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True)
        topic = ProduceRequest.TopicProduceData(
            name=DATA, partition_data=[ProduceRequest.PartitionProduceData(index=number, records=bytes(data))]
        )
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=2_000, topic_data=[topic])

        def written(_: None) -> None:
            self.sequences[number] = sequence + 1
            story.acked.setdefault(tag, []).append((number, value))

        def answered(answer: Any) -> None:
            self._judge(answer.responses[0].partition_responses[0].error_code, written)

        self._ask(lambda: story.leader(TopicPartition(DATA, number)), request, 12 if story.version >= 2 else 11, answered)

    def _commit_offsets(self) -> None:
        producer_id, epoch = self.who or (0, 0)
        story, tag = self.story, self.tag
        value = story.next_value()
        partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=value, committed_metadata=tag
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=f"g{self.name}",
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=DATA, partitions=[partition])],
        )

        def answered(answer: Any) -> None:
            self._judge(answer.topics[0].partitions[0].error_code, lambda _: story.offsets.setdefault(self.name, []).append((tag, value)))

        self._ask(lambda: story.leader(GROUPS), request, 5 if story.version >= 2 else 3, answered)

    def _end(self, *, commit: bool) -> None:
        producer_id, epoch = self.who or (0, 0)
        request = EndTxnRequest(transactional_id=self.name, producer_id=producer_id, producer_epoch=epoch, committed=commit)
        bumps = self.story.version >= 2

        def answered(answer: Any) -> None:
            def ended(_: None) -> None:
                self.story.told[self.tag] = commit
                if bumps:
                    self.who = answer.producer_id, answer.producer_epoch
                    self.sequences = {}
                self._begin()

            self._judge(answer.error_code, ended)

        self._ask(self._coordinator, request, 5 if bumps else 4, answered)


class Group:
    """Somebody who commits offsets outside of transactions, each higher than the last, and asks for them."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.value = 0
        self.acknowledged = self.seen = -1
        self.waiting: object | None = None
        self.problems: list[str] = []
        self.reads = 0

    def step(self) -> None:
        if self.waiting is None:
            (self._commit if not self.story.slow and self.story.rng.random() < 0.5 else self._read)()

    def _ask(self, node: int, request: Message, version: int, then: Then) -> None:
        token = self.waiting = object()

        def over(done: Any | None = None) -> None:
            if self.waiting is token:
                self.waiting = None
                if done is not None:
                    then(done.result())

        self.story.cluster.clock.call_later(PATIENCE_S, over)
        self.story.cluster.ask(node, request, version).add_callback(over)

    def _commit(self) -> None:
        self.value = value = self.value + 1
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=1, committed_offset=value, committed_metadata="")
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=DATA, partitions=[partition])

        def answered(answer: Any) -> None:
            if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
                self.acknowledged = max(self.acknowledged, value)
                if self.story.rng.random() < 0.3:
                    self.story.replace_leader(GROUPS)

        self._ask(self.story.leader(GROUPS), OffsetCommitRequest(group_id="plain", topics=[topic]), 8, answered)

    def _read(self) -> None:
        """From the one that leads all the while: a coordinator that was deposed and does not know it yet answers what it had."""
        story, least = self.story, max(self.acknowledged, self.seen)
        node = story.leader(GROUPS)
        known = len(story.cluster.records)
        sure = node == story.cluster.leaders[GROUPS] and story.cluster.nodes[node].told == known
        wanted = OffsetFetchRequest.OffsetFetchRequestTopics(name=DATA, partition_indexes=[1])
        request = OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id="plain", topics=[wanted])])

        def answered(answer: Any) -> None:
            (group,) = answer.groups
            if group.error_code == ErrorCode.NONE and sure and len(story.cluster.records) == known:
                self.reads += 1
                found = group.topics[0].partitions[0].committed_offset
                self.seen = max(self.seen, found)
                if found < least:
                    self.problems.append(f"node {node} answers the offset {found} after {least} was acknowledged or seen")

        self._ask(node, request, 8, answered)


class Story:
    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.version = rng.choice((0, 2, 2))
        self.cluster = Cluster(rng, transaction_version=self.version)
        network = self.cluster.network
        network.loss = rng.choice((0.0, 0.02, 0.1))
        network.repeat = rng.choice((0.0, 0.05))
        network.delays_ms = rng.choice(((1.0,), (1.0, 1.0, 20.0, 150.0)))
        self.told: dict[str, bool] = {}
        self.acked: dict[str, list[tuple[int, int]]] = {}
        self.offsets: dict[str, list[tuple[str, int]]] = {}
        self.values = 0
        self.moves = 0
        self.slow = 0
        """For how many steps nobody copies: a new leader's high watermark stays behind what was acknowledged."""
        self.producers = [Producer(self, name, 0) for name in ("a", "b")]
        self.group = Group(self)

    def next_value(self) -> int:
        self.values += 1
        return self.values

    def leader(self, partition: TopicPartition) -> int:
        """As some node has it in its metadata."""
        image = self.cluster.nodes[self.rng.choice(NODES)].services.metadata.image
        found = image.topics.partition(partition.topic, partition.partition)
        assert found is not None
        return found.leader

    # -- what happens ------------------------------------------------------------------------------------------------------------

    def run(self, steps: int = 500) -> None:
        for _ in range(steps):
            for producer in self.producers:
                producer.step()
            self.group.step()
            if self.rng.random() < 0.07:
                self._happen()
            self.slow = max(self.slow - 1, 0)
            for node in NODES:
                if not self.slow and self.rng.random() < 0.7:
                    self.cluster.copy(node)
            self.cluster.advance_ms(self.rng.choice((1, 5, 20, 100)))

    def _happen(self) -> None:
        rng, cluster = self.rng, self.cluster
        roll = rng.random()
        if roll < 0.35:
            partition = rng.choice([STATE, STATE, GROUPS, *LEADERS])
            leader = rng.choice((*NODES, cluster.leaders[partition]))
            # Before transaction version 2 epochs do not tell a repetition from the end of the next transaction.
            sure = self.version < 2 and partition == STATE
            told = [node for node in NODES if sure or rng.random() < 0.6]
            if rng.random() < 0.2:
                cluster.change_isr(partition, NODES, *told)
            else:
                self.moves += leader != cluster.leaders[partition]
                cluster.elect(partition, leader, *told)
        elif roll < 0.60:
            cluster.tell(*NODES)
        elif roll < 0.70:
            cluster.network.cut ^= {frozenset(rng.sample(NODES, 2))}
        elif roll < 0.80:
            cluster.network.cut.clear()
        elif roll < 0.90:
            cluster.abort_timed_out()
        elif len(self.producers) < 6:
            # Another instance of a producer, while the old one lives on or not.
            old = rng.choice(self.producers)
            old.alive = rng.random() < 0.4
            self.producers.append(Producer(self, old.name, len(self.producers)))

    def end(self) -> None:
        cluster = self.cluster
        network = cluster.network
        network.loss = network.repeat = 0.0
        network.cut.clear()
        cluster.tell(*NODES)
        for producer in self.producers:
            producer.alive = False
        for _ in range(12):
            cluster.run(1.0)
            cluster.advance_ms(3_000)
            cluster.abort_timed_out()
        cluster.run(1.0)

    def replace_leader(self, partition: TopicPartition) -> None:
        """Its leader has gone at this very moment: the next one does not know what was acknowledged last, and nobody copies yet."""
        cluster = self.cluster
        self.moves += 1
        self.slow = 15
        cluster.elect(partition, self.rng.choice([node for node in NODES if node != cluster.leaders[partition]]), *NODES)

    # -- what is found -----------------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        found = list(self.group.problems)
        visible: dict[str, set[int]] = {}
        hidden: dict[str, set[int]] = {}
        read: dict[int, list[int]] = {}
        for number in range(3):
            partition = TopicPartition(DATA, number)
            log = self.cluster.leader(partition).log(partition)
            if log.last_stable_offset != log.log_end_offset:
                found.append(f"{partition}: last stable offset {log.last_stable_offset}, end {log.log_end_offset}")
            values = read[number] = []
            for committed, tag, value in self._records(partition):
                (visible if committed else hidden).setdefault(tag, set()).add(number)
                if committed:
                    values.append(value)
            if len(values) != len(set(values)):
                found.append(f"{partition}: records are there twice")
        found += [f"{tag} is visible in {visible[tag]} and aborted in {hidden[tag]}" for tag in visible.keys() & hidden.keys()]
        for tag, commit in self.told.items():
            if commit:
                found += [f"{tag}: {value} in {number} is lost" for number, value in self.acked.get(tag, ()) if value not in read[number]]
            elif tag in visible:
                found.append(f"{tag} was aborted, and can be read")
            mine = [value for number, value in self.acked.get(tag, ()) if number == 0 and commit]
            if [value for value in read[0] if value in mine] != mine:
                found.append(f"{tag} is out of order")
        found += self._offset_problems(visible, hidden)
        return found + self._rest()

    def _records(self, partition: TopicPartition) -> list[tuple[bool, str, int]]:
        """(committed, transaction, value) in the order in which transactions ended."""
        log = self.cluster.leader(partition).log(partition)
        read = log.read(0, max_bytes=1 << 30, max_offset=log.log_end_offset, min_one_message=True)
        data = memoryview(b"".join([piece.read(0, piece.size) for piece in read.slices]))
        read.release()
        pending: dict[int, list[tuple[str, int]]] = {}
        ended: list[tuple[bool, str, int]] = []
        for position, header in iter_headers(data):
            if header.is_control:
                marker = read_marker(data, position, header)
                assert marker is not None
                ended += [(not marker.aborted, tag, value) for tag, value in pending.pop(header.producer_id, [])]
                continue
            for record in decode_batch(data, position, header):
                tag, _, value = (record.value or b"").decode().partition(":")
                pending.setdefault(header.producer_id, []).append((tag, int(value)))
        return ended

    def _offset_problems(self, visible: dict[str, set[int]], hidden: dict[str, set[int]]) -> list[str]:
        found: list[str] = []
        groups = self.cluster.leader(GROUPS).parts.groups
        wanted = OffsetFetchRequest.OffsetFetchRequestTopics(name=DATA, partition_indexes=[0])
        for name, commits in self.offsets.items():
            request = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=f"g{name}", topics=[wanted])
            shown = groups.fetch_offsets(request, require_stable=True).result().topics[0].partitions[0]
            if shown.error_code:
                found.append(f"{name}: its offset is hidden: {ErrorCode(shown.error_code).name}")
            value, tag = shown.committed_offset, shown.metadata
            if self.told.get(tag) is False or (tag in hidden and tag not in visible):
                found.append(f"the offset {value} of {tag}, which is aborted, is committed")
            found += [
                f"{name}: the offset {each} of {owner} is lost, {value} is there"
                for owner, each in commits
                if self.told.get(owner) is True and each > value
            ]
        return found

    def _rest(self) -> list[str]:
        found: list[str] = []
        cluster = self.cluster
        coordinator = cluster.leader(STATE).parts.transactions
        found += [f"{each} does not end" for each in coordinator.all() if each.state not in AT_REST]
        for node in NODES:
            if cluster.nodes[node].parts.transactions.unfinished_markers:
                found.append(f"node {node} still writes markers")
        for partition in LEADERS:
            ends = {(log.log_end_offset, log.high_watermark) for log in [cluster.nodes[node].log(partition) for node in NODES]}
            if len({end for end, _ in ends}) != 1:
                found.append(f"{partition}: replicas end at {ends}")
        return found


def play(seed: int) -> tuple[list[str], Story]:
    """The problems of one story."""
    story = Story(seed)
    story.run()
    story.end()
    return story.problems(), story
