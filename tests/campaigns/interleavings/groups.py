"""What the stories of both kinds of groups share: coordinators that follow one another on one partition, and what must hold of each.

Invariants: generation-monotonic, commit-visible-iff-committed, no-commit-lost, state-equals-replay-of-the-log,
reverted-state-equals-before, every-awaiting-member-answered-once, no-timer-leaks, memory-bounded.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.undo import UndoJournal
from odradek.config.broker import standalone_config
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.coordinator.context import RuntimeOptions, ShardContext
from odradek.coordinator.group.classic.group import ClassicGroup
from odradek.coordinator.group.classic.state import ClassicState
from odradek.coordinator.group.consumer.group import ConsumerGroup
from odradek.coordinator.group.group import Caller
from odradek.coordinator.group.records import SERDE, parse_offset_key
from odradek.coordinator.group.service import GroupCoordinator
from odradek.coordinator.group.settings import GroupSettings
from odradek.coordinator.group.shard import GroupShard
from odradek.coordinator.runtime import CoordinatorRuntime
from odradek.coordinator.shard import LoadedBatch
from odradek.coordinator.timers import Timers
from odradek.metadata.image import EMPTY, MetadataImage
from odradek.protocol.messages.group_records import OffsetCommitValue
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.campaigns.interleavings.world import Net, ScriptLog, calm, expect, trouble
from tests.clock import ManualClock

HOME = TopicPartition("__consumer_offsets", 0)
GROUP = "g"
SIMPLE = "simple"
"""A group without members, to which somebody commits now and then."""
OPTIONS = RuntimeOptions()
RETRIED = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}
Place = tuple[str, str, int]
"""Group, topic, partition."""

_configured: dict[tuple[tuple[str, str], ...], GroupSettings] = {}


def settings(**config: str) -> GroupSettings:
    key = tuple(sorted(config.items()))
    if key not in _configured:
        values = {name.replace("_", "."): value for name, value in config.items()}
        dynamic = DynamicBrokerConfig(standalone_config(values))
        plain = GroupSettings(dynamic)
        # Looked up once: a script changes no configuration.
        known = {name: getattr(plain, name) for name, each in vars(GroupSettings).items() if isinstance(each, property)}
        _configured[key] = type("FixedSettings", (GroupSettings,), known)(dynamic)
    return _configured[key]


class CommittedOffsets:
    """The offsets that are committed by the log alone: a second implementation, which follows the high watermark."""

    def __init__(self) -> None:
        self.offsets: dict[Place, tuple[int, int]] = {}
        """Place -> (offset of the record, committed offset)."""
        self.pending: dict[int, dict[Place, tuple[int, int]]] = {}
        self.ever: set[tuple[Place, int]] = set()
        """Everything that was committed once, in a transaction or not."""

    def apply(self, batch: LoadedBatch) -> None:
        if batch.committed is not None:
            for place, (offset, value) in self.pending.pop(batch.producer_id, {}).items():
                if batch.committed and offset > self.offsets.get(place, (-1, 0))[0]:
                    self.offsets[place] = (offset, value)
            return
        for offset, key, value in batch.records:
            parsed = None if key is None else parse_offset_key(key)
            if parsed is None:
                continue
            place = (parsed[0].decode(), parsed[1].decode(), parsed[2])
            if value is None:
                self.offsets.pop(place, None)
                for pending in self.pending.values():
                    pending.pop(place, None)
                continue
            committed = OffsetCommitValue.decode(memoryview(value)[2:], int.from_bytes(value[:2], "big")).offset
            self.ever.add((place, committed))
            if batch.producer_id >= 0:
                self.pending.setdefault(batch.producer_id, {})[place] = (offset, committed)
            else:
                self.offsets[place] = (offset, committed)


class Node:
    """One broker's group coordinator."""

    def __init__(self, story: GroupStory, clock: ManualClock) -> None:
        self.shards: list[GroupShard] = []

        def new_shard(partition: TopicPartition, journal: UndoJournal, timers: Timers) -> GroupShard:
            self.shards.append(
                GroupShard(partition, journal, timers, settings=story.settings, time_ms=story.clock.time_ms, new_id=story.new_id)
            )
            return self.shards[-1]

        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            "groups",
            clock=clock,
            serde=SERDE,
            options=OPTIONS,
            open_log=lambda _: story.log.open(story.log.leader_epoch),
            new_shard=new_shard,
            image=lambda: story.image,
        )
        self.coordinator = GroupCoordinator(self.runtime, story.settings, topic=HOME.topic, partition_count=lambda: 1)

    @property
    def context(self) -> ShardContext[GroupShard] | None:
        return self.runtime.find(HOME)


