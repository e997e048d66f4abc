"""How far the other replicas have come, as their leader sees it, and the high watermark that follows from it."""

from __future__ import annotations

from odradek.consensus.voters import ReplicaKey, VoterSet

OBSERVER_SESSION_MS = 300_000
"""An observer that has not fetched for this long is forgotten."""


class ReplicaProgress:
    """One replica. Offsets are -1 and times -1 where they are not known."""

    __slots__ = ("counts_from", "end_offset", "key", "last_caught_up_ms", "last_fetch_leader_end_offset", "last_fetch_ms")

    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.counts_from = 0
        """A voter's copy counts when it ends here or beyond: an observer, which it was before, does not flush what it has."""
        self.end_offset = -1
        self.last_fetch_ms = -1
        self.last_fetch_leader_end_offset = -1
        self.last_caught_up_ms = -1

    def fetched(self, offset: int, leader_end_offset: int, now_ms: int) -> None:
        """The replica asked for `offset`: it holds everything below."""
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif self.last_fetch_leader_end_offset >= 0 and offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)
        self.last_fetch_leader_end_offset = leader_end_offset
        self.end_offset = offset


class QuorumProgress:
    """The replicas of one leader. The leader counts itself with what is durable, not with what is appended."""

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
        """Counts by `voters`, which the record at `offset` (None: no record) brought. Who leaves the set is observed; who enters it keeps
        what is known of it, and counts as soon as it has that record: from then on it is a voter itself, and fetches what it has flushed.
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
        """The replica's entry, as an observer when it is not a voter."""
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
        """Moves the high watermark to what a majority of voters holds, once that includes a record of this epoch; whether it moved.

        Only a record of its own epoch proves to a leader that no other log can win an election without it; it commits all before it.
        """
        ends = (voter.end_offset if voter.end_offset >= voter.counts_from else -1 for voter in self.voters.values())
        offsets = sorted(ends, reverse=True)
        candidate = offsets[len(offsets) // 2] if offsets else -1
        if candidate <= self.epoch_start_offset or (self.high_watermark is not None and candidate <= self.high_watermark):
            return False
        self.high_watermark = candidate
        return True

    def by_descending_offset(self) -> tuple[ReplicaKey, ...]:
        """The other voters, those with most of the log first."""
        others = [voter for voter in self.voters.values() if voter.key.id != self.local.id]
        return tuple(voter.key for voter in sorted(others, key=lambda voter: (-voter.end_offset, voter.key.id)))

    def forget_silent_observers(self, now_ms: int) -> None:
        for key in [
            key for key, progress in self.observers.items() if key != self.local and now_ms - progress.last_fetch_ms >= OBSERVER_SESSION_MS
        ]:
            del self.observers[key]
