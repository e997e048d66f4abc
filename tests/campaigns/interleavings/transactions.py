"""Interleavings of producers, transaction coordinators that follow one another, and leaders of partitions.

Invariants: epoch-fencing, one-outcome-per-transaction, what-was-told-is-so, markers-for-every-partition, one-producer-per-epoch,
one-transaction-at-a-time, pending-transitions-end, last-stable-offset-moves-on, state-equals-replay-of-the-log,
reverted-state-equals-before, every-request-answered-once, no-timer-leaks, memory-bounded.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.undo import UndoJournal
from odradek.coordinator.context import RuntimeOptions
from odradek.coordinator.runtime import CoordinatorRuntime
from odradek.coordinator.timers import Timers
from odradek.coordinator.transaction.markers import NO_LEADER, MarkerSender
from odradek.coordinator.transaction.records import SERDE, transaction_record
from odradek.coordinator.transaction.service import TOPIC, TransactionCoordinator, TransactionSettings
from odradek.coordinator.transaction.shard import TransactionShard
from odradek.coordinator.transaction.state import AT_REST, MAX_EPOCH, Transaction
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from odradek.protocol.schema import Message
from odradek.records.batch import encode_batch
from tests.campaigns.interleavings.world import Net, ScriptLog, calm, expect, trouble
from tests.clock import ManualClock

HOME = TopicPartition(TOPIC, 0)
PARTITIONS = [TopicPartition("t", number) for number in range(4)]
SETTINGS = TransactionSettings(max_timeout_ms=900_000, expiration_ms=604_800_000, two_phase_commit=False)
OPTIONS = RuntimeOptions()
_GONE = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE}
_PATIENCE_S = 5.0
Who = tuple[int, int]
Done = Callable[[Deferred[Any]], None]


def shard_of(runtime: CoordinatorRuntime[Any]) -> Any:
    context = runtime.find(HOME)
    assert context is not None
    return context.shard


class DataPartition:
    """A leader's partition, as far as transactions see it: who writes, with which epoch, and how it ended."""

    def __init__(self, story: Story, name: TopicPartition, leader: int) -> None:
        self.story = story
        self.name = name
        self.leader = leader
        self.deleted = False
        self.producers: dict[int, list[int]] = {}
        """Producer id -> [epoch, coordinator epoch]."""
        self.open: dict[int, set[str]] = {}
        """Producer id -> transactions (by the producers' own names for them) that wait for their marker."""
        self.guards: dict[int, object] = {}
        self.outcomes: dict[str, bool] = {}

    def start(self, who: Who) -> object | None:
        """A guard, when whoever writes has to be verified first."""
        if who[0] in self.open and self.producers[who[0]][0] == who[1]:
            return None
        return self.guards.setdefault(who[0], object())

    def append(self, who: Who, transaction: str, guard: object | None) -> None:
        producer_id, epoch = who
        known = self.producers.setdefault(producer_id, [epoch, -1])
        if epoch < known[0]:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
        if producer_id not in self.open or known[0] != epoch:
            if guard is None or self.guards.get(producer_id) is not guard:
                raise KafkaError(ErrorCode.INVALID_TXN_STATE, "not verified")
            expect(producer_id not in self.open, "one-transaction-at-a-time", f"{who} begins {transaction} beside {self.open}")
            del self.guards[producer_id]
        known[0] = epoch
        here = self.open.setdefault(producer_id, set())
        here.add(transaction)
        expect(len(here) == 1, "one-transaction-at-a-time", here)
        expect(transaction not in self.outcomes, "one-outcome-per-transaction", f"{transaction} goes on after its end in {self.name}")

    def end(self, marker: WriteTxnMarkersRequest.WritableTxnMarker) -> ErrorCode:
        known = self.producers.get(marker.producer_id)
        epoch = marker.producer_epoch
        if known is not None:
            if epoch < known[0]:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            bumps = marker.transaction_version >= 2 and epoch != MAX_EPOCH
            if bumps and epoch == known[0] and marker.producer_id in self.open:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if marker.coordinator_epoch < known[1]:
                return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        self.producers[marker.producer_id] = [epoch, marker.coordinator_epoch]
        self.guards.pop(marker.producer_id, None)
        for transaction in self.open.pop(marker.producer_id, ()):
            self.outcomes[transaction] = marker.transaction_result
            self.story.ended(transaction, marker.transaction_result)
        return ErrorCode.NONE


