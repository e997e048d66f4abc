"""One replica alone: the test says what its peers say, and looks at what it asks, answers, writes and believes."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.consensus.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    ControlUpdate,
    ElectionState,
    EndQuorumEpochRequest,
    Event,
    FetchedRecords,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Flushed,
    Outbound,
    Propose,
    Ready,
    Request,
    RequestReceived,
    Resign,
    Response,
    ResponseReceived,
    Shutdown,
    SnapshotInstalled,
    Tick,
    VoteRequest,
    VoteResponse,
)
from odradek.consensus.raft import Raft, RaftTimeouts
from odradek.consensus.states import Role
from odradek.consensus.voters import Endpoint, OffsetAndEpoch, ReplicaKey, Voter, VoterHistory, VoterSet
from tests.consensus.simulation import Batch, MemoryLog

ME = 1


def voter(number: int) -> Voter:
    return Voter(number, UUID(int=1000 + number), (Endpoint("CONTROLLER", "localhost", 9000 + number),))


def key(number: int) -> ReplicaKey:
    return voter(number).key


class Replica:
    """Node 1 of a quorum. What a step wants written is written; messages are kept for the test to answer."""

    def __init__(
        self,
        voters: int | VoterSet = 3,
        *,
        epochs: tuple[int, ...] = (),
        election: ElectionState | None = None,
        directory: UUID | None = None,
        doubts: bool = True,
        bootstrap: tuple[int, ...] | None = None,
    ) -> None:
        """`epochs`: one record of each stands in the log, flushed. Without `doubts` the timeouts are Kafka's."""
        self.now_ms = 1000
        self.log = MemoryLog()
        for offset, epoch in enumerate(epochs):
            self.log.append(Batch(offset, offset + 1, epoch, f"old {offset}"))
        self.log.flushed = len(epochs)
        members = voters if isinstance(voters, VoterSet) else VoterSet(voter(number) for number in range(1, voters + 1))
        self.election = election
        self.raft = Raft(
            local=voter(ME)._replace(directory_id=directory or voter(ME).directory_id),
            log=self.log,
            voters=VoterHistory(members),
            election=election,
            rng=random.Random(1),
            timeouts=RaftTimeouts(
                election_ms=100,
                election_backoff_max_ms=20,
                fetch_ms=200,
                request_ms=150,
                retry_backoff_ms=10,
                unreachable_min_ms=20,
                unreachable_max_ms=50 if doubts else 0,
            ),
            bootstrap=members.ids if bootstrap is None else bootstrap,
        )
        self.messages: list[Outbound] = []
        self.answers: dict[int, Response] = {}
        self.ready = self.perform(self.raft.start(self.now_ms))
        self._token = 0

    def perform(self, ready: Ready) -> Ready:
        self.ready = ready
        if ready.quorum_state is not None:
            self.election = ready.quorum_state
        if ready.truncate_to is not None:
            self.log.truncate_to(ready.truncate_to)
        for append in ready.appends:
            self.log.append(Batch(append.base_offset, append.end_offset, append.epoch, append.payload))
        self.messages += ready.messages
        self.answers.update(ready.replies)
        return ready

    def step(self, event: Event) -> Ready:
        return self.perform(self.raft.step(event, self.now_ms))

    def advance(self, milliseconds: int) -> None:
        """Time passes, with a tick whenever one is due."""
        end = self.now_ms + milliseconds
        while self.raft.deadline_ms <= end:
            self.now_ms = max(self.raft.deadline_ms, self.now_ms)
            self.step(Tick())
        self.now_ms = end

    def flush(self) -> None:
        self.log.flushed = self.log.end.offset
        self.step(Flushed(self.log.end.offset))

    def ask(self, request: Request) -> Response | None:
        """A peer's request; the answer, or None while it is parked."""
        self._token += 1
        self.step(RequestReceived(self._token, request))
        return self.answers.get(self._token)

    def sent(self, kind: type[Request]) -> list[Outbound]:
        """Takes the messages of a kind that have been sent since."""
        found = [message for message in self.messages if isinstance(message.request, kind)]
        self.messages = [message for message in self.messages if message not in found]
        return found

    def answer(self, message: Outbound, response: Response | None, *, unreachable: bool = False) -> None:
        self.step(ResponseReceived(message.correlation, response, unreachable))

    def lose_leader(self) -> None:
        """Its connection breaks, and is refused when it is opened again."""
        for _ in range(2):
            message = next(message for message in reversed(self.messages) if message.destination == self.raft.leader_id)
            self.messages.clear()
            self.answer(message, None, unreachable=True)
            self.advance(10)

    # -- ways into a role --------------------------------------------------------------------------------------------------

    def nominated(self) -> list[Outbound]:
        """Waits for the election timeout; the pre-votes it then asks for."""
        while self.raft.role is not Role.PROSPECTIVE:
            self.advance(1)
        return self.sent(VoteRequest)

    def elected(self) -> None:
        for _ in range(2):
            for message in self.nominated() if self.raft.role is not Role.CANDIDATE else self.sent(VoteRequest):
                self.answer(message, VoteResponse(ErrorCode.NONE, -1, self.raft.epoch, granted=True))
        assert self.raft.role is Role.LEADER

    def vote(
        self, candidate: ReplicaKey, *, epoch: int | None = None, pre_vote: bool = False, to: ReplicaKey | None = None
    ) -> VoteResponse:
        """Asks for the vote with a log that is as long as this one; by default in the epoch that the replica is in."""
        epoch = self.raft.epoch if epoch is None else epoch
        end = self.log.end
        response = self.ask(VoteRequest(to or key(ME), candidate, epoch, end.offset, min(end.epoch, epoch - (not pre_vote)), pre_vote))
        assert isinstance(response, VoteResponse)
        return response

    def follow(self, epoch: int, leader: int = 2) -> None:
        self.messages.clear()
        self.ask(BeginQuorumEpochRequest(key(ME), leader, epoch, voter(leader).endpoints))
        assert self.raft.role is Role.FOLLOWER

    def fetch_by(self, number: int, offset: int, *, wait_ms: int = 0, high_watermark: int = 2**63 - 1) -> FetchResponse | None:
        """A fetch of a replica whose last record is of the epoch that this log has there."""
        epoch = next((batch.epoch for batch in reversed(self.log.batches) if batch.end_offset <= offset), 0)
        answer = self.ask(FetchRequest(key(number), self.raft.epoch, offset, epoch, wait_ms, high_watermark))
        assert answer is None or isinstance(answer, FetchResponse)
        return answer

    def fetched(self, count: int = 1, *, high_watermark: int = -1, control: tuple[ControlUpdate, ...] = (), flush: bool = True) -> None:
        """The leader answers the fetch under way with `count` records of its epoch."""
        (message,) = self.sent(FetchRequest)
        epoch, base = self.raft.epoch, self.log.end.offset
        records = FetchedRecords(None, base, base + count, epoch, control) if count else None
        self.answer(message, FetchResponse(ErrorCode.NONE, 2, epoch, high_watermark, records=records))
        if flush:
            self.flush()


