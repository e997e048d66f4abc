"""The metadata log: one leader an epoch, one vote an epoch, and what was committed once is committed for ever, on a majority of the disks.

What the nodes say comes from the wire (votes) and from what they believe, looked at often and before every fault; what they hold is read
off their disks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from odradek.protocol.messages.vote import VoteRequest, VoteResponse
from odradek.records.batch import BatchHeader
from odradek.testing.cluster import DATA
from odradek.testing.wiretap import TappedRequest
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


class RaftPromises:
    """See the module's text."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self.committed_offset = 0
        """Everything below is known to be committed."""
        self._committed: dict[int, Committed] = {}
        self._last_epoch = 0
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
            if leader == node and epoch > self._last_epoch and kraft.log.end.offset < self.committed_offset:
                self._problem(
                    f"leader completeness: node {node} leads epoch {epoch} and its log ends at {kraft.log.end.offset}, "
                    f"{self.committed_offset} records are committed"
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
            known = self._committed.get(header.base_offset)
            if known is None and header.base_offset < self.committed_offset:
                if self._committed and header.base_offset >= min(self._committed):
                    self._problem(f"state-machine safety: node {node} has a batch at {header.base_offset}, within a committed one")
                continue
            if known is None:
                self._committed[header.base_offset] = found
                self.committed_offset = max(self.committed_offset, found.next_offset)
                self._last_epoch = max(self._last_epoch, found.epoch)
            elif known != found:
                self._problem(f"state-machine safety: node {node} has {found} at {header.base_offset}, committed was {known}")

    def _is_committed(self, header: BatchHeader) -> bool:
        if header.next_offset > self.committed_offset:
            return False
        known = self._committed.get(header.base_offset)
        return known is None or known.crc == header.crc

    def _look_at_disks(self) -> None:
        """What is committed stands on a majority of the voters' disks, whatever happens to all of them at once."""
        cluster = self._story.cluster
        holders = 0
        for node in cluster.controller_ids:
            simulated = cluster.nodes[node]
            cursor = self._durable.setdefault((node, simulated.lives), LogCursor(DIRECTORY))
            # Others that nobody has committed may stand there: a node that was leader does not know yet that it has to cut them off.
            cursor.pass_durable(simulated.disk, self._is_committed)
            holders += cursor.offset >= self.committed_offset
        if holders <= len(cluster.controller_ids) // 2:
            self._problem(f"committed is durable on a majority: {self.committed_offset} records are on {holders} disks")