class Producer:
    """One instance of a producer with a transactional id; several of one id do not know of one another."""

    def __init__(self, story: Story, name: str, number: int) -> None:
        self.story = story
        self.name = name
        self.number = number
        self.who: Who | None = None
        self.expected: Who | None = None
        self.waiting: object | None = None
        self.transactions = 0
        self.transaction: str | None = None
        self.added: set[TopicPartition] = set()
        self.written: set[TopicPartition] = set()
        self.sure = True
        """All that this transaction has written is known to be there."""
        self.decision: bool | None = None

    def step(self) -> None:
        if self.waiting is not None:
            return
        rng = self.story.rng
        if self.who is None:
            self._initialize()
        elif self.decision is not None:
            self._end()
        elif self.transaction is None or not self.written or rng.random() < 0.5:
            self._write()
        else:
            self.decision = self.sure and rng.random() < 0.75
            self._end()

    def _ask(self, request: Callable[[], Deferred[Any]], then: Done) -> None:
        token = self.waiting = object()

        def arrived(done: Deferred[Any]) -> None:
            if self.waiting is token:
                self.waiting = None
                then(done)

        def gave_up() -> None:
            if self.waiting is token:
                self.waiting = None
                self.sure = False

        self.story.net.call(request, arrived)
        self.story.clock.call_later(_PATIENCE_S, gave_up)

    # -- requests ----------------------------------------------------------------------------------------------------------------

    def _initialize(self) -> None:
        story, expected, instance = self.story, self.expected, self.number

        def request() -> Deferred[Any]:
            node = story.node()
            timeout_ms = story.timeout_ms
            asked = node.initialize(self.name, timeout_ms, expected, two_phase=False, keep_prepared=False)
            asked.add_callback(lambda done: story.handed(self.name, _who(done), instance))
            return asked

        def arrived(done: Deferred[Any]) -> None:
            if done.error is None:
                self.who, self.expected = _who(done), None
                self._begin_anew()
            elif _code(done) in _GONE:
                self.expected = None

        self._ask(request, arrived)

    def _begin_anew(self) -> None:
        self.transaction, self.decision, self.sure = None, None, True
        self.added, self.written = set(), set()

    def _write(self) -> None:
        story = self.story
        who = cast(Who, self.who)
        if self.transaction is None:
            self.transactions += 1
            self.transaction = f"{self.name}/{self.number}/{self.transactions}"
        transaction = self.transaction
        partition = story.rng.choice(PARTITIONS)
        story.attempts.setdefault(transaction, set())

        def arrived(done: Deferred[Any]) -> None:
            if done.error is None:
                self.written.add(partition)
                story.acked.setdefault(transaction, set()).add(partition)
            elif _code(done) in _GONE:
                self._lost()
            else:
                self.sure = False
                self.written.add(partition)

        if story.version < 2 and partition not in self.added:
            added = {partition}

            def was_added(done: Deferred[Any]) -> None:
                if done.error is None:
                    self.added |= added
                elif _code(done) in _GONE:
                    self._lost()

            self._ask(lambda: story.add(self.name, who, added), was_added)
        elif story.version < 2:
            # Records of the same epoch must not come late: sequence numbers see to that.
            answer: Deferred[None] = Deferred()
            self.waiting = object()
            story.produce(self.name, who, partition, transaction, answer)
            self.waiting = None
            arrived(answer)
        else:

            def request() -> Deferred[Any]:
                produced: Deferred[None] = Deferred()
                story.produce(self.name, who, partition, transaction, produced)
                return produced

            self._ask(request, arrived)

    def _end(self) -> None:
        story, transaction, commit, instance = self.story, self.transaction, bool(self.decision), self.number
        who = cast(Who, self.who)

        def request() -> Deferred[Any]:
            node = story.node()
            latest = story.latest(self.name) if node is story.nodes[-1] else None
            before = story.state_of(self.name)
            asked = node.end(self.name, *who, commit=commit, client_version=2 if story.version >= 2 else 0)

            def ended(done: Deferred[Any]) -> None:
                if done.error is not None:
                    return
                told = cast(Who, done.result())
                repeated = story.version >= 2 and latest == told
                story.fencing(self.name, who, latest, f"an end was accepted in {before}") if not repeated else None
                story.handed(self.name, told, instance, deposed=node is not story.nodes[-1])

            asked.add_callback(ended)
            return asked

        def arrived(done: Deferred[Any]) -> None:
            if done.error is None:
                if transaction is not None:
                    story.told(transaction, commit)
                self.who = cast(Who, done.result())
                self._begin_anew()
            elif _code(done) in _GONE:
                self._lost()

        self._ask(request, arrived)

    def _lost(self) -> None:
        """Fenced, or out of step: it initializes anew, perhaps with its old id and epoch (KIP-360)."""
        self.expected = self.who if self.story.rng.random() < 0.5 else None
        self.who = None
        self._begin_anew()


