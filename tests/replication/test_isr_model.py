"""Random histories of three replicas and a controller, against what must never happen (KIP-101, KIP-279, KIP-497, KIP-966).

The network loses and delays everything: fetches do not happen, answers of the controller get lost, metadata reaches each broker when it
wants to, so that deposed leaders go on for a while. Elections are clean. A failing seed is named and replays exactly.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import decode_records
from odradek.replication.isr import PendingShrinkIsr
from odradek.replication.partition import Partition
from odradek.replication.roles import Registration, Role
from odradek.storage.log import Log
from tests.clock import ManualClock
from tests.replication import support
from tests.replication.support import MAX_LAG_MS, Brokers, Node, PartitionMetadata, content, fetch_as, replicate, wanted

IDS = (1, 2, 3)
SEEDS = range(300)
"""The histories that are run; those that find broken code are among them."""


class History:
    """Three brokers, the controller's truth, and what anybody was ever told to be committed."""

    def __init__(self, seed: int, min_isr: int) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.brokers = Brokers({id_: 10 * id_ for id_ in IDS})
        self.nodes = {id_: Node(id_, self.clock, self.brokers, min_insync_replicas=str(min_isr)) for id_ in IDS}
        self.truth = PartitionMetadata(leader=1, replicas=IDS, isr=IDS)
        self.committed: dict[int, bytes | None] = {}
        self.high_watermarks: dict[tuple[int, int], int] = {}
        self.written = 0
        for id_ in IDS:
            self.publish(id_)

    def step(self) -> None:
        actions: list[Callable[[], None]] = [
            self.append,
            self.append,
            self.replicate,
            self.replicate,
            self.replicate,
            self.time_passes,
            self.controller_decides,
            self.controller_decides,
            self.elect,
            self.tell,
        ]
        self.random.choice(actions)()
        self.clock.run_due()
        self.check()

    def pick(self) -> Node:
        return self.nodes[self.random.choice(IDS)]

    def append(self) -> None:
        node = self.pick()
        if node.partition.role is Role.LEADER:
            self.written += 1
            node.append(b"%d by %d" % (self.written, node.id))

    def replicate(self) -> None:
        follower = self.pick()
        leader = self.nodes[follower.partition.leader_id]
        if follower.partition.role is Role.FOLLOWER and leader.partition.role is Role.LEADER:
            replicate(leader, follower, broker_epoch=10 * follower.id, max_bytes=self.random.choice((1, 100, 1 << 20)))

    def time_passes(self) -> None:
        self.clock.advance_ms(self.random.choice((100, MAX_LAG_MS / 2, MAX_LAG_MS + 1)))
        self.pick().partition.maybe_shrink_isr()

    def controller_decides(self) -> None:
        node = self.pick()
        if not node.controller.changes:
            return
        change, _ = node.controller.changes[0]
        if change.leader_epoch != self.truth.leader_epoch or node.id != self.truth.leader:
            node.controller.refuse(ErrorCode.FENCED_LEADER_EPOCH)
        elif change.partition_epoch != self.truth.partition_epoch:
            node.controller.refuse(ErrorCode.INVALID_UPDATE_VERSION)
        elif self.random.random() < 0.2:
            node.controller.refuse(ErrorCode.INELIGIBLE_REPLICA)
        else:
            members = tuple(broker for broker, _ in change.isr)
            self.truth = self.truth._replace(isr=members, partition_epoch=self.truth.partition_epoch + 1)
            if self.random.random() < 0.3:
                node.controller.changes.pop(0)  # the answer is lost; the metadata will tell
            else:
                node.controller.accept()

    def elect(self) -> None:
        if self.random.random() < 0.6:
            return
        leader = self.random.choice(sorted(self.truth.isr))
        isr = tuple(self.truth.isr)
        if leader != self.truth.leader and len(isr) > 1 and self.random.random() < 0.5:
            isr = tuple(id_ for id_ in isr if id_ != self.truth.leader)
        self.truth = self.truth._replace(
            leader=leader, isr=isr, leader_epoch=self.truth.leader_epoch + 1, partition_epoch=self.truth.partition_epoch + 1
        )
        if self.random.random() < 0.5:
            self.publish(leader)

    def tell(self) -> None:
        self.publish(self.random.choice(IDS))

    def publish(self, id_: int) -> None:
        node = self.nodes[id_]
        if self.truth.leader == id_:
            node.partition.make_leader(self.truth, node.log)
        else:
            node.partition.make_follower(self.truth, node.log)
        node.delayed.drain()

    def check(self) -> None:
        for node in self.nodes.values():
            partition = node.partition
            high_watermark = node.log.high_watermark
            assert high_watermark <= node.log.log_end_offset
            if partition.role is not Role.LEADER:
                continue
            key = (node.id, partition.leader_epoch)
            assert high_watermark >= self.high_watermarks.get(key, 0), "a leader's high watermark went back"
            self.high_watermarks[key] = high_watermark
            values = self.values(node)
            for offset in range(high_watermark):
                assert self.committed.setdefault(offset, values[offset]) == values[offset], (
                    f"offset {offset} was committed with another value"
                )
            if partition.leader_epoch == self.truth.leader_epoch:
                assert node.log.log_end_offset >= len(self.committed), "the elected leader lacks committed records"

    @staticmethod
    def values(node: Node) -> list[bytes | None]:
        if not node.log.log_end_offset:
            return []
        [(_, read)] = node.reader.read(fetch_as(-2, leader_only=False), [wanted(0)], update_follower=False)
        return [record.value for record in decode_records(memoryview(content(read)))]

    def heal(self) -> None:
        """Everybody hears everything; all replicas come together again."""
        for _ in range(12):
            for id_ in IDS:
                self.publish(id_)
            leader = self.nodes[self.truth.leader]
            for id_ in IDS:
                if id_ != leader.id:
                    replicate(leader, self.nodes[id_], broker_epoch=10 * id_)
            while leader.controller.changes:
                change, _ = leader.controller.changes[0]
                if (change.leader_epoch, change.partition_epoch) == (self.truth.leader_epoch, self.truth.partition_epoch):
                    members = tuple(broker for broker, _ in change.isr)
                    self.truth = self.truth._replace(isr=members, partition_epoch=self.truth.partition_epoch + 1)
                    leader.controller.accept()
                else:
                    leader.controller.refuse(ErrorCode.INVALID_UPDATE_VERSION)
            self.check()
        assert set(self.truth.isr) == set(IDS)
        assert len({tuple(self.values(node)) for node in self.nodes.values()}) == 1
        assert {node.log.high_watermark for node in self.nodes.values()} == {self.nodes[1].log.log_end_offset}