# Votes ---------------------------------------------------------------------------------------------------------------------


def test_a_follower_that_hears_its_leader_helps_nobody_against_it() -> None:
    replica = Replica()
    replica.follow(5)
    assert replica.vote(key(3), pre_vote=True).granted, "it has not heard from it yet"
    replica.fetched(0)
    assert not replica.vote(key(3), pre_vote=True).granted


def test_a_leader_helps_nobody_against_itself() -> None:
    replica = Replica()
    replica.elected()
    replica.flush()
    refused = replica.vote(key(3), pre_vote=True)
    assert (refused.granted, refused.leader_id) == (False, ME), "not even before its first commit"
    replica.fetch_by(2, replica.log.end.offset)
    assert replica.raft.high_watermark == 1
    assert not replica.vote(key(3), pre_vote=True).granted


@pytest.mark.parametrize("pre_vote", [False, True])
def test_nobody_gets_a_vote_in_the_voter_s_own_name(pre_vote: bool) -> None:
    replica = Replica()
    answer = replica.vote(key(ME), epoch=7, pre_vote=pre_vote)
    assert (answer.error, answer.granted, answer.epoch) == (ErrorCode.NONE, False, 7)
    assert replica.vote(key(2), epoch=7, pre_vote=pre_vote).granted, "that vote is still to be had"


def test_one_vote_an_epoch_whatever_the_role() -> None:
    candidate = Replica()
    for message in candidate.nominated():
        candidate.answer(message, VoteResponse(ErrorCode.NONE, -1, candidate.raft.epoch, granted=True))
    assert candidate.raft.role is Role.CANDIDATE
    assert not candidate.vote(key(3)).granted, "it has voted for itself"
    resigned = Replica(election=ElectionState(5, ME))
    assert resigned.raft.role is Role.RESIGNED
    assert not resigned.vote(key(3)).granted, "the epoch was its own"
    assert resigned.vote(key(3), epoch=6).granted
    former = Replica(election=ElectionState(5, ME))
    former.nominated()
    assert not former.vote(key(3), epoch=5).granted, "nor later"
    voted = Replica()
    assert voted.vote(key(2), epoch=7).granted
    assert voted.vote(key(2), epoch=7).granted, "asked again, it says the same"
    assert not voted.vote(key(3), epoch=7).granted
    assert not voted.vote(ReplicaKey(2, UUID(int=77)), epoch=7).granted, "the same node with another disk has not got the vote"


def test_a_vote_outlives_the_doubt_about_an_election() -> None:
    """Voted, then prospective, then refused by the others: the vote of the epoch is given all the same."""
    replica = Replica()
    assert replica.vote(key(2), epoch=7).granted
    for message in replica.nominated():
        replica.answer(message, VoteResponse(ErrorCode.NONE, -1, 7, granted=False))
    assert replica.raft.role is Role.VOTED
    assert not replica.vote(key(3), epoch=7).granted
    assert replica.election == ElectionState(7, -1, key(2))


def test_one_refusal_of_three_loses_no_election() -> None:
    replica = Replica()
    first, second = replica.nominated()
    replica.answer(first, VoteResponse(ErrorCode.NONE, -1, 0, granted=False))
    assert replica.raft.role is Role.PROSPECTIVE
    replica.answer(second, VoteResponse(ErrorCode.NONE, -1, 0, granted=True))
    assert replica.raft.role is Role.CANDIDATE


def test_a_refused_pre_vote_is_over_before_its_timeout() -> None:
    replica = Replica()
    for message in replica.nominated():
        replica.answer(message, VoteResponse(ErrorCode.NONE, -1, 0, granted=False))
    assert replica.raft.role is Role.UNATTACHED
    assert replica.raft.deadline_ms > replica.now_ms


