"""The decisions of a follower: the table of what it follows, what its requests say, what answers ask for."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.list_offsets import ListOffsetsResponse
from odradek.replication.fetching.answer import Bounds, read_bounds, sort_answer
from odradek.replication.fetching.plan import FetchLimits, FollowerSession, Verdict
from odradek.replication.fetching.states import NOT_ASKED, TRANSITIONS, FetchState, FetchTable, Followed, Position

LIMITS = FetchLimits(max_wait_ms=500, min_bytes=1, max_bytes=10_000, partition_max_bytes=1_000)
TOPIC, OTHER = UUID(int=10), UUID(int=11)
START = Position(0, -1, 0)


def named(request: FetchRequest) -> dict[tuple[int, int], int]:
    """(topic id, partition) -> fetch offset."""
    return {(topic.topic_id.int, each.partition): each.fetch_offset for topic in request.topics for each in topic.partitions}


def forgotten(request: FetchRequest) -> set[tuple[int, int]]:
    return {(topic.topic_id.int, partition) for topic in request.forgotten_topics_data for partition in topic.partitions}


def table_of(count: int) -> FetchTable:
    table = FetchTable()
    for number in range(count):
        table.add(TopicPartition("a", number), TOPIC, 3, START)
    return table


def ask(session: FollowerSession, table: FetchTable) -> FetchRequest:
    request = session.next_request(table, 2, 20, LIMITS)
    assert request is not None
    return request


def served(session_id: int, *partitions: tuple[int, FetchResponse.PartitionData]) -> FetchResponse:
    topics = [FetchResponse.FetchableTopicResponse(topic_id=TOPIC, partitions=[data]) for _, data in partitions]
    for (number, data), _ in zip(partitions, topics, strict=True):
        data.partition_index = number
    return FetchResponse(session_id=session_id, responses=topics)


def data(**fields: object) -> FetchResponse.PartitionData:
    return FetchResponse.PartitionData(**({"high_watermark": 0, "log_start_offset": 0, "records": b""} | fields))  # type: ignore[arg-type]


# -- requests ----------------------------------------------------------------------------------------------------------------------------


def test_the_first_request_names_everything_and_the_next_ones_what_is_new() -> None:
    table, session = table_of(3), FollowerSession()
    first = ask(session, table)
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert named(first) == {(10, 0): 0, (10, 1): 0, (10, 2): 0}
    assert session.answered(served(77, *[(number, data()) for number in range(3)])) is Verdict.SERVED
    followed = table.get(TopicPartition("a", 1))
    assert followed is not None
    table.moved(followed, Position(5, 3, 1))
    second = ask(session, table)
    assert (second.session_id, second.session_epoch) == (77, 1)
    position = second.topics[0].partitions[0]
    assert (position.fetch_offset, position.last_fetched_epoch, position.log_start_offset, position.current_leader_epoch) == (5, 3, 1, 3)
    assert named(second) == {(10, 1): 5}
    assert session.answered(served(77)) is Verdict.SERVED
    third = ask(session, table)
    assert (third.session_epoch, third.topics, third.forgotten_topics_data) == (2, [], [])


def test_a_session_begins_until_the_leader_grants_or_denies_it() -> None:
    table, session = table_of(1), FollowerSession()
    assert session.begins
    for session_id, begins in ((0, False), (77, False)):
        ask(session, table)
        assert session.answered(served(session_id, (0, data()))) is Verdict.SERVED
        assert session.begins is begins
    session.lost()
    assert session.begins


def test_session_epochs_begin_again_at_one() -> None:
    table, session = table_of(1), FollowerSession()
    ask(session, table)
    session.answered(served(77, (0, data())))
    session._session_epoch = 0x7FFF_FFFF  # pyright: ignore[reportPrivateUsage]
    assert ask(session, table).session_epoch == 0x7FFF_FFFF
    session.answered(served(77))
    assert ask(session, table).session_epoch == 1


@pytest.mark.parametrize("state", [FetchState.TRUNCATING, FetchState.RESETTING, FetchState.FAILED])
def test_what_is_not_fetched_is_forgotten_and_named_again_when_it_is(state: FetchState) -> None:
    table, session = table_of(2), FollowerSession()
    ask(session, table)
    session.answered(served(77, (0, data()), (1, data())))
    followed = table.get(TopicPartition("a", 0))
    assert followed is not None
    table.become(followed, state)
    request = ask(session, table)
    assert (named(request), forgotten(request)) == ({}, {(10, 0)})
    session.answered(served(77))
    if state is not FetchState.FAILED:
        table.become(followed, FetchState.FETCHING)
        assert named(ask(session, table)) == {(10, 0): 0}
    else:
        table.remove(TopicPartition("a", 0))
        assert forgotten(ask(session, table)) == set(), "it has been told of that"


def test_a_partition_is_never_named_and_forgotten_in_one_request() -> None:
    table, session = table_of(1), FollowerSession()
    ask(session, table)
    session.answered(served(77, (0, data())))
    table.remove(TopicPartition("a", 0))
    table.add(TopicPartition("a", 0), TOPIC, 4, Position(2, 3, 0))
    request = ask(session, table)
    assert (named(request), forgotten(request)) == ({(10, 0): 2}, set())
    session.answered(served(77))
    table.add(TopicPartition("a", 0), OTHER, 5, START)
    request = ask(session, table)
    assert (named(request), forgotten(request)) == ({(11, 0): 0}, {(10, 0)})


def test_with_nothing_to_fetch_and_nothing_to_forget_nothing_is_asked() -> None:
    table, session = table_of(1), FollowerSession()
    ask(session, table)
    session.answered(served(77, (0, data())))
    table.remove(TopicPartition("a", 0))
    assert forgotten(ask(session, table)) == {(10, 0)}
    # The leader closes a session without partitions.
    assert session.answered(FetchResponse()) is Verdict.SERVED
    assert session.next_request(table, 2, 20, LIMITS) is None
    assert FollowerSession().next_request(FetchTable(), 2, 20, LIMITS) is None


def test_after_a_lost_request_everything_is_named_and_the_old_session_closed() -> None:
    table, session = table_of(2), FollowerSession()
    ask(session, table)
    session.answered(served(77, (0, data()), (1, data())))
    ask(session, table)
    session.lost()
    request = ask(session, table)
    assert (request.session_id, request.session_epoch, len(named(request))) == (77, 0, 2)


@pytest.mark.parametrize(
    ("code", "verdict", "session_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, Verdict.ASK_ANEW, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, Verdict.ASK_ANEW, 77),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, Verdict.REFUSED, 77),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, Verdict.REFUSED, 77),
        (9999, Verdict.REFUSED, 77),
    ],
)
def test_a_session_error_is_followed_by_a_full_request(code: int, verdict: Verdict, session_id: int) -> None:
    table, session = table_of(2), FollowerSession()
    ask(session, table)
    session.answered(served(77, (0, data()), (1, data())))
    ask(session, table)
    assert session.answered(FetchResponse(error_code=code)) is verdict
    request = ask(session, table)
    assert (request.session_id, request.session_epoch, len(named(request))) == (session_id, 0, 2)


def test_answers_about_other_partitions_are_not_believed() -> None:
    table, session = table_of(2), FollowerSession()
    ask(session, table)
    assert session.answered(served(77, (0, data()))) is Verdict.REFUSED, "a full answer is about everything"
    ask(session, table)
    assert session.answered(served(77, (0, data()), (1, data()))) is Verdict.SERVED
    ask(session, table)
    assert session.answered(served(77, (2, data()))) is Verdict.REFUSED
    assert ask(session, table).session_epoch == 0


# -- answers -----------------------------------------------------------------------------------------------------------------------------


def asked_table() -> tuple[FetchTable, Followed]:
    table = FetchTable()
    followed = table.add(TopicPartition("a", 0), TOPIC, 3, Position(5, 3, 1))
    ask(FollowerSession(), table)
    return table, followed


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"records": b"xy", "high_watermark": 9, "log_start_offset": 2}, "appends"),
        ({"diverging_epoch": FetchResponse.EpochEndOffset(epoch=2, end_offset=4)}, "cuts"),
        ({"diverging_epoch": FetchResponse.EpochEndOffset(epoch=2, end_offset=-1)}, "delays"),
        ({"error_code": ErrorCode.OFFSET_OUT_OF_RANGE}, "resets"),
        ({"error_code": ErrorCode.FENCED_LEADER_EPOCH}, "failures"),
        ({"error_code": ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE}, "failures"),
        ({"error_code": ErrorCode.UNKNOWN_LEADER_EPOCH}, "delays"),
        ({"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER}, "delays"),
        ({"error_code": ErrorCode.UNKNOWN_TOPIC_ID}, "delays"),
        ({"error_code": ErrorCode.INCONSISTENT_TOPIC_ID}, "delays"),
        ({"error_code": ErrorCode.KAFKA_STORAGE_ERROR}, "delays"),
        ({"error_code": 9999}, "delays"),
    ],
)
def test_what_an_answer_asks_for(fields: dict[str, object], where: str) -> None:
    table, followed = asked_table()
    answer = sort_answer(served(77, (0, data(**fields))), table)
    assert [name for name in answer._fields if getattr(answer, name)] == [where]
    [found] = getattr(answer, where)
    assert found is followed or found[0] is followed
    if where == "appends":
        assert (bytes(found.records), found.high_watermark, found.log_start_offset) == (b"xy", 9, 2)


def test_an_answer_for_a_position_that_was_left_is_dropped() -> None:
    table, followed = asked_table()
    answer = served(77, (0, data(records=b"xy")))
    table.moved(followed, Position(4, 3, 1))
    assert not sort_answer(answer, table).appends
    table, followed = asked_table()
    table.become(followed, FetchState.TRUNCATING)
    table.become(followed, FetchState.FETCHING)
    assert not sort_answer(answer, table).appends, "it has been out of the session meanwhile"
    table, followed = asked_table()
    table.add(followed.topic_partition, TOPIC, 4, followed.position)
    assert not sort_answer(answer, table).appends, "it was asked in another leader epoch"


def test_where_a_leaders_log_lies() -> None:
    def answer(offset: int, code: int = 0) -> ListOffsetsResponse:
        each = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=0, error_code=code, offset=offset)
        return ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse(name="a", partitions=[each])])

    where = TopicPartition("a", 0)
    assert read_bounds(answer(3), answer(9)) == {where: Bounds(ErrorCode.NONE, 3, 9)}
    assert read_bounds(answer(3, ErrorCode.FENCED_LEADER_EPOCH), answer(9))[where].error is ErrorCode.FENCED_LEADER_EPOCH
    assert read_bounds(answer(3), answer(-1, 9999))[where].error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert read_bounds(answer(9), answer(3))[where].error is ErrorCode.OFFSET_NOT_AVAILABLE
    assert read_bounds(answer(-1), answer(3))[where].error is ErrorCode.OFFSET_NOT_AVAILABLE
    assert read_bounds(ListOffsetsResponse(), answer(3)) == {}


# -- the table -----------------------------------------------------------------------------------------------------------------------------


def test_a_transition_that_there_is_not_is_refused() -> None:
    table = table_of(1)
    [followed] = table
    table.become(followed, FetchState.FAILED)
    with pytest.raises(RuntimeError, match="cannot change from failed to fetching"):
        table.become(followed, FetchState.FETCHING)


class TableModel(RuleBasedStateMachine):
    """A leader, a follower's table and its session, in any order of requests, answers, losses and changes of metadata.

    What the leader's session would answer about is exactly what the follower's table has FETCHING at the time of the request, at the
    positions that the table has; an answer is used only for a partition that is still where it was when it was asked.
    """

    def __init__(self) -> None:
        super().__init__()
        self.table = FetchTable()
        self.session = FollowerSession()
        self.now = 0.0
        self.leader: dict[tuple[int, int], int] = {}
        """What the leader's session holds: key -> fetch offset."""
        self.leader_session: tuple[int, int] | None = None
        """Its id, and the epoch that the next request must have."""
        self.last_id = 0
        self.request: FetchRequest | None = None
        self.at_request: dict[tuple[int, int], Followed] = {}
        self.epoch = 0
        self.offsets = 0

    partitions = st.integers(min_value=0, max_value=4)

    @initialize(count=st.integers(min_value=0, max_value=5))
    def begin(self, count: int) -> None:
        for number in range(count):
            self.table.add(TopicPartition("a", number), TOPIC, 0, START)

    @rule(number=partitions, anew=st.booleans(), truncating=st.booleans())
    def start(self, number: int, anew: bool, truncating: bool) -> None:
        self.epoch += 1
        self.table.add(
            TopicPartition("a", number), OTHER if anew else TOPIC, self.epoch, Position(self.offsets, 0, 0), truncating=truncating
        )

    @rule(number=partitions)
    def stop(self, number: int) -> None:
        self.table.remove(TopicPartition("a", number))

    @rule(number=partitions, state=st.sampled_from(FetchState))
    def change(self, number: int, state: FetchState) -> None:
        followed = self.table.get(TopicPartition("a", number))
        if followed is None or state not in TRANSITIONS[followed.state]:
            return
        if state is FetchState.DELAYED:
            self.table.delay(followed, self.now + 5)
        elif followed.state is not FetchState.DELAYED:
            self.table.become(followed, state)

    @rule(number=partitions, by=st.integers(min_value=-2, max_value=3))
    def move(self, number: int, by: int) -> None:
        followed = self.table.get(TopicPartition("a", number))
        if followed is not None:
            self.offsets = max(followed.position.log_end_offset + by, 0)
            self.table.moved(followed, followed.position._replace(log_end_offset=self.offsets))

    @rule(seconds=st.integers(min_value=0, max_value=8))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        self.table.resume_due(self.now)
        assert self.table.next_due is None or self.table.next_due > self.now

    @precondition(lambda self: self.request is None)
    @rule()
    def ask(self) -> None:
        request = self.session.next_request(self.table, 2, 20, LIMITS)
        fetching = {each.key: each for each in self.table if each.state is FetchState.FETCHING}
        if request is None:
            assert not fetching
            return
        assert not set(named(request)) & forgotten(request)
        self.request, self.at_request = request, fetching

    @precondition(lambda self: self.request is not None)
    @rule(room=st.booleans())
    def answer(self, room: bool) -> None:
        """The leader serves the request as its session says."""
        request, self.request = self.request, None
        assert request is not None
        if request.session_epoch == 0:
            self.leader = named(request)
            self.leader_session = None
            if room:
                self.last_id += 1
                self.leader_session = (self.last_id, 1)
            told = set(self.leader)
        else:
            if self.leader_session != (request.session_id, request.session_epoch):
                code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND if self.leader_session is None else ErrorCode.INVALID_FETCH_SESSION_EPOCH
                assert self.session.answered(FetchResponse(error_code=code)) is Verdict.ASK_ANEW
                return
            self.leader |= named(request)
            for key in forgotten(request):
                assert key in self.leader, "only what it has been told of"
                del self.leader[key]
            self.leader_session = (request.session_id, request.session_epoch + 1) if self.leader else None
            told = set(sorted(self.leader)[::2])
        assert self.leader == {key: each.asked for key, each in self.at_request.items() if each.asked != NOT_ASKED} | {
            key: offset for key, offset in self.leader.items() if self.at_request[key].asked == NOT_ASKED
        }
        assert set(self.leader) == set(self.at_request)
        topics = [
            FetchResponse.FetchableTopicResponse(topic_id=UUID(int=topic), partitions=[data(partition_index=number)])
            for topic, number in told
        ]
        response = FetchResponse(session_id=0 if self.leader_session is None else self.leader_session[0], responses=topics)
        assert self.session.answered(response) is Verdict.SERVED
        used = {append.followed.key for append in sort_answer(response, self.table).appends}
        for key in told:
            now = self.table.by_key.get(key)
            stayed = now is self.at_request[key] and now.state is FetchState.FETCHING and now.asked == now.position.log_end_offset
            assert (key in used) == stayed
            if key in used:
                assert self.leader[key] == self.table.by_key[key].position.log_end_offset

    @precondition(lambda self: self.request is not None)
    @rule(seen=st.booleans())
    def lose(self, seen: bool) -> None:
        """The connection breaks before or after the leader has taken the request in."""
        request, self.request = self.request, None
        assert request is not None
        if seen and self.leader_session == (request.session_id, request.session_epoch):
            self.leader_session = (request.session_id, request.session_epoch + 1)
        self.session.lost()

    @rule()
    def evict(self) -> None:
        self.leader_session = None

    @invariant()
    def names_lead_to_one_entry(self) -> None:
        keys = [each.key for each in self.table]
        assert len(keys) == len(set(keys)) == len(self.table)
        assert all(self.table.get(each.topic_partition) is each for each in self.table)
        unsettled = [each for each in self.table if each.state in (FetchState.TRUNCATING, FetchState.RESETTING)]
        assert self.table.unsettled == len(unsettled)

    @invariant()
    def whoever_is_fetched_and_not_asked_is_news(self) -> None:
        for each in self.table:
            if each.state is FetchState.FETCHING and not each.awaits_answer and not self.session.is_full:
                assert each.key in self.table.news


TestTable = TableModel.TestCase
TestTable.settings = settings(max_examples=80, stateful_step_count=40)
