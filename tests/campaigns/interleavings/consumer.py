"""Interleavings of members of a consumer group, of members of the classic protocol in it or before it, and of all that moves it.

Besides those of `groups`: one-owner-per-partition, owned-by-the-book, epochs-monotonic, nothing-taken-unasked, rebalances-end.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.coordinator.group.consumer.embedded import read_assignment
from odradek.coordinator.group.consumer.group import ConsumerGroup
from odradek.coordinator.group.consumer.member import STATIC_LEAVE_EPOCH
from odradek.coordinator.group.group import Caller
from odradek.coordinator.group.records import SERDE
from odradek.coordinator.group.service import GroupCoordinator
from odradek.coordinator.shard import LoadedBatch
from odradek.metadata.delta import MetadataDelta
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.consumer_group_records import ConsumerGroupMemberMetadataKey
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from odradek.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest
from tests.campaigns.interleavings.groups import GROUP, RETRIED, GroupStory, plain_commit, settings
from tests.campaigns.interleavings.world import expect
from tests.coordinator.group.consumer.support import Cluster

FENCED = {
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
}
PATIENCE_S = 4.0
SESSION_MS, REBALANCE_MS = 20_000, 15_000
Owned = dict[UUID, list[int]]


class Asking:
    """One request at a time; who asks goes on when the answer takes too long."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.waiting: object | None = None
        self.alive = True
        self.removals = 0

    def ask(self, call: Callable[[], Deferred[Any]], then: Callable[[Any], None], patience: float = PATIENCE_S) -> None:
        token = self.waiting = object()

        def gave_up() -> None:
            if self.waiting is token:
                self.waiting = None
                self.unheard()

        def arrived(done: Deferred[Any]) -> None:
            if self.waiting is token and self.alive:
                self.waiting = None
                then(done.result())

        self.story.clock.call_later(patience, gave_up)
        self.story.net.call(call, arrived, connection=self)

    def ask_coordinator(
        self, request: Callable[[GroupCoordinator], Deferred[Any]], then: Callable[[Any, int], None], patience: float = PATIENCE_S
    ) -> None:
        """Calls `then` with the answer and with how often the member had been removed when the leader gave it (-1: a deposed one gave it).

        A repeated request may reach both coordinators; only the answer to its first copy is heard, because no client reads on after it has
        given up.
        """
        story = self.story
        by_leader: list[tuple[Any, int]] = []
        copies: list[Deferred[Any]] = []

        def call() -> Deferred[Any]:
            coordinator = story.coordinator

            def answered(done: Deferred[Any]) -> None:
                if coordinator is story.nodes[-1].coordinator:
                    by_leader.append((done.result(), self.removals))

            answer = request(coordinator)
            copies.append(answer)
            answer.add_callback(answered)
            return answer

        def heard(answer: Any) -> None:
            if copies[0].done and copies[0].result() is answer:
                then(answer, next((told_at for each, told_at in by_leader if each is answer), -1))
            else:
                self.unheard()

        self.ask(call, heard, patience)

    def unheard(self) -> None:
        """The answer did not come."""

    def commit(self, member_id: str, epoch: int, owned: Owned, instance: str | None) -> None:
        """Of some partition that it owns."""
        story = self.story
        topic_id = story.rng.choice(sorted(owned))
        topic = story.cluster.image.topics.topic_name(topic_id)
        if not owned[topic_id] or topic is None:
            return
        partition, value = story.rng.choice(owned[topic_id]), story.next_value()
        request = plain_commit(GROUP, topic, partition, value, member=member_id, epoch=epoch, instance=instance)
        place = (GROUP, topic, partition)
        self.ask(lambda: story.watched(story.coordinator.commit_offsets(Caller(9), request), place, value, _commit_code), lambda _: None)