def test_a_pre_vote_is_asked_for_in_the_present_epoch() -> None:
    replica = Replica()
    replica.vote(key(2), epoch=7)
    assert replica.vote(key(3), pre_vote=True) == VoteResponse(ErrorCode.NONE, -1, 7, granted=True)
    assert replica.vote(key(3), epoch=6).error is ErrorCode.FENCED_LEADER_EPOCH


def test_a_request_for_another_directory_is_not_for_this_replica() -> None:
    replica = Replica()
    refused = replica.vote(key(3), epoch=7, to=ReplicaKey(ME, UUID(int=77)))
    assert (refused.error, refused.granted) == (ErrorCode.INVALID_VOTER_KEY, False)


def test_whom_a_replica_votes_for_is_to_be_durable_with_the_answer() -> None:
    replica = Replica()
    replica.vote(key(2), epoch=7)
    assert replica.ready.quorum_state == ElectionState(7, -1, key(2))
    assert replica.ready.replies != []


def test_the_epoch_does_not_go_back_behind_the_log() -> None:
    assert Replica(epochs=(5,), election=ElectionState(3)).raft.epoch == 5


def test_who_is_no_voter_does_not_stand() -> None:
    observer = Replica(VoterSet([voter(2), voter(3)]))
    observer.advance(2000)
    observer.follow(4)
    observer.advance(2000)
    assert observer.raft.role is Role.FOLLOWER
    other_disk = Replica(directory=UUID(int=77))
    other_disk.advance(2000)
    assert other_disk.raft.role is Role.UNATTACHED


def test_who_shuts_down_does_not_stand() -> None:
    replica = Replica()
    replica.step(Shutdown())
    assert replica.raft.deadline_ms > replica.now_ms + 10**6, "no timer is left that would ring again and again"
    replica.advance(2000)
    replica.step(Tick())
    assert replica.raft.role is Role.UNATTACHED


# Leading -------------------------------------------------------------------------------------------------------------------


def test_a_new_role_does_not_wait_for_answers_to_the_old_ones_questions() -> None:
    replica = Replica(5)
    for _ in range(2):
        asked = replica.nominated() if replica.raft.role is not Role.CANDIDATE else replica.sent(VoteRequest)
        for message in asked[:2]:
            replica.answer(message, VoteResponse(ErrorCode.NONE, -1, replica.raft.epoch, granted=True))
    assert replica.raft.role is Role.LEADER
    assert {message.destination for message in replica.sent(BeginQuorumEpochRequest)} == {2, 3, 4, 5}, "two have not answered yet"


def told(replica: Replica) -> set[int]:
    """Whom the leader has told of its epoch since it was asked last; all of them have answered."""
    messages = replica.sent(BeginQuorumEpochRequest)
    for message in messages:
        replica.answer(message, BeginQuorumEpochResponse(ErrorCode.NONE, ME, replica.raft.epoch))
    return {message.destination for message in messages}


def test_a_leader_makes_itself_known_again_to_those_who_do_not_fetch() -> None:
    replica = Replica()
    replica.elected()
    assert told(replica) == {2, 3}
    replica.advance(50)
    assert told(replica) == set()
    replica.fetch_by(2, 0)
    replica.advance(50)
    assert told(replica) == {3}, "half a fetch timeout is over"
    replica.advance(100)
    assert told(replica) == {2, 3}, "the other one has fallen silent"


def test_a_leader_tells_a_voter_that_is_down_of_its_epoch_no_faster_than_the_others() -> None:
    replica = Replica()
    replica.elected()
    replica.flush()
    asked = 0
    for _ in range(1000):
        replica.fetch_by(2, replica.log.end.offset)
        for message in replica.sent(BeginQuorumEpochRequest):
            asked += 1
            replica.answer(message, None, unreachable=True)
        replica.advance(1)
    assert asked in (11, 12), "two at first, then one every 100 ms"


def test_a_second_leader_of_an_epoch_and_a_former_one_are_contradicted() -> None:
    replica = Replica()
    replica.follow(5)
    for leader, epoch, error in ((3, 5, ErrorCode.INVALID_REQUEST), (3, 4, ErrorCode.FENCED_LEADER_EPOCH)):
        answer = replica.ask(BeginQuorumEpochRequest(key(ME), leader, epoch, voter(leader).endpoints))
        assert answer is not None
        assert (answer.error, answer.leader_id, answer.epoch) == (error, 2, 5)
    ended = replica.ask(EndQuorumEpochRequest(3, 5))
    assert ended is not None
    assert ended.error is ErrorCode.INVALID_REQUEST


def test_all_stand_at_once_where_a_leader_prefers_nobody() -> None:
    for preferred, role in (((), Role.PROSPECTIVE), ((key(3),), Role.FOLLOWER)):
        replica = Replica()
        replica.follow(5)
        replica.ask(EndQuorumEpochRequest(2, 5, preferred))
        assert replica.raft.role is role


def test_the_vote_of_an_epoch_that_has_its_leader_is_given_to_nobody() -> None:
    replica = Replica()
    assert replica.vote(key(2), epoch=7).granted
    replica.follow(7)
    assert not replica.vote(key(2), epoch=7).granted
    assert replica.vote(key(2), epoch=7, pre_vote=True).granted