class GroupStory:
    """A partition of `__consumer_offsets`, who leads it, and who commits to it without being a member of anything."""

    def __init__(self, rng: random.Random, configured: GroupSettings) -> None:
        self.rng = rng
        self.settings = configured
        self.clock = ManualClock()
        self.net = Net(rng, self.clock)
        self.log = ScriptLog()
        self.image: MetadataImage = EMPTY
        self.committed = CommittedOffsets()
        self.log.on_committed = self.committed.apply
        self.nodes: list[Node] = []
        self.ids = 0
        self.values = 0
        self.replays = self.reverted = 0
        self.migrates = False
        self.producers = 0
        self.open_transactions: list[tuple[int, Deferred[Any]]] = []
        self.answers: dict[tuple[Place, int], list[ErrorCode]] = {}
        """What each commit was answered, as often as it came."""
        self.timed_out = False
        """Whether an error may have been answered for records that were committed later: then the soft state of classic groups differs."""
        self._caught_up_at = 0.0

    def new_id(self) -> UUID:
        self.ids += 1
        return UUID(int=self.ids)

    # -- coordinators --------------------------------------------------------------------------------------------------------------

    @property
    def coordinator(self) -> GroupCoordinator:
        """The node that a client takes for the coordinator: mostly the right one."""
        return (self.nodes[-1] if len(self.nodes) == 1 or self.rng.random() < 0.9 else self.nodes[-2]).coordinator

    @property
    def context(self) -> ShardContext[GroupShard]:
        context = self.nodes[-1].context
        assert context is not None
        return context

    def move(self) -> None:
        """Another broker leads the partition, and the old one may not know yet; or the same one does again, or leads on in a new epoch."""
        log, rng = self.log, self.rng
        before = self.nodes[-1] if self.nodes else None
        log.depose()
        leads_on = before is not None and rng.random() < 0.15
        cut = log.log_end_offset if leads_on else rng.choice(log.boundaries())
        log.truncate(cut)
        expected: object | None = None
        if before is not None and rng.random() < 0.5:
            expected = self._undone(before, cut)
        stays = leads_on or (before is not None and rng.random() < 0.3)
        if before is not None and not leads_on and (stays or rng.random() < 0.6):
            before.runtime.unload(HOME, log.leader_epoch)
        if not stays:
            self.nodes.append(Node(self, self.clock))
        if expected is not None:
            self._equal(expected, self.replayed(), "state-equals-replay-of-the-log")
        self.nodes[-1].runtime.load(HOME, log.leader_epoch)
        self.moved()

    def moved(self) -> None:
        """For subclasses, after a move: the image may have to be given to a new node, for instance."""

    def _undone(self, node: Node, cut: int) -> object | None:
        """The state of a coordinator as it was at an offset, which is what another one has to find in the log."""
        context = node.context
        if context is None or context.state.value != "active" or context.next_offset < cut:
            return None
        context.close(KafkaError(ErrorCode.NOT_COORDINATOR))
        context.journal.revert_to(cut)
        return durable_state(context.shard)

    def replayed(self) -> object:
        """The state that a coordinator finds in the log when it only replays."""
        node = self._replayed()
        state = durable_state(node.shards[0])
        node.runtime.close()
        return state

    def _replayed(self) -> Node:
        self.replays += 1
        node = Node(self, ManualClock())
        node.runtime.load(HOME, 0)
        return node

    def _check_stored(self, context: ShardContext[GroupShard]) -> None:
        node = self._replayed()
        found = node.shards[0]
        self._equal(durable_state(context.shard), durable_state(found), "state-equals-replay-of-the-log")
        for group in context.shard.groups if not self.timed_out else ():
            if isinstance(group, ClassicGroup) and group.state is ClassicState.STABLE:
                stored = found.groups.find_classic(group.group_id)
                self._equal(classic_state(group), None if stored is None else classic_state(stored), "state-equals-replay-of-the-log")
        node.runtime.close()

    def _equal(self, left: object, right: object, invariant: str) -> None:
        expect(left == right, invariant, f"{left}\n  is not\n{right}")

    # -- offsets -------------------------------------------------------------------------------------------------------------------

    def next_value(self) -> int:
        self.values += 1
        return self.values

    def commit_outside(self) -> None:
        """A commit of somebody who is not a member: plain, or in a transaction that ends later."""
        rng = self.rng
        group_id, topic, partition, value = rng.choice((SIMPLE, SIMPLE, GROUP)), rng.choice("tu"), rng.randrange(2), self.next_value()
        place = (group_id, topic, partition)
        roll = rng.random()
        if roll < 0.45:
            request = plain_commit(group_id, topic, partition, value)
            self.net.call(
                lambda: self.watched(self.coordinator.commit_offsets(Caller(9), request), place, value, _plain_code), lambda _: None
            )
        elif roll < 0.75:
            self._commit_in_transaction(place, value)
        elif self.open_transactions:
            self._end_transaction(self.open_transactions.pop(rng.randrange(len(self.open_transactions))))
        elif roll < 0.9:
            self.fetch(place)
        else:
            self.net.call(lambda: self.nodes[-1].coordinator.delete_groups([SIMPLE]), lambda _: None)

    def _commit_in_transaction(self, place: Place, value: int) -> None:
        if not self.open_transactions or self.rng.random() < 0.5:
            self.producers += 1
            producer = self.producers
        else:
            producer = self.rng.choice(self.open_transactions)[0]
        request = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=place[0],
            producer_id=producer,
            producer_epoch=0,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                    name=place[1],
                    partitions=[
                        TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                            partition_index=place[2], committed_offset=value, committed_metadata=""
                        )
                    ],
                )
            ],
        )
        answer = self.nodes[-1].coordinator.commit_transactional_offsets(Caller(5), request)
        self.watched(answer, place, value, _plain_code)
        if producer not in [each for each, _ in self.open_transactions]:
            self.open_transactions.append((producer, answer))

    def _end_transaction(self, transaction: tuple[int, Deferred[Any]]) -> None:
        committed = self.rng.random() < 0.6
        ended = self.nodes[-1].runtime.end_transaction(HOME, transaction[0], 0, 1, committed=committed, version=2)
        ended.add_callback(lambda done: self.open_transactions.append(transaction) if done.error is not None else None)

    def watched(self, answer: Deferred[Any], place: Place, value: int, code_of: Callable[[Any], int]) -> Deferred[Any]:
        """Holds a commit to its word: what is acknowledged is in the log, what is refused for good is not."""

        def answered(done: Deferred[Any]) -> None:
            code = ErrorCode(code_of(done.result()))
            if code is ErrorCode.NONE:
                expect((place, value) in self.committed.ever, "no-commit-lost", f"{place} at {value}: acknowledged, and not committed")
            self.answers.setdefault((place, value), []).append(code)

        answer.add_callback(answered)
        return answer

    def fetch(self, place: Place) -> None:
        """A plain fetch shows what is committed, no more and no less."""
        node = self.nodes[-1]
        context = node.context
        if context is None or context.state.value != "active":
            return
        group = context.shard.groups.find_committed(place[0])
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(name=place[1], partition_indexes=[place[2]])
        request = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=place[0], topics=[topic])
        answer = node.coordinator.fetch_offsets(request, require_stable=False).result()
        if answer.error_code == ErrorCode.NONE:
            found = answer.topics[0].partitions[0].committed_offset
            known = self.committed.offsets.get(place, (0, -1))[1]
            expect(found == known, "commit-visible-iff-committed", f"{place}: {found} is shown, {known} is committed ({group})")

    # -- what happens ------------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        raise NotImplementedError

    def everybody(self) -> None:
        """All members take a turn."""
        raise NotImplementedError

    def all_at_once(self) -> None:
        self.everybody()
        self.commit_outside()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def troubled(self, request: Callable[[], object]) -> None:
        """Brings trouble to the log; when appends fail from then on, the effects of `request` must leave no trace."""
        trouble(self.log, self.rng)
        node = self.nodes[-1]
        context = node.context
        if self.log.fail_with is None or context is None or context.next_offset != self.log.log_end_offset:
            return
        before, end, failures = reversible_state(context.shard), self.log.log_end_offset, self.log.failures
        request()
        if node.context is context and context.state.value == "active" and self.log.log_end_offset == end:
            context.flush()
            if self.log.failures > failures:
                self.reverted += 1
                expect(context.next_offset == end, "reverted-state-equals-before", "the next offset")
            self._equal(before, reversible_state(context.shard), "reverted-state-equals-before")

    def advance_s(self, seconds: float) -> None:
        """Time passes."""
        if self.log.high_watermark == self.log.log_end_offset:
            self._caught_up_at = self.clock.now_s
        self.clock.advance_s(seconds)
        if self.clock.now_s - self._caught_up_at >= OPTIONS.write_timeout_ms / 1000 and self.log.high_watermark < self.log.log_end_offset:
            self.timed_out = True

    def come_to_rest(self) -> None:
        """Nothing fails from now on, and no transaction is left open."""
        self.calm()
        for transaction in self.open_transactions:
            self.nodes[-1].runtime.end_transaction(HOME, transaction[0], 0, 1, committed=False, version=2)
        self.calm()

    def check_rest(self) -> None:
        """Nothing is under way: nothing but state is left."""
        context = self.context
        self._check_stored(context)
        self.log.compact(self.rng)
        self._check_stored(context)
        for (place, value), codes in self.answers.items():
            if all(code is not ErrorCode.NONE and code not in RETRIED for code in codes):
                expect((place, value) not in self.committed.ever, "commit-visible-iff-committed", f"{place} at {value}: {codes}")
        expect(len(context.journal) == 0, "memory-bounded", "the journal")
        expect(context.unanswered == 0, "every-awaiting-member-answered-once", "replies are parked")
        offsets = context.shard.offsets
        expect(offsets.offsets.groups.uncommitted == 0, "memory-bounded", "former offsets")
        for topics in offsets.offsets.groups.values():
            expect(not topics.uncommitted and not any(table.uncommitted for table in topics.values()), "memory-bounded", "former offsets")
        expect(offsets.pending.by_producer().keys() <= set(range(self.producers + 1)), "memory-bounded", "pending offsets")
        for place in list(self.committed.offsets):
            self.fetch(place)
        check_timers(context, migrates=self.migrates, timed_out=self.timed_out)

    def close(self) -> None:
        for node in self.nodes:
            node.runtime.close()
        self.clock.advance_s(60)
        expect(not self.clock.pending, "no-timer-leaks", self.clock.pending)

    def calm(self) -> None:
        """The network and the log work again, and who was deposed knows it."""
        self.net.heal()
        for node in self.nodes[:-1]:
            node.runtime.unload(HOME, self.log.leader_epoch)
        calm(self.log)