class Young(Asking):
    """A member of the consumer protocol: it gives up before it takes, and says what it has when that has changed or an answer got lost."""

    def __init__(self, story: Story, instance: str | None, topics: list[str] | None, regex: str | None) -> None:
        super().__init__(story)
        self.member_id = f"m{story.number()}"
        self.instance = instance
        self.topics = topics
        self.regex = regex
        self.epoch = 0
        self.owned: Owned = {}
        self.told_by_leader = True
        """A deposed coordinator that has not heard of it answers from memory what needs no record: no broker can know better by itself."""
        self.says_all = True

    def turn(self) -> None:
        if self.waiting is not None or not self.alive:
            return
        if self.epoch > 0 and self.owned and not self.story.settling and self.story.rng.random() < 0.2:
            self.commit(self.member_id, self.epoch, self.owned, self.instance)
            return
        full = self.says_all or self.epoch == 0
        known = self.story.cluster.image.topics.by_id
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance,
            subscribed_topic_names=(self.topics or []) if full else None,
            subscribed_topic_regex=(self.regex or "") if full else None,
            rebalance_timeout_ms=REBALANCE_MS if full else -1,
            topic_partitions=[
                ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in self.owned.items()
                if topic_id in known
            ]
            if full
            else None,
        )
        self.says_all = False
        self.ask_coordinator(
            lambda coordinator: coordinator.consumer_group_heartbeat(Caller(1, "client", "/h"), request),
            lambda answer, told_at: self._answered(answer, told_at >= 0),
        )

    def unheard(self) -> None:
        self.says_all = True

    def _answered(self, answer: Any, by_leader: bool) -> None:
        code = ErrorCode(answer.error_code)
        if code in FENCED:
            self.epoch, self.owned, self.says_all = 0, {}, True
        elif code in RETRIED or code is ErrorCode.UNRELEASED_INSTANCE_ID:
            self.says_all = True
        else:
            expect(code is ErrorCode.NONE, "defined-errors", answer)
            expect(answer.member_epoch >= self.epoch, "epochs-monotonic", f"{self.member_id}: {answer.member_epoch} after {self.epoch}")
            self.epoch = answer.member_epoch
            assigned = (
                None if answer.assignment is None else {topic.topic_id: topic.partitions for topic in answer.assignment.topic_partitions}
            )
            if assigned is not None and assigned != self.owned:
                self.owned, self.told_by_leader = assigned, by_leader
                self.says_all = True

    def leave(self, epoch: int = -1) -> None:
        self.alive = False
        if self.epoch > 0:
            request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance)
            self.story.net.call(
                lambda: self.story.coordinator.consumer_group_heartbeat(Caller(1, "client", "/h"), request),
                lambda _: None,
                connection=self,
            )


