"""The metadata log: one leader an epoch, one vote an epoch, and what was committed once is committed for ever, on a majority of the disks.

What the nodes say comes from the wire (votes) and from what they believe, looked at often and before every fault; what they hold is read
off their disks.
"""

from __future__ import annotations

from bisect import bisect, insort
from typing import TYPE_CHECKING, NamedTuple

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from odradek.protocol.messages.vote import VoteRequest, VoteResponse
from odradek.records.batch import BatchHeader
from odradek.testing.simulation.cluster import DATA
from odradek.testing.simulation.wiretap import TappedRequest
from tests.simulation.whole.invariants.logs import LogCursor

if TYPE_CHECKING:
    from tests.simulation.whole.story import Story

DIRECTORY = f"{DATA}/__cluster_metadata-0"
_DURABLE_EVERY_S = 1.0


class Committed(NamedTuple):
    """A batch that some node knew to be committed."""

    next_offset: int
    epoch: int
    crc: int


class CommittedBatches:
    """What some node has known to be committed. A node whose log begins with a snapshot may tell of later batches before others tell of
    those that the snapshot holds.
    """

    def __init__(self) -> None:
        self.end = 0
        """Everything below is known to be committed."""
        self.last_epoch = 0
        self._batches: dict[int, Committed] = {}
        self._bases: list[int] = []

    def note(self, base_offset: int, found: Committed) -> str | None:
        """Takes a committed batch in; what is wrong with it."""
        known = self._batches.get(base_offset)
        if known is not None:
            return None if known == found else f"{found} at {base_offset}, committed was {known}"
        index = bisect(self._bases, base_offset)
        if index and self._batches[self._bases[index - 1]].next_offset > base_offset:
            return f"a batch at {base_offset}, within a committed one"
        if index < len(self._bases) and self._bases[index] < found.next_offset:
            return f"a batch at {base_offset}, which reaches into a committed one at {self._bases[index]}"
        self._batches[base_offset] = found
        insort(self._bases, base_offset)
        self.end = max(self.end, found.next_offset)
        self.last_epoch = max(self.last_epoch, found.epoch)
        return None

    def may_hold(self, base_offset: int, next_offset: int, crc: int) -> bool:
        """Whether a batch can be a committed one."""
        known = self._batches.get(base_offset)
        return next_offset <= self.end and (known is None or known.crc == crc)


class RaftPromises:
    """See the module's text."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._committed = CommittedBatches()
        self._votes: dict[tuple[str, int], int] = {}
        self._leaders: dict[int, int] = {}
        self._epochs: dict[tuple[int, int], int] = {}
        self._told: dict[str, int] = {}
        """Host -> the last epoch in which it voted or led. What it only believed may be lost with its memory."""
        self._high_watermarks: dict[tuple[int, int], int] = {}
        self._cursors: dict[tuple[int, int], LogCursor] = {}
        self._durable: dict[tuple[int, int], LogCursor] = {}
        self._looked_at_disks = -1.0
        story.tap.on_response.append(self._answered)
        story.tap.on_request.append(self._asked)

    @property
    def committed_offset(self) -> int:
        """Everything below is known to be committed."""
        return self._committed.end

    def _problem(self, text: str) -> None:
        self._story.problem("raft", text)

    # -- the wire --------------------------------------------------------------------------------------------------------------------

    def _answered(self, asked: TappedRequest, body: memoryview) -> None:
        if asked.api_key != ApiKey.VOTE:
            return
        request, response = VoteRequest.decode(asked.body, asked.version), VoteResponse.decode(body, asked.version)
        for topic, answer in zip(request.topics, response.topics, strict=False):
            vote, given = topic.partitions[0], answer.partitions[0]
            self._told[asked.target] = max(self._told.get(asked.target, 0), given.leader_epoch)
            if given.vote_granted and not vote.pre_vote:
                known = self._votes.setdefault((asked.target, vote.replica_epoch), vote.replica_id)
                if known != vote.replica_id:
                    self._problem(
                        f"one vote an epoch: {asked.target} voted for {known} and {vote.replica_id} in epoch {vote.replica_epoch}"
                    )

    def _asked(self, request: TappedRequest) -> None:
        if request.api_key == ApiKey.BEGIN_QUORUM_EPOCH:
            partition = BeginQuorumEpochRequest.decode(request.body, request.version).topics[0].partitions[0]
            self._told[request.source] = max(self._told.get(request.source, 0), partition.leader_epoch)
            self._leads(partition.leader_id, partition.leader_epoch)

    def _leads(self, leader: int, epoch: int) -> None:
        known = self._leaders.setdefault(epoch, leader)
        if known != leader:
            self._problem(f"one leader an epoch: {known} and {leader} lead epoch {epoch}")

    # -- the nodes -------------------------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """At what the nodes believe now."""
        cluster = self._story.cluster
        for node in cluster.ids:
            kraft = cluster.kraft(node)
            if kraft is None:
                continue
            leader, epoch = kraft.leader_and_epoch
            if leader >= 0:
                self._leads(leader, epoch)
            life = (node, cluster.nodes[node].lives)
            known = max(self._epochs.get(life, 0), self._told.get(cluster.host(node), 0))
            if epoch < known:
                self._problem(f"epochs do not go back: node {node} was in {known} and is in {epoch}")
            self._epochs[life] = epoch
            high_watermark = kraft.high_watermark
            before = self._high_watermarks.get(life, -1)
            if high_watermark < before:
                self._problem(f"high watermark monotonic: node {node} went from {before} to {high_watermark}")
            if high_watermark > before:
                self._high_watermarks[life] = high_watermark
                self._compare(life, high_watermark)
            if leader == node and epoch > self._committed.last_epoch and kraft.log.end.offset < self._committed.end:
                self._problem(
                    f"leader completeness: node {node} leads epoch {epoch} and its log ends at {kraft.log.end.offset}, "
                    f"{self._committed.end} records are committed"
                )
        now = self._story.loop.time()
        if now >= self._looked_at_disks + _DURABLE_EVERY_S:
            self._looked_at_disks = now
            self._look_at_disks()

    def _compare(self, life: tuple[int, int], high_watermark: int) -> None:
        """What a node has committed is what others have."""
        node = life[0]
        cursor = self._cursors.setdefault(life, LogCursor(DIRECTORY))
        for header in cursor.read(self._story.cluster.nodes[node].disk, high_watermark):
            found = Committed(header.next_offset, header.partition_leader_epoch, header.crc)
            wrong = self._committed.note(header.base_offset, found)
            if wrong is not None:
                self._problem(f"state-machine safety: node {node} has {wrong}")

    def _is_committed(self, header: BatchHeader) -> bool:
        return self._committed.may_hold(header.base_offset, header.next_offset, header.crc)

    def _look_at_disks(self) -> None:
        """What is committed stands on a majority of the voters' disks, whatever happens to all of them at once."""
        cluster = self._story.cluster
        holders = 0
        for node in cluster.controller_ids:
            simulated = cluster.nodes[node]
            cursor = self._durable.setdefault((node, simulated.lives), LogCursor(DIRECTORY))
            # Others that nobody has committed may stand there: a node that was leader does not know yet that it has to cut them off.
            cursor.pass_durable(simulated.disk, self._is_committed)
            holders += cursor.offset >= self._committed.end
        if holders <= len(cluster.controller_ids) // 2:
            self._problem(f"committed is durable on a majority: {self._committed.end} records are on {holders} disks")
