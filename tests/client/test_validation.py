"""Positions are validated when the leader changes, and go back when the log was truncated (KIP-320): the decisions, without IO."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.core.fetcher import epoch_before
from odradek.client.core.positions import Chunk, LogTruncation, OffsetOutOfRange
from odradek.client.core.reset_policy import EARLIEST_TIMESTAMP
from odradek.client.core.validation import EpochEnd, Unread, ValidationPlan
from odradek.client.types import OffsetAndMetadata
from tests.client.fetcher_support import SECOND, A, B, FetcherWorld, data, fetched


class Elections(FetcherWorld):
    """A world that asks for validations, and does not confirm them by itself."""

    def confirm(self) -> bool:
        return False

    def elect(self, leader: int, epoch: int) -> None:
        """Another leader, as the metadata says; what has to be asked is asked."""
        self.leaders = dict.fromkeys(self.leaders, leader)
        self.epoch = epoch

    def validations(self) -> list[ValidationPlan]:
        self.fetching = self.fetcher.plan(self.view, self.now)[0]
        return self.fetcher.validation.plans(self.now)

    def validation(self) -> ValidationPlan:
        [plan] = self.validations()
        assert self.fetching == [], "nothing is fetched meanwhile"
        return plan

    def say(self, plan: ValidationPlan, epoch: int = -1, end: int = -1, error: ErrorCode = ErrorCode.NONE) -> bool:
        answers = {target.topic_partition: EpochEnd(error, epoch, end) for target in plan.targets}
        return self.fetcher.validation.on_answers(plan, answers, self.now)

    @property
    def position(self) -> tuple[int, int]:
        position = self.fetcher.positions[A]
        return position.offset, position.offset_epoch


def read_to_three(reset: str = "earliest") -> Elections:
    """Has read three records, of epochs 5 and 6, under leader 1 of epoch 7."""
    world = Elections(reset=reset)
    world.answer(fetched(data(0, b"a", b"b", partition_leader_epoch=5) + data(2, b"c", partition_leader_epoch=6)))
    assert world.read() == [b"a", b"b", b"c"]
    return world


class TestWhatIsAsked:
    def test_a_new_leader_is_asked_for_the_end_of_the_epoch_that_was_read(self) -> None:
        world = read_to_three()
        assert world.validations() == []
        world.elect(2, 8)
        plan = world.validation()
        [target] = plan.targets
        assert (plan.node_id, target.topic_partition, target.offset, target.offset_epoch, target.leader_epoch) == (2, A, 3, 6, 8)

    def test_so_is_the_same_leader_in_another_epoch(self) -> None:
        world = read_to_three()
        world.elect(1, 8)
        assert world.validation().node_id == 1

    def test_it_is_asked_once(self) -> None:
        world = read_to_three()
        world.elect(2, 8)
        plan = world.validation()
        assert world.validations() == []
        world.say(plan, 6, 3)
        assert world.asked() == [(A, 3)]
        assert world.validations() == []

    def test_metadata_that_is_only_newer_asks_for_nothing(self) -> None:
        world = read_to_three()
        assert world.validations() == []
        assert world.validations() == []

    def test_a_position_without_an_epoch_is_believed(self) -> None:
        world = Elections()
        assert world.validations() == []
        world.elect(2, 8)
        assert world.validations() == []
        assert len(world.fetching) == 1

    def test_so_is_one_under_a_leader_without_an_epoch(self) -> None:
        world = read_to_three()
        world.fetcher.positions[A].epoch = -1
        world.elect(2, -1)
        assert world.validations() == []
        assert len(world.fetching) == 1

    def test_a_committed_offset_with_an_epoch_is_validated(self) -> None:
        world = Elections()
        world.fetcher.assign([B], committed=True)
        [(partition, generation)] = world.fetcher.uncommitted()
        world.fetcher.committed(partition, generation, OffsetAndMetadata(9, 4))
        [target] = world.validation().targets
        assert (target.offset, target.offset_epoch, target.leader_epoch) == (9, 4, 7)

    def test_so_is_the_answer_to_a_reset(self) -> None:
        world = Elections()
        world.fetcher.seek_to(A, EARLIEST_TIMESTAMP)
        [(_, _, generation)] = world.fetcher.resets()
        world.fetcher.positioned(A, generation, 9, 4)
        [target] = world.validation().targets
        assert (target.offset, target.offset_epoch) == (9, 4)

    def test_positions_under_one_leader_are_asked_for_together(self) -> None:
        world = Elections(A, B)
        world.fetcher.seek(A, 3, 2)
        world.fetcher.seek(B, 4, 2)
        assert [target.topic_partition for target in world.validation().targets] == [A, B]

    def test_a_deposed_leader_is_not_asked(self) -> None:
        world = read_to_three()
        world.elect(2, 5)
        assert world.validations() == []
        assert world.fetching == []

    def test_a_paused_position_is_validated_too(self) -> None:
        world = read_to_three()
        world.fetcher.positions[A].paused = True
        world.elect(2, 8)
        assert len(world.validation().targets) == 1

    def test_the_nearer_replica_is_forgotten_with_the_leader(self) -> None:
        world = read_to_three()
        world.fetcher.positions[A].preferred, world.fetcher.positions[A].preferred_until_ms = 2, 1000
        world.elect(1, 8)
        world.say(world.validation(), 6, 3)
        assert world.plan().node_id == 1

    def test_a_topic_that_was_made_anew_is_another_log(self) -> None:
        world = read_to_three()
        world.topic_id = SECOND
        world.elect(1, 0)
        assert world.validations() == []
        assert world.fetcher.positions[A].reset_to == EARLIEST_TIMESTAMP


class TestWhatWasFetchedBefore:
    def test_what_was_not_read_is_dropped(self) -> None:
        world = read_to_three()
        world.answer(fetched(data(3, b"d", partition_leader_epoch=7)))
        world.elect(2, 8)
        plan = world.validation()
        assert plan.targets[0][1:3] == (3, 6)
        assert world.read() == []

    def test_also_where_as_much_waits_as_is_kept(self) -> None:
        world = read_to_three()
        world.answer(fetched(data(3, b"d", partition_leader_epoch=7)))
        world.answer(fetched(data(4, b"e", partition_leader_epoch=7)))
        world.elect(2, 8)
        assert world.validation().targets[0][1:3] == (3, 6)
        assert world.read() == []

    def test_what_the_old_leader_answers_late_is_dropped(self) -> None:
        world = read_to_three()
        late = world.plan()
        world.elect(2, 8)
        world.say(world.validation(), 6, 3)
        world.answer(fetched(data(3, b"d", partition_leader_epoch=7)), plan=late)
        assert world.read() == []

    def test_what_was_decoded_and_not_handed_out_is_put_back(self) -> None:
        world = read_to_three()
        world.fetcher.validation.put_back = lambda _: Unread(1, 5)
        world.elect(2, 8)
        assert world.validation().targets[0][1:3] == (1, 5)
        assert world.position == (1, 5)

    def test_a_chunk_knows_the_epoch_before_each_of_its_records(self) -> None:
        buffer = data(3, b"d", b"e", partition_leader_epoch=7) + data(5, b"f", partition_leader_epoch=8)
        chunk = Chunk(A, 3, 6, memoryview(buffer), (), 8, 6)
        assert [epoch_before(chunk, offset) for offset in (3, 4, 5, 6)] == [6, 7, 7, 8]

    def test_each_chunk_continues_the_last(self) -> None:
        world = read_to_three()
        world.answer(fetched(data(3, b"d", partition_leader_epoch=7)))
        world.answer(fetched(data(4, b"e", partition_leader_epoch=7)))
        first, second = world.fetcher.take_chunk(), world.fetcher.take_chunk()
        assert first is not None
        assert second is not None
        assert (first.previous_epoch, second.previous_epoch) == (6, 7)


class TestWhatFollows:
    def test_a_log_that_has_what_was_read_is_read_on(self) -> None:
        for end in (3, 4):
            world = read_to_three()
            world.elect(2, 8)
            world.say(world.validation(), 6, end)
            [target] = world.plan().targets
            assert (target.offset, target.leader_epoch) == (3, 8)

    def test_a_log_that_diverges_is_read_from_the_end_of_the_last_common_epoch(self) -> None:
        world = read_to_three()
        world.elect(2, 8)
        world.say(world.validation(), 5, 2)
        assert world.asked() == [(A, 2)]
        assert world.position == (2, 5)
        assert world.validations() == [], "nothing has to be asked again"

    def test_a_log_that_knows_none_of_it_is_read_from_where_the_policy_says(self) -> None:
        for epoch, end in ((-1, -1), (5, -1), (-1, 2)):
            world = read_to_three()
            world.elect(2, 8)
            world.say(world.validation(), epoch, end)
            [(partition, where, _)] = world.fetcher.resets()
            assert (partition, where) == (A, EARLIEST_TIMESTAMP)
            assert world.validations() == []

    def test_without_a_policy_it_is_told_where_the_log_diverges(self) -> None:
        world = read_to_three("none")
        world.elect(2, 8)
        world.say(world.validation(), 5, 2)
        error = world.fetcher.next_error()
        assert isinstance(error, LogTruncation)
        assert isinstance(error, OffsetOutOfRange)
        assert error.code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert (error.topic_partition, error.offset, error.leader_epoch) == (A, 3, 6)
        assert error.divergent == OffsetAndMetadata(2, 5)
        assert "diverges at offset 2" in str(error)
        assert world.position == (3, 6)

    def test_or_that_nobody_knows(self) -> None:
        world = read_to_three("none")
        world.elect(2, 8)
        world.say(world.validation())
        error = world.fetcher.next_error()
        assert isinstance(error, LogTruncation)
        assert error.divergent is None

    def test_the_truncation_is_told_again_until_somebody_seeks(self) -> None:
        world = read_to_three("none")
        world.elect(2, 8)
        world.say(world.validation(), 5, 2)
        assert world.validations() == [], "not before it has been raised"
        assert world.fetching == []
        assert world.fetcher.next_error() is not None
        world.say(world.validation(), 5, 2)
        assert isinstance(world.fetcher.next_error(), LogTruncation)
        assert world.fetcher.next_error() is None
        world.fetcher.seek(A, 2, 5)
        world.say(world.validation(), 5, 2)
        assert world.asked() == [(A, 2)]

    def test_an_error_of_before_a_seek_holds_nothing_up(self) -> None:
        world = read_to_three("none")
        world.elect(2, 8)
        world.say(world.validation(), 5, 2)
        world.fetcher.seek(A, 2, 5)
        plan = world.validation()
        assert world.fetcher.next_error() is None
        assert world.validations() == [], "it is being asked already"
        world.say(plan, 5, 2)
        assert world.asked() == [(A, 2)]

    def test_an_answer_of_before_a_seek_is_dropped(self) -> None:
        world = read_to_three()
        world.elect(2, 8)
        late = world.validation()
        world.fetcher.seek(A, 9)
        world.say(late, 5, 2)
        assert world.asked() == [(A, 9)]

    def test_or_of_before_the_next_leader(self) -> None:
        world = read_to_three()
        world.elect(2, 8)
        late = world.validation()
        world.elect(1, 9)
        plan = world.validation()
        world.say(late, 6, 3)
        assert world.asked() == []
        world.say(plan, 6, 3)
        assert world.asked() == [(A, 3)]


class TestWhatGoesWrong:
    def test_what_may_heal_is_asked_again_after_a_while(self) -> None:
        for error in (
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ):
            world = read_to_three()
            world.elect(2, 8)
            assert world.say(world.validation(), error=error), "metadata is out of date"
            assert world.validations() == [], "not at once"
            _, _, wake_ms = world.fetcher.plan(world.view, world.now)
            assert 80 <= wake_ms <= 120
            world.now += wake_ms
            world.say(world.validation(), 6, 3)
            assert world.asked() == [(A, 3)]

    def test_so_is_what_got_no_answer_or_was_left_out(self) -> None:
        world = read_to_three()
        world.elect(2, 8)
        world.fetcher.validation.on_failure(world.validation(), KafkaError(ErrorCode.NETWORK_EXCEPTION), world.now)
        assert world.validations() == []
        world.now += 200
        assert world.fetcher.validation.on_answers(world.validation(), {}, world.now)
        world.now += 400
        world.say(world.validation(), 6, 3)
        assert world.asked() == [(A, 3)]

    def test_a_new_leader_is_asked_without_waiting(self) -> None:
        world = read_to_three()
        world.elect(2, 8)
        world.say(world.validation(), error=ErrorCode.FENCED_LEADER_EPOCH)
        world.elect(1, 9)
        assert world.validation().node_id == 1

    def test_a_topic_that_may_not_be_read_is_told(self) -> None:
        world = read_to_three()
        world.elect(2, 8)
        world.say(world.validation(), error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        error = world.fetcher.next_error()
        assert isinstance(error, KafkaError)
        assert error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert world.validation().node_id == 2, "the next poll hears of it, too"

    def test_an_old_broker_is_believed(self) -> None:
        world = read_to_three()
        world.elect(2, 8)
        world.fetcher.validation.unsupported(world.validation())
        assert world.asked() == [(A, 3)]

    def test_but_not_for_what_was_sought_meanwhile(self) -> None:
        world = read_to_three()
        world.elect(2, 8)
        late = world.validation()
        world.fetcher.seek(A, 2, 5)
        plan = world.validation()
        world.fetcher.validation.unsupported(late)
        assert world.asked() == []
        world.say(plan, 5, 2)
        assert world.asked() == [(A, 2)]

    def test_a_new_leader_is_asked_after_a_refusal_of_the_former_one(self) -> None:
        world = read_to_three()
        world.answer(fetched(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        world.elect(2, 8)
        world.say(world.validation(), 6, 3)
        assert world.fetcher.next_error() is None, "that was another leader"
        assert world.asked() == [(A, 3)]


@given(
    common=st.lists(st.integers(0, 9), min_size=1, max_size=8),
    lost=st.lists(st.integers(10, 19), max_size=8),
    added=st.lists(st.integers(21, 29), max_size=8),
    data=st.data(),
)
def test_whatever_an_election_loses_reading_goes_on_where_the_logs_agree(
    common: list[int], lost: list[int], added: list[int], data: st.DataObject
) -> None:
    """Logs are lists of epochs, one a record."""
    old, new = sorted(common) + sorted(lost), sorted(common) + sorted(added)
    offset = data.draw(st.integers(1, len(old)))
    world = Elections()
    world.fetcher.seek(A, offset, old[offset - 1])
    world.elect(2, 30)
    plan = world.validation()
    known = [epoch for epoch in new if epoch <= plan.targets[0].offset_epoch]
    world.say(plan, known[-1], len(known))
    assert world.asked() == [(A, min(offset, len(common)))]
