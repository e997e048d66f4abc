"""A quorum in memory: replicas on the pure core, disks that forget what was not flushed, a network that loses, delays and reorders.

Everything follows from one seed. After every step the named invariants are checked against what the whole cluster has ever done.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from uuid import UUID

from odradek.consensus.messages import (
    ControlUpdate,
    ElectionState,
    Event,
    FetchedRecords,
    FetchResponse,
    FetchSnapshotResponse,
    Flushed,
    LogAppend,
    Outbound,
    Propose,
    Ready,
    RequestReceived,
    Resign,
    Response,
    ResponseReceived,
    SnapshotInstalled,
    Tick,
    VotersChange,
)
from odradek.consensus.raft import Raft, RaftTimeouts
from odradek.consensus.states import NEVER, Role
from odradek.consensus.voters import Endpoint, OffsetAndEpoch, Voter, VoterHistory, VoterSet

BATCHES_PER_FETCH = 3
SNAPSHOT_SIZE = 100
OBSERVER_FLUSH_MS = 1000


class Batch:
    """A batch of the log; `content` stands for its bytes."""

    def __init__(self, base_offset: int, end_offset: int, epoch: int, content: object, control: tuple[ControlUpdate, ...] = ()) -> None:
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.epoch = epoch
        self.content = content
        self.control = control

    def __repr__(self) -> str:
        return f"Batch({self.base_offset}..{self.end_offset} epoch {self.epoch} {self.content!r})"


class MemoryLog:
    """A log and its snapshots; what is behind `flushed` does not survive a crash."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.start_offset = 0
        self.snapshots: dict[OffsetAndEpoch, tuple[object, ...]] = {}
        self.flushed = 0
        self.generation = 0
        """Raised by whatever cuts the log: a flush that began before makes nothing durable that was written after."""

    @property
    def end(self) -> OffsetAndEpoch:
        if self.batches:
            return OffsetAndEpoch(self.batches[-1].end_offset, self.batches[-1].epoch)
        latest = self.latest_snapshot()
        return latest if latest is not None else OffsetAndEpoch(0, 0)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        if not self.batches or epoch > self.batches[-1].epoch:
            return None
        if epoch < self.batches[0].epoch:
            return OffsetAndEpoch(self.batches[0].base_offset, epoch)
        last = max((batch for batch in self.batches if batch.epoch <= epoch), key=lambda batch: batch.end_offset)
        return OffsetAndEpoch(last.end_offset, last.epoch)

    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        return min(self.snapshots, default=None)

    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return max(self.snapshots, default=None)

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        return SNAPSHOT_SIZE if snapshot_id in self.snapshots else None

    def append(self, batch: Batch) -> None:
        assert batch.base_offset == self.end.offset, f"{batch} appended at {self.end}"
        self.batches.append(batch)

    def truncate_to(self, offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.end_offset <= offset]
        assert self.end.offset == offset
        self.flushed = min(self.flushed, offset)
        self.generation += 1

    def read(self, offset: int) -> list[Batch]:
        return [batch for batch in self.batches if batch.end_offset > offset][:BATCHES_PER_FETCH]

    def crash(self) -> None:
        self.batches = [batch for batch in self.batches if batch.end_offset <= self.flushed]

    def contents(self, up_to: int) -> list[tuple[int, object]]:
        """(epoch, content) of everything below an offset that the log still holds, for comparisons."""
        return [(batch.epoch, batch.content) for batch in self.batches if batch.end_offset <= up_to]