def test_a_leader_agrees_that_it_leads_and_a_follower_does_not() -> None:
    leader, follower = Replica(), Replica()
    leader.elected()
    follower.follow(5)
    for replica, error in ((leader, ErrorCode.NONE), (follower, ErrorCode.INVALID_REQUEST)):
        epoch, role = replica.raft.epoch, replica.raft.role
        for request in (BeginQuorumEpochRequest(key(ME), ME, epoch, voter(ME).endpoints), EndQuorumEpochRequest(ME, epoch, (key(ME),))):
            answer = replica.ask(request)
            assert answer is not None
            assert (answer.error, answer.epoch, replica.raft.role) == (error, epoch, role)
    another = leader.ask(BeginQuorumEpochRequest(key(3), ME, leader.raft.epoch))
    assert another is not None
    assert another.error is ErrorCode.INVALID_VOTER_KEY


def test_the_preferred_successor_stands_at_once_and_the_next_one_soon_after() -> None:
    for preferred, wait_ms in (((key(1), key(3)), 0), ((key(3), key(1)), 10)):
        replica = Replica()
        replica.follow(5)
        replica.ask(EndQuorumEpochRequest(2, 5, preferred))
        replica.advance(max(wait_ms - 1, 0))
        assert (replica.raft.role is Role.PROSPECTIVE) == (wait_ms == 0)
        replica.advance(1)
        assert replica.raft.role is Role.PROSPECTIVE


def test_a_server_that_knows_no_leader_is_asked_again_after_a_pause() -> None:
    replica = Replica(VoterSet([voter(2)]))
    asked = 0
    for _ in range(100):
        for message in replica.sent(FetchRequest):
            asked += 1
            replica.answer(message, FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, 0))
        replica.advance(1)
    assert 9 <= asked <= 11, "every 10 ms, not as fast as it answers"


def test_when_a_leader_resigns_its_followers_protect_it_no_more() -> None:
    replica = Replica()
    replica.follow(5)
    replica.fetched(0)
    assert not replica.vote(key(3), pre_vote=True).granted
    replica.ask(EndQuorumEpochRequest(2, 5, (key(3), key(ME))))
    assert replica.vote(key(3), pre_vote=True).granted


def test_pauses_after_a_resignation_double_from_place_to_place() -> None:
    waits_ms: list[int] = []
    for place in range(4):
        replica = Replica(5)
        replica.follow(5)
        preferred = [key(number) for number in (2, 3, 4)]
        if place < 3:
            preferred.insert(place, key(ME))
        replica.ask(EndQuorumEpochRequest(2, 5, tuple(preferred)))
        began_ms = replica.now_ms
        while replica.raft.role is Role.FOLLOWER:
            replica.advance(1)
        waits_ms.append(replica.now_ms - began_ms)
    # Of at most 20: nothing, then 20 >> 3 and twice that; who is not named waits as long as anybody.
    assert waits_ms == [0, 2, 4, 20]


def test_a_restarted_leader_lets_the_others_elect_at_once() -> None:
    replica = Replica(election=ElectionState(5, ME))
    assert {message.destination for message in replica.sent(EndQuorumEpochRequest)} == {2, 3}


def test_nothing_of_a_former_epoch_is_appended() -> None:
    replica = Replica()
    replica.elected()
    end = replica.log.end
    replica.step(Propose(replica.raft.epoch - 1, 1, "late"))
    assert replica.log.end == end
    replica.step(Propose(replica.raft.epoch, 1, "now"))
    assert replica.log.end.offset == end.offset + 1


def test_a_leader_that_has_slept_through_its_time_appends_nothing() -> None:
    """What waits in a socket is read before the timers run: the proposal comes before the tick."""
    replica = Replica()
    replica.elected()
    replica.flush()
    end, epoch = replica.log.end, replica.raft.epoch
    replica.now_ms += 10_000
    replica.step(Propose(epoch, 1, "late"))
    assert replica.log.end == end
    assert replica.raft.role is Role.RESIGNED
    alone = Replica(1)
    alone.flush()
    alone.now_ms += 10_000
    alone.step(Propose(alone.raft.epoch, 1, "never too late"))
    assert alone.log.end.offset == 2


def test_one_follower_of_four_does_not_keep_a_leader() -> None:
    replica = Replica(5)
    replica.elected()
    for _ in range(50):
        if replica.raft.role is not Role.LEADER:
            break
        replica.fetch_by(2, 0)
        replica.advance(20)
    assert replica.raft.role is Role.RESIGNED
    kept = Replica(5)
    kept.elected()
    for _ in range(50):
        kept.fetch_by(2, 0)
        kept.fetch_by(3, 0)
        kept.advance(20)
    assert kept.raft.role is Role.LEADER


def test_a_parked_fetch_is_answered_by_a_commit() -> None:
    replica = Replica()
    replica.elected()
    replica.flush()
    end = replica.log.end.offset
    assert replica.fetch_by(3, end, wait_ms=100, high_watermark=1) is None
    token = 1
    assert replica.fetch_by(2, end, wait_ms=100, high_watermark=0) is not None, "its own fetch commits"
    replica.step(Propose(replica.raft.epoch, 1, "x"))
    answer = replica.answers[token]
    assert isinstance(answer, FetchResponse)
    assert (answer.error, answer.high_watermark) == (ErrorCode.NONE, 1)
    assert replica.fetch_by(3, end + 1, wait_ms=100, high_watermark=1) is None
    replica.flush()
    waiting = max(replica.answers)
    assert replica.raft.high_watermark == 2
    answer = replica.answers[waiting]
    assert isinstance(answer, FetchResponse)
    assert answer.high_watermark == 2