class Old(Asking):
    """A member of the classic protocol, cooperative: it keeps what it has while it joins, gives up what it does not get, joins again."""

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        self.member_id = ""
        self.generation = -1
        self.synced = -1
        """The epoch for which it was told what it has, as long as it has been a member since."""
        self.owned: Owned = {}
        self.rejoin = True
        self.shares: dict[str, bytes] | None = None

    def turn(self) -> None:
        if self.waiting is not None or not self.alive:
            return
        if self.shares is not None:
            self._sync(self.shares)
        elif self.rejoin:
            self._join()
        elif self.owned and not self.story.settling and self.story.rng.random() < 0.2:
            self.commit(self.member_id, self.generation, self.owned, None)
        else:
            request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
            self.ask(lambda: self.story.coordinator.heartbeat(request), self._heard)

    def _heard(self, answer: Any) -> None:
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.NONE and code not in RETRIED:
            self._start_anew(code)

    def _start_anew(self, code: ErrorCode) -> None:
        self.shares = None
        if code in RETRIED:
            return
        if code is ErrorCode.UNKNOWN_MEMBER_ID or code is ErrorCode.GROUP_MAX_SIZE_REACHED:
            self.member_id = ""
        if code is not ErrorCode.REBALANCE_IN_PROGRESS:
            self.owned = {}
        self.rejoin = True

    def _join(self) -> None:
        metadata = ConsumerProtocolSubscription(
            topics=["t1"],
            owned_partitions=[
                ConsumerProtocolSubscription.TopicPartition(topic="t1", partitions=partitions) for partitions in self.owned.values()
            ],
        )
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\3" + metadata.encode(3))],
        )
        self.ask(lambda: self.story.coordinator.join_group(Caller(9, "c", "/h"), request), self._joined, REBALANCE_MS / 1000 + 2)

    def _joined(self, answer: Any) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif answer.error_code:
            self._start_anew(ErrorCode(answer.error_code))
        else:
            self.member_id, self.generation, self.rejoin = answer.member_id, answer.generation_id, False
            self.shares = {}
            topic = self.story.cluster.image.topics.by_name.get("t1")
            if answer.leader == answer.member_id and topic is not None:
                ids = sorted(member.member_id for member in answer.members)
                count = len(topic.partitions)
                self.shares = {member: shares_of(list(range(index, count, len(ids)))) for index, member in enumerate(ids)}

    def _sync(self, shares: dict[str, bytes]) -> None:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=share) for member, share in shares.items()
            ],
        )
        self.ask_coordinator(lambda coordinator: coordinator.sync_group(request), self.is_synced, REBALANCE_MS / 1000 + 2)

    def removed(self) -> None:
        """Its session has ended, or it was fenced, which it need not know.

        It may come again with the same id, and be a member anew (classicGroupJoinToConsumerGroup takes ids that it does not know). Epochs
        begin anew with a group that was deleted in between, so that what it was told for an epoch of the same number says nothing then.
        """
        self.synced = -1
        self.removals += 1

    def is_synced(self, answer: Any, told_at: int) -> None:
        if answer.error_code:
            if ErrorCode(answer.error_code) not in RETRIED:
                self._start_anew(ErrorCode(answer.error_code))
            return
        self.shares, self.synced = None, self.generation if told_at == self.removals else -1
        before = self.owned
        t1 = self.story.cluster.id("t1")
        assigned = read_assignment(answer.assignment).assigned_partitions
        self.owned = {t1: assigned[0].partitions} if assigned else {}
        lost = set(before.get(t1, ())) - set(self.owned.get(t1, ()))
        self.rejoin = bool(lost) and isinstance(self.story.group(), ConsumerGroup)

    def leave(self) -> None:
        self.alive = False
        if self.member_id:
            request = LeaveGroupRequest(group_id=GROUP, members=[LeaveGroupRequest.MemberIdentity(member_id=self.member_id)])
            self.story.net.call(lambda: self.story.coordinator.leave_group(request), lambda _: None, connection=self)