def run(seed: int, steps: int = 120) -> None:
    history = History(seed, min_isr=seed % 3 + 1)
    for _ in range(steps):
        history.step()
    history.heal()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_history_loses_or_changes_what_was_committed(seed: int) -> None:
    run(seed)


def end_of_log(self: Partition, log: Log, now_s: float | None) -> bool:
    log.update_high_watermark(log.log_end_offset)
    return True


def count_shrunk_isr_at_once(self: PendingShrinkIsr, committed: object, out_of_sync: frozenset[int]) -> None:
    original_shrink(self, committed, out_of_sync)  # type: ignore[arg-type]
    self.maximal_isr = self.proposed_isr


def believe_what_followers_had_before(self: Partition, registration: Registration, log: Log) -> bool:
    if self.is_leader and registration.leader_epoch > self.leader_epoch:
        self.leader_epoch = registration.leader_epoch - 1
    return original_make_leader(self, registration, log)


def never_truncate(log: Log, epoch: int, end_offset: int) -> bool:
    return True


original_shrink = PendingShrinkIsr.__init__
original_make_leader = Partition.make_leader


@pytest.mark.long
@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (Partition, "_advance_high_watermark", end_of_log),
        (PendingShrinkIsr, "__init__", count_shrunk_isr_at_once),
        (Partition, "make_leader", believe_what_followers_had_before),
        (support, "truncate_to_divergence", never_truncate),
    ],
    ids=[
        "high watermark at the log end",
        "shrinking ISR counts at once",
        "old positions of followers",
        "no truncation",
    ],
)
def test_the_histories_find_broken_code(owner: object, name: str, broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, broken)

    def fails(seed: int) -> bool:
        try:
            run(seed)
        except (AssertionError, KafkaError, IndexError):
            return True
        return False

    assert any(fails(seed) for seed in SEEDS)