def test_who_waits_at_a_leader_that_leads_no_more_is_told() -> None:
    replica = Replica()
    replica.elected()
    replica.flush()
    assert replica.fetch_by(2, replica.log.end.offset, wait_ms=100) is None
    replica.step(Resign(replica.raft.epoch))
    answer = replica.answers[1]
    assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_does_not_answer_those_who_know_a_newer_epoch() -> None:
    replica = Replica()
    replica.elected()
    answer = replica.ask(FetchRequest(key(2), replica.raft.epoch + 1, 0, 0, 0))
    assert answer is not None
    assert answer.error is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_the_voters_in_force_decide_what_is_committed() -> None:
    replica = Replica()
    replica.elected()
    replica.flush()
    replica.raft.voters.add_voters(replica.log.end.offset - 1, VoterSet(voter(number) for number in range(1, 6)))
    replica.step(Propose(replica.raft.epoch, 1, "x"))
    replica.flush()
    replica.fetch_by(2, replica.log.end.offset)
    assert replica.raft.high_watermark == -1, "two of five"
    replica.fetch_by(5, replica.log.end.offset)
    assert replica.raft.high_watermark == replica.log.end.offset


def propose_voters(replica: Replica, voters: VoterSet) -> int:
    """As a change of the set will: the record is in force from its append on. Where it stands."""
    offset = replica.log.end.offset
    replica.raft.voters.add_voters(offset, voters)
    replica.step(Propose(replica.raft.epoch, 1, "voters"))
    return offset


def test_a_leader_that_is_joined_by_others_needs_them() -> None:
    replica = Replica(1)
    replica.flush()
    replica.advance(10_000)
    assert replica.raft.role is Role.LEADER
    propose_voters(replica, VoterSet([voter(1), voter(2)]))
    assert [message.destination for message in replica.sent(BeginQuorumEpochRequest)] == [2]
    replica.fetch_by(2, 0)
    replica.advance(299)
    assert replica.raft.role is Role.LEADER
    replica.advance(1)
    assert replica.raft.role is Role.RESIGNED


def test_a_leader_that_is_left_alone_needs_nobody() -> None:
    replica = Replica(2)
    replica.elected()
    replica.advance(200)
    propose_voters(replica, VoterSet([voter(1)]))
    epoch = replica.raft.epoch
    replica.advance(10_000)
    assert (replica.raft.role, replica.raft.epoch) == (Role.LEADER, epoch)
    propose_voters(replica, VoterSet([voter(1), voter(2)]))
    assert replica.raft.role is Role.LEADER, "the time of before is not held against the new voter"


def test_a_voter_that_is_replaced_by_its_id_with_another_directory_counts_no_more() -> None:
    replica = Replica()
    replica.elected()
    replica.flush()
    replaced = voter(2)._replace(directory_id=UUID(int=77))
    propose_voters(replica, VoterSet([voter(1), replaced, voter(3)]))
    replica.flush()
    replica.fetch_by(2, replica.log.end.offset)
    assert replica.raft.high_watermark == -1, "that is the copy of the directory that was replaced"
    replica.ask(FetchRequest(replaced.key, replica.raft.epoch, replica.log.end.offset, replica.raft.epoch, 0))
    assert replica.raft.high_watermark == replica.log.end.offset


def test_a_new_voter_counts_from_the_record_on_that_makes_it_one() -> None:
    """Before, it was an observer, which fetches what it has not flushed."""
    replica = Replica(2)
    replica.elected()
    replica.step(Propose(replica.raft.epoch, 1, "x"))
    offset = propose_voters(replica, VoterSet([voter(1), voter(2), voter(3)]))
    replica.flush()
    replica.fetch_by(3, offset)
    assert replica.raft.high_watermark == -1
    replica.fetch_by(3, offset + 1)
    assert replica.raft.high_watermark == offset + 1


def test_the_checkpoint_that_formatting_wrote_is_served_to_nobody() -> None:
    replica = Replica()
    replica.elected()
    for snapshot, error in ((OffsetAndEpoch(0, 0), ErrorCode.SNAPSHOT_NOT_FOUND), (OffsetAndEpoch(1, 1), ErrorCode.NONE)):
        replica.log.snapshots[snapshot] = ()
        answer = replica.ask(FetchSnapshotRequest(key(2), replica.raft.epoch, snapshot, 0, 100))
        assert answer is not None
        assert answer.error is error


def test_a_log_that_is_not_a_prefix_is_sent_back_or_to_a_snapshot() -> None:
    replica = Replica(epochs=(1, 1, 1))
    replica.elected()
    longer = replica.ask(FetchRequest(key(2), replica.raft.epoch, 7, 1, 0))
    assert isinstance(longer, FetchResponse)
    assert longer.diverging == OffsetAndEpoch(3, 1), "more records of epoch 1 than the leader has"
    replica.log.snapshots[OffsetAndEpoch(2, 1)] = ()
    replica.log.batches, replica.log.start_offset = replica.log.batches[2:], 2
    behind = replica.ask(FetchRequest(key(2), replica.raft.epoch, 1, 1, 0))
    assert isinstance(behind, FetchResponse)
    assert behind.snapshot_id == OffsetAndEpoch(2, 1)