class Story(GroupStory):
    def __init__(self, rng: random.Random) -> None:
        configured = settings(
            group_consumer_assignment_interval_ms=rng.choice(("0", "1000")),
            group_consumer_session_timeout_ms=str(SESSION_MS),
            group_consumer_min_session_timeout_ms="5000",
            group_consumer_max_size=rng.choice(("2147483647", "2147483647", "3")),
            group_initial_rebalance_delay_ms="0",
            offsets_retention_check_interval_ms="86400000",
        )
        super().__init__(rng, configured)
        self.cluster = Cluster()
        self.cluster.create(t1=3, t2=4, u=2)
        self.image = self.cluster.image
        self.migrates = rng.random() < 0.4
        self.young: list[Young] = []
        self.old: list[Old] = []
        self.away: list[Young] = []
        self.named = 0
        self.settling = False
        self.seen: tuple[ConsumerGroup | None, int] = (None, 0)
        self.log.on_appended = self._appended
        self.move()
        for _ in range(rng.choice((1, 2))):
            (self.new_old if self.migrates else self.new_young)()

    def number(self) -> int:
        self.named += 1
        return self.named

    def group(self) -> object:
        context = self.nodes[-1].context
        return None if context is None else context.shard.groups.find(GROUP)

    # -- what is seen ------------------------------------------------------------------------------------------------------------

    def _appended(self, batch: LoadedBatch) -> None:
        """Tells members of the classic protocol that they were removed, except those that stay in a group that becomes a classic one."""
        gone: set[str] = set()
        everybody = {each.member_id for each in self.old}
        upgrade = False
        for _, key, value in batch.records:
            if key is None or key[:2] not in (b"\0\2", b"\0\3", b"\0\5"):
                continue
            read = SERDE.decode(key, value)
            if isinstance(read.key, ConsumerGroupMemberMetadataKey):
                if value is None:
                    gone.add(read.key.member_id)
                elif upgrade:
                    gone.discard(read.key.member_id)
            elif isinstance(read.value, GroupMetadataValue):
                gone = everybody - {member.member_id for member in read.value.members}
            elif isinstance(read.key, GroupMetadataKey):
                gone = set(everybody)
            # Who goes with a group that becomes a consumer group is written between the classic group's end and the epoch.
            upgrade = isinstance(read.key, GroupMetadataKey) or (upgrade and isinstance(read.key, ConsumerGroupMemberMetadataKey))
        for each in self.old:
            if each.member_id in gone:
                each.removed()

    def check(self) -> None:
        group = self.group()
        if not isinstance(group, ConsumerGroup):
            return
        owners: dict[tuple[UUID, int], str] = {}
        for member in group.members.values():
            for owned in (member.assigned, member.pending_revocation):
                for topic_id, partitions in owned.items():
                    for partition in partitions:
                        owner = owners.setdefault((topic_id, partition), member.member_id)
                        expect(owner == member.member_id, "one-owner-per-partition", f"{partition}: {owner}, {member.member_id}")
            expect(member.member_epoch <= group.epochs.target, "epochs-monotonic", group)
        expect(set(group.partition_epochs) == set(owners), "owned-by-the-book", group)
        expect(group.epochs.target <= group.epochs.group, "epochs-monotonic", group)
        seen, epoch = self.seen
        expect(seen is not group or group.epochs.group >= epoch, "epochs-monotonic", f"{group.epochs} after {epoch}")
        # What was not committed may be taken back, and the epoch with it.
        self.seen = (group, group.committed_epochs().group)
        self._check_members(group, owners)

    def _check_members(self, group: ConsumerGroup, owners: dict[tuple[UUID, int], str]) -> None:
        topics = self.cluster.image.topics
        told = [each for each in self.young if each.alive and each.told_by_leader]
        both: list[tuple[str, int, Owned]] = [(each.member_id, each.epoch, each.owned) for each in told]
        # One of the classic protocol that joins is told with SyncGroup only what it has.
        both += [(each.member_id, each.synced, each.owned) for each in self.old if each.alive]
        for member_id, epoch, owned in both:
            member = group.members.get(member_id)
            if member is None or epoch <= 0 or epoch not in (member.member_epoch, member.previous_epoch):
                continue
            for topic_id, partitions in owned.items():
                for partition in partitions if topic_id in topics.by_id else ():
                    has = owners.get((topic_id, partition))
                    expect(has == member_id, "nothing-taken-unasked", f"{topic_id}-{partition} of {member_id} in {epoch} is {has}'s")

    # -- what happens ------------------------------------------------------------------------------------------------------------

    def new_young(self) -> None:
        rng = self.rng
        if self.migrates:
            self.young.append(Young(self, None, ["t1"], None))
            return
        instance = f"i{self.named}" if rng.random() < 0.35 else None
        self.young.append(Young(self, instance, *self._subscription()))

    def _subscription(self) -> tuple[list[str] | None, str | None]:
        rng = self.rng
        if rng.random() < 0.3:
            return None, rng.choice(("t.*", ".*", "u"))
        return rng.sample(("t1", "t2", "u", "later"), rng.randint(1, 4)), None

    def new_old(self) -> None:
        self.old.append(Old(self))

    def everybody(self) -> None:
        for each in self.young:
            each.turn()
        for classic in self.old:
            classic.turn()

    def step(self) -> None:
        rng = self.rng
        roll = rng.random()
        if roll < 0.42:
            self.everybody()
        elif roll < 0.50:
            self.commit_outside()
        elif roll < 0.60:
            self.troubled(self.all_at_once)
        elif roll < 0.65:
            self.move()
        elif roll < 0.71:
            self._come()
        elif roll < 0.78:
            self._go()
        elif roll < 0.82:
            self._change_cluster()
        elif roll < 0.84:
            self._resubscribe()
        else:
            self.advance_s(rng.choice((0.3, 1.0, 3.0, 6.0, 18.0, 25.0)))
        self.advance_s(0.05)
        self.check()

    def _come(self) -> None:
        if self.away and self.rng.random() < 0.6:
            before = self.away.pop()
            self.young.append(Young(self, before.instance, before.topics, before.regex))
        elif self.migrates and len(self.old) < 3 and self.rng.random() < 0.5:
            self.new_old()
        elif len(self.young) < 4:
            self.new_young()

    def _go(self) -> None:
        rng = self.rng
        if self.old and rng.random() < 0.5:
            classic = self.old.pop(rng.randrange(len(self.old)))
            if rng.random() < 0.5:
                classic.leave()
            classic.alive = False
        elif self.young:
            member = self.young.pop(rng.randrange(len(self.young)))
            roll = rng.random()
            if member.instance is not None and roll < 0.6:
                member.leave(STATIC_LEAVE_EPOCH)
                self.away.append(member)
            elif roll < 0.8:
                member.leave()
            member.alive = False

    def _resubscribe(self) -> None:
        if self.young and not self.migrates:
            member = self.rng.choice(self.young)
            member.topics, member.regex = self._subscription()
            member.says_all = True

    def _change_cluster(self) -> None:
        cluster, rng = self.cluster, self.rng
        names = cluster.image.topics.by_name
        name = "t1" if self.migrates else rng.choice(("t1", "t2", "u", "later"))
        if name not in names:
            self._publish(cluster.create(**{name: rng.randint(1, 4)}))
        elif not self.migrates and rng.random() < 0.4:
            self._publish(cluster.delete(name))
        elif len(names[name].partitions) < 8:
            self._publish(cluster.grow(name, len(names[name].partitions) + 1))

    def _publish(self, delta: MetadataDelta) -> None:
        self.image = self.cluster.image
        for node in self.nodes:
            node.coordinator.publish(delta, self.image)

    def end(self) -> None:
        self.come_to_rest()
        self._settle()
        self.check_rest()
        for each in self.old:
            each.alive = False
        for member in self.young:
            member.alive = False
        self.clock.advance_s(200)
        self.net.check_all_answered()
        group = self.group()
        if isinstance(group, ConsumerGroup):
            away = [member for member in group.members.values() if member.member_epoch == STATIC_LEAVE_EPOCH]
            expect(len(group.members) == len(away) or not away, "rebalances-end", f"{group} has members")
            expect(not group.members, "rebalances-end", f"{group} has members")
        self.close()

    def _settle(self) -> None:
        self.settling = True
        for _ in range(60):
            self.everybody()
            self.everybody()
            self.clock.advance_s(2.0)
            self.check()
            if self._settled() is None:
                return
        expect(False, "rebalances-end", f"{self._settled()}: {self.group()}")

    def _settled(self) -> str | None:
        """What is missing still."""
        group = self.group()
        everybody = [*self.young, *self.old]
        if len(everybody) > self.settings.consumer_max_size or not everybody:
            return None
        if not isinstance(group, ConsumerGroup):
            # Who leads a classic group finds out about new partitions by itself, which these members do not.
            return "it is no consumer group" if self.young else None
        if group.state_name != "Stable" or any(member.epoch != group.epochs.group for member in self.young):
            return f"{group.state_name}"
        found: dict[tuple[UUID, int], int] = {}
        for each in everybody:
            for topic_id, partitions in each.owned.items():
                for partition in partitions:
                    found[topic_id, partition] = found.get((topic_id, partition), 0) + 1
        subscribed = {name for member in group.members.values() for name in group.subscribed_names(member)}
        topics = self.cluster.image.topics.by_name
        wanted = {(topics[name].topic_id, partition) for name in subscribed & set(topics) for partition in topics[name].partitions}
        away = {member.member_id for member in group.members.values()} - {each.member_id for each in everybody}
        return None if away or (set(found) == wanted and set(found.values()) <= {1}) else f"{found} is owned, of {wanted}"


def shares_of(partitions: list[int]) -> bytes:
    message = ConsumerProtocolAssignment(assigned_partitions=[ConsumerProtocolAssignment.TopicPartition(topic="t1", partitions=partitions)])
    return b"\0\3" + message.encode(3)


def _commit_code(response: Any) -> int:
    return int(response.topics[0].partitions[0].error_code)