class Node:
    """One replica: what survives (log, election) and what runs (the core)."""

    def __init__(self, cluster: Cluster, voter: Voter) -> None:
        self.cluster = cluster
        self.voter = voter
        self.log = MemoryLog()
        self.election: ElectionState | None = None
        self.raft: Raft | None = None
        self.incarnation = 0
        self.answers: dict[int, tuple[Callable[[Response], None], Callable[[], None]]] = {}
        """Who waits for an answer: how to give it, and what happens when the process dies first."""
        self.next_token = 0
        self.paused = False
        self.inbox: list[Callable[[], None]] = []
        """What came while the process stood still."""
        self.flushing = False
        self.tick_at = NEVER
        self.announced_high_watermark = -1
        self.chunks = 0

    @property
    def id(self) -> int:
        return self.voter.id

    def start(self) -> None:
        self.incarnation += 1
        self.flushing = False
        history = VoterHistory(self.cluster.voters)
        for batch in self.log.batches:
            for update in batch.control:
                if update.voters is not None:
                    history.add_voters(update.offset, update.voters)
        self.raft = Raft(
            local=self.voter,
            log=self.log,
            voters=history,
            election=self.election,
            rng=random.Random(self.cluster.rng.getrandbits(32)),
            timeouts=self.cluster.timeouts,
            bootstrap=self.cluster.voters.ids,
        )
        self.announced_high_watermark = -1
        self.perform(self.raft.start(self.cluster.now_ms))

    def crash(self) -> None:
        self.raft = None
        self.tick_at = NEVER
        self.incarnation += 1
        self.paused = False
        self.inbox.clear()
        self.log.crash()
        waiting, self.answers = self.answers, {}
        for _, connection_lost in waiting.values():
            connection_lost()

    def pause(self) -> None:
        """The process stands still: nothing is read, no timer runs, and it does not notice."""
        self.paused = self.raft is not None

    def go_on(self) -> None:
        """What waits in its sockets is served first, then its timers."""
        if not self.paused:
            return
        self.paused = False
        inbox, self.inbox = self.inbox, []
        for work in inbox:
            self.do(work)
        if self.tick_at != NEVER:
            self.cluster.wake(self, self.tick_at)

    def do(self, work: Callable[[], None]) -> None:
        """Something reaches the process, now or when it goes on."""
        if self.paused:
            self.inbox.append(work)
        else:
            work()

    def step(self, event: Event) -> None:
        if self.raft is not None:
            self.perform(self.raft.step(event, self.cluster.now_ms))

    def perform(self, ready: Ready) -> None:
        assert self.raft is not None
        if ready.quorum_state is not None:
            self.cluster.check_election(self, self.election, ready.quorum_state)
            self.election = ready.quorum_state
        if ready.truncate_to is not None:
            self.log.truncate_to(ready.truncate_to)
        for append in ready.appends:
            self._append(append)
        for chunk in ready.snapshot_chunks:
            self.chunks += 1
            if chunk.last:
                content = self.cluster.snapshot_contents(chunk.snapshot_id)
                self.log.snapshots = {chunk.snapshot_id: content}
                self.log.batches = []
                self.log.start_offset = self.log.flushed = chunk.snapshot_id.offset
                self.log.generation += 1
                installed = SnapshotInstalled(chunk.snapshot_id, None, 0)
                self.cluster.later(1, self, lambda installed=installed: self.step(installed))
        for message in ready.messages:
            self.cluster.send(self, message)
        for token, response in ready.replies:
            self.answers.pop(token)[0](self._attach(response))
        if ready.high_watermark is not None:
            self.cluster.check_high_watermark(self, ready.high_watermark)
            self.announced_high_watermark = ready.high_watermark
        self._flush()
        self.cluster.check_leaders()
        self.tick_at = self.raft.deadline_ms
        if self.tick_at != NEVER:
            self.cluster.wake(self, self.tick_at)

    def _append(self, append: LogAppend) -> None:
        if append.fetched is not None:
            batches = append.fetched.payload
            assert isinstance(batches, list)
            for batch in batches:
                self.log.append(batch)
        else:
            control = tuple(
                ControlUpdate(append.base_offset + index, voters=record.voters)
                for index, record in enumerate(append.control)
                if isinstance(record, VotersChange)
            )
            content = append.payload if append.payload is not None else append.control
            self.log.append(Batch(append.base_offset, append.end_offset, append.epoch, content, control))

    def _flush(self) -> None:
        """One at a time; what is appended or replaced meanwhile is for the next one. Who is no voter does it now and then."""
        end, generation = self.log.end.offset, self.log.generation
        if self.flushing or self.log.flushed >= end or self.raft is None:
            return
        self.flushing = True
        delay_ms = self.cluster.rng.randrange(self.cluster.flush_ms if self.raft.is_voter else OBSERVER_FLUSH_MS)
        self.cluster.later(delay_ms, self, lambda: self._flushed(end, generation))

    def _flushed(self, end: int, generation: int) -> None:
        self.flushing = False
        if self.log.generation == generation:
            self.log.flushed = max(self.log.flushed, end)
        self.step(Flushed(self.log.flushed))

    def _attach(self, response: Response) -> Response:
        """What the shell adds to the core's answers: records, snapshot bytes."""
        if isinstance(response, FetchResponse) and response.read_from is not None:
            batches = self.log.read(response.read_from)
            if batches:
                control = tuple(update for batch in batches for update in batch.control)
                records = FetchedRecords(batches, batches[0].base_offset, batches[-1].end_offset, batches[-1].epoch, control)
                return response._replace(records=records)
        if isinstance(response, FetchSnapshotResponse) and response.max_bytes:
            return response._replace(data=b"x" * min(response.max_bytes, 40))
        return response

    def receive(
        self,
        event: Callable[[int], RequestReceived],
        answer: Callable[[Response], None],
        connection_lost: Callable[[], None] = lambda: None,
    ) -> None:
        if self.raft is None:
            connection_lost()
            return
        self.next_token += 1
        self.answers[self.next_token] = (answer, connection_lost)
        self.step(event(self.next_token))