# Peers ---------------------------------------------------------------------------------------------------------------------


def test_a_peer_that_fails_is_asked_again_after_a_pause_and_one_that_is_silent_after_the_time_out() -> None:
    replica = Replica(bootstrap=())
    replica.follow(5)
    (first,) = replica.sent(FetchRequest)
    replica.answer(first, None)
    assert replica.sent(FetchRequest) == []
    replica.advance(10)
    assert len(replica.sent(FetchRequest)) == 1
    replica.advance(159)
    assert replica.sent(FetchRequest) == []
    replica.advance(1)
    assert len(replica.sent(FetchRequest)) == 1


def test_others_are_asked_for_the_leader_when_it_fails() -> None:
    for members, role in ((VoterSet(voter(number) for number in (1, 2, 3)), "voter"), (VoterSet([voter(2), voter(3)]), "observer")):
        replica = Replica(members, bootstrap=(-2,))
        replica.follow(5)
        (fetch,) = replica.sent(FetchRequest)
        replica.answer(fetch, None)
        assert [message.destination for message in replica.sent(FetchRequest)] == [-2], role
        replica.advance(10)
        assert [message.destination for message in replica.sent(FetchRequest)] == [2], role


def test_others_are_asked_for_the_leader_when_it_is_silent() -> None:
    replica = Replica(VoterSet([voter(2), voter(3)]), bootstrap=(-2,))
    replica.follow(5)
    (fetch,) = replica.sent(FetchRequest)
    replica.advance(149)
    assert replica.sent(FetchRequest) == []
    replica.advance(1)
    (asked,) = replica.sent(FetchRequest)
    assert asked.destination == -2
    replica.answer(fetch, FetchResponse(ErrorCode.NONE, 2, 5, records=FetchedRecords(None, 0, 1, 5)))
    assert replica.log.end.offset == 0, "nobody waits for that answer any more"
    replica.answer(asked, FetchResponse(ErrorCode.FENCED_LEADER_EPOCH, 3, 6, endpoints=voter(3).endpoints))
    assert (replica.raft.role, replica.raft.leader_id, replica.raft.epoch) == (Role.FOLLOWER, 3, 6)
    assert [message.destination for message in replica.sent(FetchRequest)] == [3], "at once"


def test_a_bootstrap_server_that_leads_is_asked_again_after_a_pause() -> None:
    replica = Replica(VoterSet([voter(2)]), bootstrap=(-2,))
    replica.follow(5)
    asked = 0
    for _ in range(100):
        for message in replica.sent(FetchRequest):
            asked += message.destination == -2
            answer = FetchResponse(ErrorCode.NONE, 2, 5, endpoints=voter(2).endpoints) if message.destination == -2 else None
            replica.answer(message, answer)
        replica.advance(1)
    assert 0 < asked <= 11


# A leader that cannot be reached -------------------------------------------------------------------------------------------


def test_a_voter_stands_soon_when_its_leader_cannot_be_reached() -> None:
    waits_ms: set[int] = set()
    for seed in range(20):
        replica = Replica(bootstrap=())
        replica.raft.rng.seed(seed)
        replica.follow(5)
        replica.fetched(0)
        replica.lose_leader()
        began_ms = replica.now_ms - 10
        while replica.raft.role is Role.FOLLOWER:
            replica.advance(1)
        waits_ms.add(replica.now_ms - began_ms)
    assert len(waits_ms) > 5, "not all at once"
    assert 20 <= min(waits_ms) <= max(waits_ms) <= 50


@pytest.mark.parametrize(
    ("doubts", "failures"),
    [(True, [True]), (True, [False, False, False]), (True, [True, False]), (False, [True, True, True])],
    ids=["once", "silence", "once and silence", "kafka's timeouts"],
)
def test_a_voter_has_patience_with_a_leader_that_may_be_there(doubts: bool, failures: list[bool]) -> None:
    replica = Replica(doubts=doubts, bootstrap=())
    replica.follow(5)
    replica.fetched(0)
    heard_ms = replica.now_ms
    for unreachable in failures:
        (message,) = replica.sent(FetchRequest)
        replica.answer(message, None, unreachable=unreachable)
        replica.advance(10)
    while replica.raft.role is Role.FOLLOWER:
        replica.advance(1)
    assert replica.now_ms - heard_ms == 200


def test_a_leader_that_answers_again_is_followed() -> None:
    replica = Replica(bootstrap=())
    replica.follow(5)
    replica.fetched(0)
    replica.lose_leader()
    (message,) = [message for message in replica.messages if isinstance(message.request, FetchRequest)]
    assert isinstance(message.request, FetchRequest)
    assert message.request.max_wait_ms == 0, "it is to answer before anybody stands"
    replica.fetched(0)
    (message,) = [message for message in replica.messages if isinstance(message.request, FetchRequest)]
    assert isinstance(message.request, FetchRequest)
    assert message.request.max_wait_ms > 0
    replica.advance(199)
    assert replica.raft.role is Role.FOLLOWER
    assert not replica.vote(key(3), pre_vote=True).granted


def test_who_does_not_reach_the_leader_either_helps_another_and_gives_way() -> None:
    replica = Replica(bootstrap=())
    replica.follow(5)
    replica.fetched(0)
    assert not replica.vote(key(3), pre_vote=True).granted
    replica.lose_leader()
    assert replica.vote(key(3), pre_vote=True).granted
    replica.advance(49)
    assert replica.raft.role is Role.FOLLOWER, "the other one is about to win"
    replica.advance(1)
    assert replica.raft.role is Role.PROSPECTIVE


