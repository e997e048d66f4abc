"""Progress of the replicas as their leader sees it, and the high watermark that results from it."""

from __future__ import annotations

from odradek.consensus.voters import ReplicaKey, VoterSet

OBSERVER_SESSION_MS = 300_000
"""Milliseconds without a fetch after which the leader forgets an observer."""


class ReplicaProgress:
    """Progress of one replica. Unknown offsets and times are -1."""

    __slots__ = ("counts_from", "end_offset", "key", "last_caught_up_ms", "last_fetch_leader_end_offset", "last_fetch_ms")

    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.counts_from = 0
        """Offset from which this voter's log end counts.

        A former observer counts later, because observers do not flush before they fetch.
        """
        self.end_offset = -1
        self.last_fetch_ms = -1
        self.last_fetch_leader_end_offset = -1
        self.last_caught_up_ms = -1

    def fetched(self, offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Note a fetch from `offset`: the replica holds everything below."""
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif self.last_fetch_leader_end_offset >= 0 and offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)
        self.last_fetch_leader_end_offset = leader_end_offset
        self.end_offset = offset


class QuorumProgress:
    """Progress of all replicas of one leader. The leader counts its own durable records, not those it has only appended."""

    __slots__ = ("epoch_start_offset", "high_watermark", "local", "observers", "voter_set", "voters")

    def __init__(self, local: ReplicaKey, voters: VoterSet, epoch_start_offset: int) -> None:
        self.local = local
        self.epoch_start_offset = epoch_start_offset
        self.high_watermark: int | None = None
        self.voters: dict[int, ReplicaProgress] = {}
        self.observers: dict[ReplicaKey, ReplicaProgress] = {}
        self.voter_set = VoterSet()
        self.update_voters(voters, None)

    def update_voters(self, voters: VoterSet, offset: int | None) -> None:
        """Replace the voter set by `voters`, which the record at `offset` brought (None: no record).

        A replica that leaves the set becomes an observer. A replica that enters it keeps its progress, and counts as soon as it has the
        record at `offset`. From then on the replica knows that it votes, and flushes before it fetches.
        """
        self.voter_set = voters
        former = dict(self.voters)
        self.voters = {}
        for voter in voters:
            known = former.get(voter.id)
            if known is not None and (voter.directory_id is None or known.key.directory_id in (None, voter.directory_id)):
                del former[voter.id]
            else:
                known = self.observers.pop(voter.key, None) or ReplicaProgress(voter.key)
                known.counts_from = 0 if offset is None else offset + 1
            known.key = voter.key
            self.voters[voter.id] = known
        for progress in former.values():
            self.observers[progress.key] = progress

    def of(self, key: ReplicaKey) -> ReplicaProgress:
        """Return the progress of a replica. A replica outside the voter set becomes an observer."""
        voter = self.voters.get(key.id)
        if voter is not None and (voter.key.directory_id is None or voter.key.directory_id == key.directory_id):
            return voter
        return self.observers.setdefault(key, ReplicaProgress(key))

    def is_voter(self, key: ReplicaKey) -> bool:
        voter = self.voters.get(key.id)
        return voter is not None and (voter.key.directory_id is None or voter.key.directory_id == key.directory_id)

    def local_flushed(self, end_offset: int) -> None:
        self.of(self.local).end_offset = end_offset

    def advance(self) -> bool:
        """Move the high watermark to the offset that a majority of voters holds, and return whether it moved.

        The offset must include a record of the leader's own epoch. Only such a record proves that no replica without it can win an
        election. The commit of this record commits all records before it.
        """
        ends = (voter.end_offset if voter.end_offset >= voter.counts_from else -1 for voter in self.voters.values())
        offsets = sorted(ends, reverse=True)
        candidate = offsets[len(offsets) // 2] if offsets else -1
        if candidate <= self.epoch_start_offset or (self.high_watermark is not None and candidate <= self.high_watermark):
            return False
        self.high_watermark = candidate
        return True

    def by_descending_offset(self) -> tuple[ReplicaKey, ...]:
        """Return the keys of the other voters, sorted by descending end offset."""
        others = [voter for voter in self.voters.values() if voter.key.id != self.local.id]
        return tuple(voter.key for voter in sorted(others, key=lambda voter: (-voter.end_offset, voter.key.id)))

    def forget_silent_observers(self, now_ms: int) -> None:
        for key in [
            key for key, progress in self.observers.items() if key != self.local and now_ms - progress.last_fetch_ms >= OBSERVER_SESSION_MS
        ]:
            del self.observers[key]