def check_timers(context: ShardContext[GroupShard], *, migrates: bool, timed_out: bool) -> None:
    """Every timer belongs to a member that is there, except that groups which change their type let those of classic members run out.

    So do groups that lost a member and became classic ones through records that had been given up as too late and were committed after all.
    """
    for key in context.timers:
        kind, _, rest = key.partition("\0")
        if kind == "expire-group-metadata":
            continue
        group_id, _, member_id = rest.partition("\0")
        group = context.shard.groups.find(group_id)
        expect(group is not None, "no-timer-leaks", key)
        if member_id and kind == "heartbeat" and isinstance(group, ClassicGroup) and not migrates:
            known = member_id in group.members or member_id in group.pending_join
            expect(known, "no-timer-leaks", f"{key!r}: {group}")
        elif member_id and isinstance(group, ConsumerGroup) and kind != "heartbeat" and not (kind == "session" and migrates and timed_out):
            expect(member_id in group.members, "no-timer-leaks", f"{key!r}: {group}")


def durable_state(shard: GroupShard) -> dict[str, object]:
    """All that records make: offsets, consumer groups."""
    state: dict[str, object] = {
        "offsets": sorted((group, *each) for group in shard.offsets.offsets.groups for each in shard.offsets.offsets.of_group(group)),
        "pending": {producer: offsets for producer, offsets in shard.offsets.pending.by_producer().items() if offsets},
    }
    for group in shard.groups:
        if isinstance(group, ConsumerGroup):
            state[group.group_id] = _consumer_state(group)
    return state