# Following -----------------------------------------------------------------------------------------------------------------


def test_the_election_timeout_of_a_deposed_follower_is_random() -> None:
    """Those of all followers, which heard the leader at the same time, would otherwise end at the same time."""
    deadlines: set[int] = set()
    for seed in range(10):
        replica = Replica()
        replica.raft.rng.seed(seed)
        replica.follow(5)
        replica.vote(key(3), epoch=6, pre_vote=True)
        deadlines.add(replica.raft.state.deadline_ms)
    assert len(deadlines) > 5
    assert 1100 <= min(deadlines) <= max(deadlines) < 1200


def test_the_election_timeout_goes_on_whatever_epochs_come_by() -> None:
    def unattached(replica: Replica) -> None:
        replica.advance(30)

    def candidate(replica: Replica) -> None:
        for message in replica.nominated():
            replica.answer(message, VoteResponse(ErrorCode.NONE, -1, 0, granted=True))

    def prospective(replica: Replica) -> None:
        replica.nominated()

    for prepare in (unattached, candidate, prospective):
        replica = Replica()
        prepare(replica)
        before_ms = replica.raft.state.deadline_ms
        replica.ask(VoteRequest(key(ME), key(3), 9, 0, 0, True))
        assert replica.raft.epoch == 9
        assert replica.raft.state.deadline_ms == before_ms, prepare.__name__
    resigned = Replica(election=ElectionState(5, ME))
    before_ms = resigned.raft.state.deadline_ms
    resigned.ask(VoteRequest(key(ME), key(3), 9, 0, 0, True))
    assert resigned.raft.state.deadline_ms == before_ms


def test_an_observer_fetches_on_while_a_voter_flushes() -> None:
    observer = Replica(VoterSet([voter(2), voter(3)]))
    observer.follow(5)
    observer.fetched(3, flush=False)
    (message,) = observer.sent(FetchRequest)
    assert isinstance(message.request, FetchRequest)
    assert message.request.offset == 3


def test_a_voter_that_looks_for_a_leader_promises_nothing_that_is_not_durable() -> None:
    replica = Replica(bootstrap=(-2,))
    replica.follow(5)
    replica.fetched(3, flush=False)
    replica.ask(VoteRequest(key(ME), key(3), 6, 0, 0, True))
    assert replica.raft.role is Role.UNATTACHED
    assert replica.sent(FetchRequest) == [], "the leader may be who is asked, and count what this replica fetches behind"
    replica.flush()
    assert len(replica.sent(FetchRequest)) == 1


def test_a_follower_asks_for_more_only_when_what_it_has_is_durable() -> None:
    replica = Replica()
    replica.follow(5)
    replica.fetched(3, flush=False)
    assert replica.sent(FetchRequest) == []
    replica.flush()
    (message,) = replica.sent(FetchRequest)
    assert isinstance(message.request, FetchRequest)
    assert message.request.offset == 3


def test_what_replaces_a_truncated_end_is_not_durable_by_the_flush_of_before() -> None:
    replica = Replica(epochs=(1, 1, 1))
    replica.follow(5)
    (message,) = replica.sent(FetchRequest)
    replica.answer(message, FetchResponse(ErrorCode.NONE, 2, 5, diverging=OffsetAndEpoch(1, 1)))
    assert replica.log.end == OffsetAndEpoch(1, 1), "as far as the leader has epoch 1"
    replica.fetched(2, flush=False)
    assert replica.sent(FetchRequest) == []
    replica.flush()
    assert len(replica.sent(FetchRequest)) == 1


def test_what_is_committed_is_never_cut_off() -> None:
    replica = Replica(epochs=(1, 1, 1))
    replica.follow(5)
    replica.fetched(0, high_watermark=3)
    assert replica.raft.high_watermark == 3
    (message,) = replica.sent(FetchRequest)
    with pytest.raises(AssertionError, match="below the high watermark 3"):
        replica.answer(message, FetchResponse(ErrorCode.NONE, 2, 5, diverging=OffsetAndEpoch(1, 1)))


def test_a_follower_calls_nothing_committed_that_it_does_not_have() -> None:
    replica = Replica()
    replica.follow(5)
    replica.fetched(2, high_watermark=100)
    assert replica.raft.high_watermark == 2


def test_voters_go_with_the_record_that_brought_them() -> None:
    replica = Replica(epochs=(1,))
    replica.follow(5)
    replica.fetched(1, control=(ControlUpdate(1, VoterSet([voter(1), voter(2)])),))
    assert replica.raft.voters.current.ids == (1, 2)
    replica.follow(6, leader=2)
    (message,) = replica.sent(FetchRequest)
    replica.answer(message, FetchResponse(ErrorCode.NONE, 2, 6, diverging=OffsetAndEpoch(1, 1)))
    assert replica.log.end.offset == 1
    assert replica.raft.voters.current.ids == (1, 2, 3)


SNAPSHOT = OffsetAndEpoch(10, 4)


def fetching_a_snapshot() -> tuple[Replica, Outbound]:
    replica = Replica()
    replica.follow(5)
    (message,) = replica.sent(FetchRequest)
    replica.answer(message, FetchResponse(ErrorCode.NONE, 2, 5, snapshot_id=SNAPSHOT))
    (message,) = replica.sent(FetchSnapshotRequest)
    return replica, message