class Story:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.clock = ManualClock()
        self.net = Net(rng, self.clock)
        self.version = rng.choice((0, 1, 2, 2, 2))
        self.timeout_ms = rng.choice((3_000, 20_000))
        self.log = ScriptLog()
        self.ids = 999
        self.partitions = {name: DataPartition(self, name, 1 + index % 2) for index, name in enumerate(PARTITIONS)}
        self.leaderless: set[TopicPartition] = set()
        self.nodes: list[TransactionCoordinator] = []
        self.senders: list[MarkerSender] = []
        self.owners: dict[Who, int] = {}
        self.ranks: dict[str, list[Who]] = {}
        self.outcomes: dict[str, bool] = {}
        self.promises: dict[str, bool] = {}
        self.attempts: dict[str, set[TopicPartition]] = {}
        self.acked: dict[str, set[TopicPartition]] = {}
        self.producers: list[Producer] = []
        self.names = ["a", "b"][: rng.choice((1, 2))]
        self.replays = self.reverted = 0
        if rng.random() < 0.25:
            self._nearly_exhausted()
        self.move(0)
        for name in self.names:
            for _ in range(rng.choice((1, 1, 2))):
                self.new_producer(name)

    # -- coordinators --------------------------------------------------------------------------------------------------------------

    def _nearly_exhausted(self) -> None:
        for name in self.names:
            left = self.rng.choice((1, 2, 3, 6))
            old = Transaction(name, self.next(), MAX_EPOCH - left, self.timeout_ms, last_update_ms=self.clock.time_ms())
            key, value = SERDE.encode(transaction_record(old, self.version))
            self.log.take(encode_batch([(0, key, value, ())]), self.log.open(0))

    def next(self) -> int:
        self.ids += 1
        return self.ids

    def next_id(self) -> Deferred[int]:
        answer: Deferred[int] = Deferred()
        delay = self.rng.choice((0.0, 0.0, 1.0))
        self.clock.call_later(delay, lambda: answer.complete(self.next()))
        return answer

    def new_node(self) -> TransactionCoordinator:
        sender = MarkerSender(self.clock, self, self.send_markers)
        self.senders.append(sender)
        return TransactionCoordinator(
            clock=self.clock,
            options=OPTIONS,
            settings=SETTINGS,
            producer_ids=self,
            markers=sender,
            open_log=lambda _: self.log.open(self.log.leader_epoch),
            image=lambda: cast(Any, None),
            server_version=lambda: self.version,
            partition_of=lambda _: 0,
        )

    def node(self) -> TransactionCoordinator:
        """The node that the client takes for the coordinator: mostly the right one.

        Before transaction version 2 a deposed one that has seen the end of the last transaction takes the end of the next for a repetition.
        """
        return self.nodes[-1] if self.version < 2 or len(self.nodes) == 1 or self.rng.random() < 0.85 else self.nodes[-2]

    def move(self, truncate_to: int | None = None) -> None:
        """Another broker leads the partition, and the old one does not know yet, or the same one does again, or leads on in a new epoch."""
        log, rng = self.log, self.rng
        before = self.nodes[-1] if self.nodes else None
        log.depose()
        leads_on = before is not None and rng.random() < 0.15
        cut = rng.choice(log.boundaries()) if truncate_to is None and not leads_on else log.log_end_offset
        log.truncate(cut)
        expected = None if before is None or rng.random() < 0.5 else self._undone(before, cut)
        stays = leads_on or (before is not None and rng.random() < 0.3)
        if before is not None and not leads_on and (stays or rng.random() < 0.6):
            before.runtime.unload(HOME, log.leader_epoch)
        if not stays:
            self.nodes.append(self.new_node())
        if expected is not None:
            self._equal(expected, self.replayed(), "state-equals-replay-of-the-log")
        self.nodes[-1].runtime.load(HOME, log.leader_epoch)

    def _undone(self, node: TransactionCoordinator, cut: int) -> object | None:
        """The state of a coordinator as it was at an offset, which is what another one has to find in the log."""
        context = node.runtime.find(HOME)
        if context is None or context.state.value != "active":
            return None
        if context.next_offset != self.log.log_end_offset and context.next_offset < cut:
            return None
        if context.unwritten:
            context.close(KafkaError(ErrorCode.NOT_COORDINATOR))
        context.close(KafkaError(ErrorCode.NOT_COORDINATOR))
        context.journal.revert_to(cut)
        return self.state_of_shard(context.shard)

    def state(self, node: TransactionCoordinator) -> object:
        return self.state_of_shard(shard_of(node.runtime))

    def state_of_shard(self, shard: Any) -> dict[str, Transaction]:
        states: dict[str, Transaction] = dict(shard.transactions.items())
        if self.version == 0:
            plain = {"previous_producer_id": -1, "next_producer_id": -1, "client_version": 0}
            return {name: each._replace(last_producer_epoch=-1, **plain) for name, each in states.items()}  # type: ignore[arg-type]
        return {name: each._replace(last_producer_epoch=-1) for name, each in states.items()}

    def _equal(self, left: object, right: object, invariant: str) -> None:
        expect(left == right, invariant, f"{left}\n  is not\n{right}")

    def state_of(self, name: str) -> object:
        context = self.nodes[-1].runtime.find(HOME)
        return None if context is None else context.shard.transactions.get(name)

    # -- leaders -----------------------------------------------------------------------------------------------------------------

    def leader_of(self, topic_partition: TopicPartition) -> int | None:
        partition = self.partitions[topic_partition]
        if partition.deleted:
            return None
        return NO_LEADER if topic_partition in self.leaderless else partition.leader

    def send_markers(self, node: int, request: WriteTxnMarkersRequest) -> Deferred[Message]:
        answer: Deferred[Message] = Deferred()
        # A marker that comes late ends the next transaction, before version 2.
        connection = None if self.version >= 2 else node
        self.net.call(lambda: Deferred.of(self._end_all(node, request)), lambda done: answer.complete(done.result()), connection=connection)
        self.clock.call_later(10.0, answer.fail, KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no answer"))
        return answer

    def _end_all(self, node: int, request: WriteTxnMarkersRequest) -> Message:
        results = []
        for marker in request.markers:
            topics = []
            for topic in marker.topics:
                answers = []
                for index in topic.partition_indexes:
                    partition = self.partitions[TopicPartition(topic.name, index)]
                    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                    if partition.deleted:
                        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    elif partition.leader == node and partition.name not in self.leaderless:
                        code = partition.end(marker)
                    answers.append(WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
                topics.append(WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(name=topic.name, partitions=answers))
            results.append(WriteTxnMarkersResponse.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
        return WriteTxnMarkersResponse(markers=results)

    def add(self, name: str, who: Who, partitions: set[TopicPartition]) -> Deferred[None]:
        node = self.node()
        # One that was deposed may repeat what it committed before.
        latest = self.latest(name) if node is self.nodes[-1] else None
        asked = node.add_partitions(name, *who, partitions, 2 if self.version >= 2 else 0)
        asked.add_callback(lambda done: done.error is not None or self.fencing(name, who, latest, "partitions were added"))
        return asked

    def produce(self, name: str, who: Who, where: TopicPartition, transaction: str, answer: Deferred[None]) -> None:
        """What a leader does with records: it asks the coordinator first, unless the transaction is open there."""
        partition = self.partitions[where]
        guard = partition.start(who)

        def append(done: Deferred[Any] | None) -> None:
            try:
                if done is not None:
                    done.result()
                if partition.deleted or where in self.leaderless:
                    raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                partition.append(who, transaction, guard)
            except KafkaError as error:
                answer.fail(error)
            else:
                answer.complete(None)

        if guard is None:
            append(None)
        elif self.version >= 2:
            self.add(name, who, {where}).add_callback(append)
        else:
            try:
                # Before transaction version 2 the epoch does not tell one transaction from the next: who is deposed must not be asked.
                code = self.nodes[-1].verify(name, *who, [where])[where]
            except KafkaError as error:
                code = error.code
            append(Deferred.of(None) if code is ErrorCode.NONE else Deferred.failed(KafkaError(code)))

    # -- what is seen ------------------------------------------------------------------------------------------------------------

    def handed(self, name: str, who: Who | None, instance: int, *, deposed: bool = False) -> None:
        """A coordinator told a producer who it is.

        A repeated EndTxn is answered from memory, with nothing appended, in JVM Kafka as well: a coordinator that was deposed and has not
        heard of it may be the first to tell of an epoch that is over by then. It does not make it the latest one.
        """
        if who is None:
            return
        owner = self.owners.setdefault(who, instance)
        expect(owner == instance, "one-producer-per-epoch", f"{who} is held by instances {owner} and {instance}")
        ranks = self.ranks.setdefault(name, [])
        if who not in ranks:
            later = [index for index, rank in enumerate(ranks) if deposed and rank > who]
            ranks.insert(later[0] if later else len(ranks), who)

    def latest(self, name: str) -> Who | None:
        ranks = self.ranks.get(name)
        return ranks[-1] if ranks else None

    def fencing(self, name: str, who: Who, latest: Who | None, what: str) -> None:
        expect(latest is None or who == latest or who not in self.ranks[name][:-1], "epoch-fencing", f"{who} after {latest}: {what}")

    def ended(self, transaction: str, commit: bool) -> None:
        """A marker ended the transaction somewhere."""
        outcome = self.outcomes.setdefault(transaction, commit)
        expect(outcome is commit, "one-outcome-per-transaction", transaction)
        promise = self.promises.get(transaction, commit)
        expect(promise is commit, "what-was-told-is-so", f"{transaction}: told {promise}, the marker says {commit}")

    def told(self, transaction: str, commit: bool) -> None:
        self.promises[transaction] = commit
        outcome = self.outcomes.get(transaction, commit)
        expect(outcome is commit, "what-was-told-is-so", f"{transaction}: told {commit}, the markers say {outcome}")

    # -- what happens ------------------------------------------------------------------------------------------------------------

    def new_producer(self, name: str) -> None:
        self.producers.append(Producer(self, name, len(self.producers)))

    def step(self) -> None:
        rng = self.rng
        roll = rng.random()
        if roll < 0.62:
            rng.choice(self.producers).step()
        elif roll < 0.74:
            self._troubled()
        elif roll < 0.80:
            self.move()
        elif roll < 0.84 and len(self.producers) < 5:
            self.new_producer(rng.choice(self.names))
        elif roll < 0.87:
            self.leaderless ^= {rng.choice(PARTITIONS)}
        elif roll < 0.88 and not any(partition.deleted for partition in self.partitions.values()):
            self.partitions[PARTITIONS[3]].deleted = True
        elif roll < 0.90:
            partition = self.partitions[rng.choice(PARTITIONS)]
            partition.leader = 3 - partition.leader
        elif roll < 0.94:
            for node in self.nodes:
                node.abort_timed_out()
        else:
            self.clock.advance_s(rng.choice((0.05, 0.5, 3.0, 12.0)))
        self.clock.advance_s(0.01)
        self.check()

    def _troubled(self) -> None:
        trouble(self.log, self.rng)
        context = self.nodes[-1].runtime.find(HOME)
        if self.log.fail_with is None or context is None or context.next_offset != self.log.log_end_offset:
            return
        before, end, failures = self.state(self.nodes[-1]), self.log.log_end_offset, self.log.failures
        for producer in self.producers:
            producer.step()
        if self.nodes[-1].runtime.find(HOME) is context and self.log.log_end_offset == end:
            context.flush()
            if self.log.failures > failures:
                self.reverted += 1
                expect(context.next_offset == end, "reverted-state-equals-before", "the next offset")
            self._equal(before, self.state(self.nodes[-1]), "reverted-state-equals-before")

    def check(self) -> None:
        expect(len(list(self.nodes[-1].runtime)) <= 1, "memory-bounded")
        context = self.nodes[-1].runtime.find(HOME)
        if context is not None:
            expect(len(context.journal) <= 4 * (context.next_offset - self.log.high_watermark), "memory-bounded", "the journal")

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def end(self) -> None:
        """All is well again: what is open comes to an end."""
        self.net.heal()
        calm(self.log)
        self.leaderless.clear()
        for _ in range(8):
            self.clock.advance_s(7.0)
            self.nodes[-1].abort_timed_out()
            calm(self.log)
        self.net.check_all_answered()
        node = self.nodes[-1]
        for each in node.all():
            expect(each.state in AT_REST, "pending-transitions-end", each)
            expect(not each.partitions, "markers-for-every-partition", each)
        for partition in self.partitions.values():
            if not partition.deleted:
                expect(not partition.open, "last-stable-offset-moves-on", f"{partition.name}: {partition.open}")
                self._check_markers(partition)
        self._check_replay(node)
        self._check_rest(node)

    def _check_markers(self, partition: DataPartition) -> None:
        for transaction, promise in self.promises.items():
            if partition.name in self.acked.get(transaction, ()):
                expect(partition.outcomes.get(transaction) is promise, "markers-for-every-partition", f"{transaction} in {partition.name}")

    def _check_replay(self, node: TransactionCoordinator) -> None:
        live = self.state(node)
        for compacted in (False, True):
            if compacted:
                self.log.compact(self.rng)
            self._equal(live, self.replayed(), "state-equals-replay-of-the-log")

    def replayed(self) -> object:
        """The state that a coordinator finds in the log when it only replays."""
        self.replays += 1

        def new_shard(partition: TopicPartition, journal: UndoJournal, _: Timers) -> TransactionShard:
            return TransactionShard(
                partition,
                journal,
                now_ms=self.clock.time_ms,
                server_version=lambda: self.version,
                on_prepared=lambda *_: None,
                on_unloaded=lambda _: None,
            )

        runtime = CoordinatorRuntime(
            "shadow",
            clock=ManualClock(),
            serde=SERDE,
            options=OPTIONS,
            open_log=lambda _: self.log.open(self.log.leader_epoch),
            new_shard=new_shard,
            image=lambda: cast(Any, None),
        )
        runtime.load(HOME, 0)
        state = self.state_of_shard(shard_of(runtime))
        runtime.close()
        return state

    def _check_rest(self, node: TransactionCoordinator) -> None:
        context = node.runtime.find(HOME)
        assert context is not None
        expect(len(context.journal) == 0, "memory-bounded", "the journal")
        expect(context.shard.transactions.uncommitted == 0, "memory-bounded", "former values")
        expect(context.unanswered == 0, "every-request-answered-once", "replies are parked")
        for sender in self.senders:
            expect(len(sender) == sender.asked == sender.without_leader == 0, "memory-bounded", "markers")
        for each in self.nodes:
            each.close()
        self.clock.advance_s(60)
        expect(not self.clock.pending, "no-timer-leaks", self.clock.pending)


def _who(done: Deferred[Any]) -> Who | None:
    if done.error is not None:
        return None
    found = done.result()
    return found.producer_id, found.producer_epoch


def _code(done: Deferred[Any]) -> ErrorCode:
    error = done.error
    if not isinstance(error, KafkaError):
        raise error if error is not None else AssertionError
    return error.code