def reversible_state(shard: GroupShard) -> dict[str, object]:
    """As `durable_state`, with all groups, whether stored or not."""
    return durable_state(shard) | {"types": {group.group_id: group.type for group in shard.groups}}


def _consumer_state(group: ConsumerGroup) -> dict[str, object]:
    return {
        "epochs": group.epochs,
        "members": dict(group.members.items()),
        "targets": {member: target for member, target in group.targets.items() if target},
        "regexes": dict(group.regexes.items()),
        "static": dict(group.static_members.items()),
        "counts": dict(group.topic_counts.items()),
        "regex members": dict(group.regex_members.items()),
        "assignors": dict(group.assignors.items()),
        "classic": dict(group.classic_protocols.items()),
        "owned": dict(group.partition_epochs.items()),
    }


def classic_state(group: ClassicGroup) -> object:
    """What the record of a stable group holds."""
    return (
        group.generation_id,
        group.protocol_type,
        group.protocol_name,
        group.leader_id,
        {
            member.member_id: (member.group_instance_id, member.assignment, member.metadata(group.protocol_name))
            for member in group.members.values()
        },
    )


def plain_commit(
    group_id: str, topic: str, partition: int, value: int, *, member: str = "", epoch: int = -1, instance: str | None = None
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=epoch,
        member_id=member,
        group_instance_id=instance,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=value, committed_metadata=""
                    )
                ],
            )
        ],
    )


def _plain_code(response: Any) -> int:
    return int(response.topics[0].partitions[0].error_code)