class InvariantViolation(AssertionError):
    """Named, with the seed that brings it back."""


class Cluster:
    """Nodes 1..n, time, network and the invariants."""

    def __init__(
        self,
        seed: int,
        *,
        voters: int = 3,
        observers: int = 0,
        drop: float = 0.0,
        delay_ms: int = 5,
        flush_ms: int = 5,
        directory_ids: bool = False,
        refuses: bool = False,
    ) -> None:
        """With `refuses` the machine of a process that is gone says so to whoever talks to it; else there is silence."""
        self.seed = seed
        self.rng = random.Random(seed)
        self.now_ms = 1000
        self.drop = drop
        self.delay_ms = delay_ms
        self.flush_ms = flush_ms
        self.refuses = refuses
        self.timeouts = RaftTimeouts(
            election_ms=100,
            election_backoff_max_ms=100,
            fetch_ms=200,
            request_ms=200,
            retry_backoff_ms=10,
            fetch_max_wait_ms=50,
            unreachable_min_ms=5,
            unreachable_max_ms=20,
        )
        members = [
            Voter(number, UUID(int=1000 + number) if directory_ids else None, (Endpoint("CONTROLLER", "localhost", 9000 + number),))
            for number in range(1, voters + observers + 1)
        ]
        self.voters = VoterSet(members[:voters])
        self.nodes = {
            voter.id: Node(self, voter._replace(directory_id=voter.directory_id or UUID(int=1000 + voter.id))) for voter in members
        }
        self.cut: set[tuple[int, int]] = set()
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self.leaders: dict[int, int] = {}
        self.committed: list[tuple[int, int, object]] = []
        """(end offset, epoch, content) of every batch that any replica knew to be committed, in order."""
        self.proposed = 0
        self.steps = 0

    def fail(self, invariant: str, text: str) -> None:
        raise InvariantViolation(f"{invariant} (seed {self.seed}, step {self.steps}, {self.now_ms} ms): {text}")

    # Time and network ------------------------------------------------------------------------------------------------------

    def at(self, when_ms: int, work: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (max(when_ms, self.now_ms), self._sequence, work))

    def later(self, delay_ms: int, node: Node, work: Callable[[], None]) -> None:
        """Runs on the node, unless it has crashed meanwhile."""
        incarnation = node.incarnation

        def at_node() -> None:
            if node.incarnation == incarnation:
                node.do(work)

        self.at(self.now_ms + delay_ms, at_node)

    def wake(self, node: Node, when_ms: int) -> None:
        incarnation = node.incarnation

        def tick() -> None:
            if node.incarnation == incarnation and node.tick_at == when_ms and not node.paused:
                node.step(Tick())

        self.at(when_ms, tick)

    def _lost(self, source: int, target: int) -> bool:
        return (source, target) in self.cut or (self.drop > 0 and self.rng.random() < self.drop)

    def send(self, source: Node, message: Outbound) -> None:
        target = self.nodes[message.destination]
        correlation = message.correlation
        incarnation = source.incarnation

        def back(event: ResponseReceived) -> None:
            if source.incarnation == incarnation and not self._lost(target.id, source.id):
                self.later(self.rng.randrange(self.delay_ms) + 1, source, lambda: source.step(event))

        def answered(response: Response) -> None:
            back(ResponseReceived(correlation, response))

        def connection_lost() -> None:
            if self.refuses:
                back(ResponseReceived(correlation, None, unreachable=True))

        def arrive() -> None:
            target.do(lambda: target.receive(lambda token: RequestReceived(token, message.request), answered, connection_lost))

        if not self._lost(source.id, target.id):
            self.at(self.now_ms + self.rng.randrange(self.delay_ms) + 1, arrive)

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()

    def run(self, for_ms: int) -> None:
        end = self.now_ms + for_ms
        while self._queue and self._queue[0][0] <= end:
            when, _, work = heapq.heappop(self._queue)
            self.now_ms = max(self.now_ms, when)
            self.steps += 1
            work()
        self.now_ms = end

    def run_until(self, condition: Callable[[], bool], *, within_ms: int = 20_000) -> None:
        end = self.now_ms + within_ms
        while not condition():
            if not self._queue or self._queue[0][0] > end:
                self.fail("liveness", f"not reached within {within_ms} ms: {self.describe()}")
            when, _, work = heapq.heappop(self._queue)
            self.now_ms = max(self.now_ms, when)
            self.steps += 1
            work()

    # Faults and load -------------------------------------------------------------------------------------------------------

    def isolate(self, node_id: int) -> None:
        """Cuts a node off in both directions."""
        for other in self.nodes:
            self.cut |= {(node_id, other), (other, node_id)}

    def heal(self) -> None:
        self.cut.clear()

    def leader(self) -> Node | None:
        """The leader of the largest epoch, if there is one up."""
        leading = [node for node in self.nodes.values() if node.raft is not None and node.raft.role is Role.LEADER]
        return max(leading, key=lambda node: node.raft.epoch if node.raft else 0, default=None)

    def propose(self, node: Node | None = None) -> None:
        """To `node`, or to the leader of the largest epoch."""
        leader = node or self.leader()
        if leader is not None and leader.raft is not None:
            self.proposed += 1
            proposal = Propose(leader.raft.epoch, 1 + self.rng.randrange(3), f"payload {self.proposed}")
            leader.do(lambda: leader.step(proposal))

    def propose_to_all(self) -> None:
        """To whoever believes to lead."""
        for node in self.nodes.values():
            if node.raft is not None and node.raft.is_leader:
                self.propose(node)

    def resign(self) -> None:
        leader = self.leader()
        if leader is not None and leader.raft is not None:
            resignation = Resign(leader.raft.epoch)
            leader.do(lambda: leader.step(resignation))

    def take_snapshot(self, node: Node, *, cut_log: bool = True) -> None:
        """The state machine of a node writes a snapshot at its high watermark and drops the log below."""
        high_watermark = node.announced_high_watermark
        ends = [(end, epoch) for end, epoch, _ in self.committed if end <= high_watermark]
        if not ends or node.raft is None:
            return
        snapshot_id = OffsetAndEpoch(*ends[-1])
        if node.log.latest_snapshot() is not None and snapshot_id <= (node.log.latest_snapshot() or snapshot_id):
            return
        node.log.snapshots = {snapshot_id: self.snapshot_contents(snapshot_id)}
        if cut_log and node.log.flushed >= snapshot_id.offset:
            node.log.batches = [batch for batch in node.log.batches if batch.end_offset > snapshot_id.offset]
            node.log.start_offset = snapshot_id.offset

    def snapshot_contents(self, snapshot_id: OffsetAndEpoch) -> tuple[object, ...]:
        return tuple(content for end, _, content in self.committed if end <= snapshot_id.offset)

    def has_leader_with_commit(self) -> bool:
        leader = self.leader()
        state = leader.raft.leader_state() if leader is not None and leader.raft is not None else None
        return state is not None and state.progress.high_watermark is not None

    def converged(self) -> bool:
        """All are up, follow one leader and hold the same committed log."""
        ends = {node.log.end for node in self.nodes.values()}
        watermarks = {node.announced_high_watermark for node in self.nodes.values()}
        leaders = {node.raft.leader_and_epoch if node.raft is not None else None for node in self.nodes.values()}
        return self.has_leader_with_commit() and len(ends) == len(watermarks) == len(leaders) == 1 and watermarks == {ends.pop().offset}

    def describe(self) -> str:
        return "; ".join(
            f"{node.id}: {node.raft.role.value if node.raft else 'down'} epoch {node.raft.epoch if node.raft else '-'} "
            f"leader {node.raft.leader_id if node.raft else '-'} end {node.log.end} hw {node.announced_high_watermark}"
            for node in self.nodes.values()
        )

    # Invariants ------------------------------------------------------------------------------------------------------------

    def check_leaders(self) -> None:
        for node in self.nodes.values():
            if node.raft is not None and node.raft.role is Role.LEADER:
                known = self.leaders.setdefault(node.raft.epoch, node.id)
                if known != node.id:
                    self.fail("one leader per epoch", f"{known} and {node.id} lead epoch {node.raft.epoch}")

    def check_election(self, node: Node, before: ElectionState | None, after: ElectionState) -> None:
        if before is None:
            return
        if after.epoch < before.epoch:
            self.fail("epochs do not go back", f"node {node.id} went from {before} to {after}")
        votes = (before.voted, after.voted)
        if after.epoch == before.epoch and None not in votes and votes[0] != votes[1]:
            self.fail("one vote per epoch", f"node {node.id} went from {before} to {after}")

    def check_high_watermark(self, node: Node, high_watermark: int) -> None:
        if high_watermark < node.announced_high_watermark:
            self.fail("high watermark monotonic", f"node {node.id}: {node.announced_high_watermark} -> {high_watermark}")
        if high_watermark > node.log.end.offset:
            self.fail("high watermark within the log", f"node {node.id}: {high_watermark} beyond {node.log.end}")
        known = {end: (epoch, content) for end, epoch, content in self.committed}
        for batch in node.log.batches:
            if batch.end_offset > high_watermark:
                break
            if batch.end_offset in known:
                if known[batch.end_offset] != (batch.epoch, batch.content):
                    self.fail("committed prefix", f"node {node.id} holds {batch}, committed was {known[batch.end_offset]}")
            elif self.committed and batch.end_offset < self.committed[-1][0]:
                self.fail("committed prefix", f"node {node.id} holds {batch} across a committed batch")
            else:
                self.committed.append((batch.end_offset, batch.epoch, batch.content))
                self.check_durable(batch)

    def check_durable(self, batch: Batch) -> None:
        """What is committed for the first time must be on the disks of a majority: a crash of all may not lose it."""
        holders = 0
        for node in (self.nodes[voter] for voter in self.voters.ids):
            in_log = any(
                each.end_offset == batch.end_offset and each.epoch == batch.epoch
                for each in node.log.batches
                if each.end_offset <= node.log.flushed
            )
            holders += in_log or node.log.start_offset >= batch.end_offset
        if holders < self.voters.majority:
            self.fail("committed is durable on a majority", f"{batch} is on {holders} disks")