def test_a_snapshot_is_fetched_piece_by_piece_and_nothing_else_until_it_is_in_place() -> None:
    replica, message = fetching_a_snapshot()
    replica.answer(message, FetchSnapshotResponse(ErrorCode.NONE, 2, 5, SNAPSHOT, 6, 0, data=b"abcd"))
    (message,) = replica.sent(FetchSnapshotRequest)
    assert isinstance(message.request, FetchSnapshotRequest)
    assert message.request.position == 4
    replica.answer(message, FetchSnapshotResponse(ErrorCode.NONE, 2, 5, SNAPSHOT, 6, 4, data=b"ef"))
    assert replica.ready.snapshot_chunks[-1].last
    assert replica.messages == [], "the log it would fetch into is being replaced"
    replica.log.snapshots[SNAPSHOT] = ()
    replica.log.start_offset = replica.log.flushed = SNAPSHOT.offset
    replica.step(SnapshotInstalled(SNAPSHOT, VoterSet([voter(1), voter(2)]), 1))
    assert replica.ready.high_watermark == SNAPSHOT.offset
    assert replica.raft.voters.current.ids == (1, 2)
    (message,) = replica.sent(FetchRequest)
    assert isinstance(message.request, FetchRequest)
    assert (message.request.offset, message.request.last_fetched_epoch) == SNAPSHOT


def test_a_follower_that_loads_a_large_snapshot_has_a_leader_as_long_as_pieces_come() -> None:
    replica, message = fetching_a_snapshot()
    for position in range(5):
        replica.advance(100)
        replica.answer(message, FetchSnapshotResponse(ErrorCode.NONE, 2, 5, SNAPSHOT, 6, position, data=b"x"))
        (message,) = replica.sent(FetchSnapshotRequest)
    assert replica.raft.role is Role.FOLLOWER
    replica.advance(200)
    assert replica.raft.role is not Role.FOLLOWER


def test_a_piece_of_another_place_is_not_written() -> None:
    replica, message = fetching_a_snapshot()
    replica.answer(message, FetchSnapshotResponse(ErrorCode.NONE, 2, 5, SNAPSHOT, 6, 2, data=b"cd"))
    assert replica.ready.snapshot_chunks == []
    assert len(replica.sent(FetchRequest)) == 1, "it begins anew"


def test_a_snapshot_that_the_leader_dropped_is_given_up() -> None:
    replica, message = fetching_a_snapshot()
    replica.answer(message, FetchSnapshotResponse(ErrorCode.SNAPSHOT_NOT_FOUND, 2, 5, SNAPSHOT))
    assert replica.sent(FetchSnapshotRequest) == []
    assert len(replica.sent(FetchRequest)) == 1


# Voter sets ----------------------------------------------------------------------------------------------------------------


def test_a_voter_set_is_in_force_from_its_record_on() -> None:
    one, two = VoterSet([voter(1)]), VoterSet([voter(1), voter(2)])
    history = VoterHistory(VoterSet())
    history.add_voters(3, one)
    history.add_voters(7, two)
    assert history.at(7)[0] == one, "a snapshot that ends at 7 does not hold the record at 7"
    assert history.at(8)[0] == two
    history.truncate_from(7)
    assert history.current == one
    history.truncate_from(3)
    assert history.current == VoterSet()


def test_a_snapshot_in_the_place_of_the_log_says_who_votes() -> None:
    static, one, two = VoterSet([voter(1), voter(2), voter(3)]), VoterSet([voter(1)]), VoterSet([voter(1), voter(2)])
    history = VoterHistory(static)
    history.add_voters(3, one)
    history.add_kraft_version(3, 1)
    history.restart(two, 1, 9)
    assert (history.current, history.current_offset, history.kraft_version) == (two, 8, 1)
    history.restart(None, 0, 12)
    assert (history.current, history.kraft_version) == (static, 0), "it names nobody: the voters are those of the configuration"


def test_a_kraft_version_is_in_force_from_its_record_on() -> None:
    history = VoterHistory(VoterSet([voter(1)]))
    history.add_kraft_version(3, 1)
    assert (history.at(3)[1], history.at(4)[1]) == (0, 1)
    history.truncate_from(4)
    assert history.kraft_version == 1
    history.truncate_from(3)
    assert history.kraft_version == 0, "the record is gone, and with it what it said"


def test_a_refused_fetch_tells_nothing_of_what_is_committed() -> None:
    replica = Replica()
    replica.elected()
    replica.flush()
    replica.fetch_by(2, replica.log.end.offset)
    assert replica.raft.high_watermark == 1
    epoch = replica.raft.epoch
    for request, error in (
        (FetchRequest(key(2), epoch - 1, 0, 0, 0), ErrorCode.FENCED_LEADER_EPOCH),
        (FetchRequest(key(2), epoch + 1, 0, 0, 0), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (FetchRequest(key(2), epoch, -1, 0, 0), ErrorCode.INVALID_REQUEST),
        (FetchRequest(key(ME), epoch, 0, 0, 0), ErrorCode.INVALID_REQUEST),
    ):
        answer = replica.ask(request)
        assert isinstance(answer, FetchResponse)
        assert (answer.error, answer.high_watermark, answer.read_from) == (error, -1, None)
