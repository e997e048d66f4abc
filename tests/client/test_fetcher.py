"""What the consumer asks for and what it keeps, without a network: positions, resets, errors, back-off, isolation, limits."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.core.fetcher import (
    READ_COMMITTED,
    FetchedPartition,
    FetchPlan,
)
from odradek.client.core.metadata import FOREVER, TopicInfo
from odradek.client.core.positions import OffsetOutOfRange, TopicRecreated
from odradek.client.core.reset_policy import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.records.batch import encode_batch
from tests.client.fetcher_support import MAX_BYTES, SECOND, A, B, C, FetcherWorld, data, fetched

BACK_OFF_MS = (80, 120)
"""The first pause, with its spread."""


def marker(offset: int, producer_id: int, *, committed: bool) -> bytes:
    key = b"\0\0\0\1" if committed else b"\0\0\0\0"
    return encode_batch(
        [(0, key, b"\0\0\0\0\0\0", ())], base_offset=offset, producer_id=producer_id, producer_epoch=0, transactional=True, control=True
    )


class TestReading:
    def test_goes_on_behind_what_was_fetched(self) -> None:
        world = FetcherWorld()
        plan = world.plan()
        [target] = plan.targets
        assert (plan.node_id, target.topic_partition, target.offset, target.leader_epoch, target.max_bytes) == (1, A, 0, 7, MAX_BYTES)
        world.answer(fetched(data(0, b"a", b"b") + data(2, b"c")), plan=plan)
        assert world.asked() == [(A, 3)]
        assert world.read() == [b"a", b"b", b"c"]
        assert world.fetcher.positions[A].offset == 3
        assert world.read() == []

    def test_the_position_moves_with_what_is_taken_and_not_with_what_is_fetched(self) -> None:
        world = FetcherWorld()
        world.answer(fetched(data(0, b"a", b"b")))
        assert world.fetcher.positions[A].offset == 0
        world.read()
        assert world.fetcher.positions[A].offset == 2

    def test_nothing_is_asked_for_from_the_stop_on(self) -> None:
        world = FetcherWorld(A, B)
        world.fetcher.positions[A].stop_offset = 3
        plan = world.plan()
        world.answer(fetched(data(0, b"a", b"b")), fetched(data(0, b"a", b"b", b"c")), plan=plan)
        assert world.asked() == [(A, 2), (B, 3)]
        world.fetcher.positions[B].chunks.clear()
        world.answer(fetched(data(2, b"c", b"d")), fetched())
        assert world.asked() == [(B, 3)]
        world.fetcher.positions[A].chunks.clear()
        assert world.asked() == [(B, 3)]
        world.fetcher.assign((B,))
        world.fetcher.assign((A,))
        world.fetcher.seek(A, 4)
        assert world.asked() == [(A, 4)], "another assignment of the same partition"

    def test_records_before_the_position_are_left_out(self) -> None:
        world = FetcherWorld()
        world.fetcher.seek(A, 1)
        world.answer(fetched(data(0, b"a", b"b", b"c")))
        assert world.read() == [b"b", b"c"]

    def test_a_batch_cut_off_at_the_end_comes_with_the_next_answer(self) -> None:
        world = FetcherWorld()
        world.answer(fetched(data(0, b"a") + data(1, b"b")[:-1]))
        assert world.asked() == [(A, 1)]
        assert world.read() == [b"a"]

    def test_a_compacted_batch_is_passed_to_its_last_offset(self) -> None:
        batch = bytearray(data(0, b"a", b"b", b"c"))
        batch[23:27] = (9).to_bytes(4, "big")  # its last offset delta: what was between is compacted away
        world = FetcherWorld()
        world.answer(fetched(bytes(batch)))
        assert world.asked() == [(A, 10)]

    def test_an_answer_without_a_whole_batch_is_an_error(self) -> None:
        world = FetcherWorld()
        world.answer(fetched(data(0, b"a")[:-1]))
        error = world.fetcher.next_error()
        assert isinstance(error, KafkaError)
        assert error.code is ErrorCode.CORRUPT_MESSAGE
        assert world.fetcher.take_chunk() is None

    def test_an_empty_answer_changes_nothing(self) -> None:
        world = FetcherWorld()
        world.answer(fetched())
        assert world.read() == []
        assert world.asked() == [(A, 0)]

    def test_a_partition_missing_in_the_answer_is_asked_for_again(self) -> None:
        world = FetcherWorld()
        world.fetcher.on_response(world.plan(), [None], 0)
        assert world.asked() == [(A, 0)]


class TestLimits:
    def test_at_most_two_answers_of_a_partition_are_kept(self) -> None:
        world = FetcherWorld()
        world.answer(fetched(data(0, b"a")))
        world.answer(fetched(data(1, b"b")))
        assert world.plans() == []
        assert world.read() == [b"a"]
        assert world.asked() == [(A, 2)]

    def test_one_request_per_node_at_a_time(self) -> None:
        world = FetcherWorld(A, B)
        world.leaders[B] = 2
        first, second = sorted(world.plans())
        assert [[target.topic_partition for target in plan.targets] for plan in (first, second)] == [[A], [B]]
        assert world.plans() == []
        world.answer(fetched(), plan=first)
        assert world.asked() == [(A, 0)]

    def test_a_failed_request_frees_its_node(self) -> None:
        world = FetcherWorld()
        world.fetcher.on_failure(world.plan(), KafkaError(ErrorCode.NETWORK_EXCEPTION), 0)
        world.now = BACK_OFF_MS[1]
        assert world.asked() == [(A, 0)]

    def test_who_was_served_is_asked_for_last(self) -> None:
        world = FetcherWorld(A, B, C)
        assert [partition for partition, _ in world.asked()] == [A, B, C]
        world.answer(fetched(data(0, b"a")), fetched(), fetched())
        assert [partition for partition, _ in world.asked()] == [B, C, A]

    def test_partitions_are_handed_out_in_turn(self) -> None:
        world = FetcherWorld(A, B)
        world.answer(fetched(data(0, b"a0")), fetched(data(0, b"b0")))
        world.answer(fetched(data(1, b"a1")), fetched(data(1, b"b1")))
        assert [world.read() for _ in range(4)] == [[b"a0"], [b"b0"], [b"a1"], [b"b1"]]


class TestSeek:
    def test_what_was_fetched_before_is_dropped(self) -> None:
        world = FetcherWorld()
        world.answer(fetched(data(0, b"old")))
        world.fetcher.seek(A, 100)
        assert world.read() == []
        assert world.asked() == [(A, 100)]

    def test_what_was_under_way_is_dropped(self) -> None:
        world = FetcherWorld()
        plan = world.plan()
        world.fetcher.seek(A, 100)
        world.answer(fetched(data(0, b"old")), plan=plan)
        assert world.read() == []
        assert world.fetcher.positions[A].offset == 100
        assert world.asked() == [(A, 100)]

    def test_an_error_that_was_under_way_is_dropped_too(self) -> None:
        world = FetcherWorld(reset="none")
        plan = world.plan()
        world.fetcher.seek(A, 100)
        world.answer(fetched(error=ErrorCode.OFFSET_OUT_OF_RANGE), plan=plan)
        assert not world.fetcher.has_error
        assert world.asked() == [(A, 100)]

    def test_to_a_time_asks_the_broker_first(self) -> None:
        world = FetcherWorld()
        world.fetcher.seek_to(A, 1234)
        assert world.asked() == []
        [(partition, timestamp, generation)] = world.fetcher.resets()
        assert (partition, timestamp) == (A, 1234)
        world.fetcher.positioned(A, generation, 55)
        assert world.fetcher.resets() == []
        assert world.asked() == [(A, 55)]

    def test_the_answer_to_an_earlier_reset_moves_nothing(self) -> None:
        world = FetcherWorld()
        world.fetcher.seek_to(A, EARLIEST_TIMESTAMP)
        [(_, _, generation)] = world.fetcher.resets()
        world.fetcher.seek_to(A, LATEST_TIMESTAMP)
        world.fetcher.positioned(A, generation, 0)
        assert [timestamp for _, timestamp, _ in world.fetcher.resets()] == [LATEST_TIMESTAMP]
        world.fetcher.seek(A, 9)
        world.fetcher.positioned(A, generation + 1, 0)
        assert world.asked() == [(A, 9)]

    def test_ends_a_back_off(self) -> None:
        world = FetcherWorld()
        world.answer(fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
        world.fetcher.seek(A, 3)
        assert world.asked() == [(A, 3)]

    def test_of_a_partition_that_is_not_assigned_is_refused(self) -> None:
        with pytest.raises(ValueError, match="t-1 is not assigned"):
            FetcherWorld(A).fetcher.seek(B, 0)


class TestAssignment:
    @pytest.mark.parametrize(("policy", "timestamp"), [("earliest", EARLIEST_TIMESTAMP), ("latest", LATEST_TIMESTAMP)])
    def test_a_new_partition_starts_by_the_policy(self, policy: str, timestamp: int) -> None:
        world = FetcherWorld(A, reset=policy)
        world.fetcher.assign([A, B])
        assert [(partition, wanted) for partition, wanted, _ in world.fetcher.resets()] == [(B, timestamp)]
        assert world.asked() == [(A, 0)]

    def test_without_a_policy_it_has_no_position(self) -> None:
        world = FetcherWorld(A, reset="none")
        world.fetcher.assign([A, B])
        assert world.fetcher.resets() == []
        assert world.fetcher.positions[B].offset == -1
        assert world.asked() == [(A, 0)]

    def test_a_partition_that_stays_keeps_position_and_data(self) -> None:
        world = FetcherWorld(A, B)
        world.answer(fetched(data(0, b"a")), fetched(data(0, b"b")))
        world.fetcher.assign([B])
        assert world.read() == [b"b"]
        assert world.read() == []
        assert world.asked() == [(B, 1)]

    def test_what_was_under_way_for_one_that_left_and_came_back_is_dropped(self) -> None:
        world = FetcherWorld()
        plan = world.plan()
        world.fetcher.assign([])
        world.fetcher.assign([A])
        world.answer(fetched(data(0, b"old")), plan=plan)
        assert world.read() == []
        assert [partition for partition, _, _ in world.fetcher.resets()] == [A]


class TestPaused:
    def test_is_not_asked_for_and_not_handed_out(self) -> None:
        world = FetcherWorld(A, B)
        world.answer(fetched(data(0, b"a")), fetched(data(0, b"b")))
        world.fetcher.positions[A].paused = True
        assert world.asked() == [(B, 1)]
        assert world.read() == [b"b"]
        assert world.read() == []

    def test_keeps_what_was_fetched_for_later(self) -> None:
        world = FetcherWorld()
        plan = world.plan()
        world.fetcher.positions[A].paused = True
        world.answer(fetched(data(0, b"a")), plan=plan)
        assert world.read() == []
        world.fetcher.positions[A].paused = False
        assert world.read() == [b"a"]
        assert world.asked() == [(A, 1)]


class TestErrors:
    def test_a_passing_error_is_tried_again_after_a_pause_that_grows(self) -> None:
        world = FetcherWorld()
        pauses: list[int] = []
        for _ in range(3):
            world.answer(fetched(error=ErrorCode.OFFSET_NOT_AVAILABLE))
            plans, _, wake = world.fetcher.plan(world.view, world.now)
            assert plans == []
            pauses.append(wake)
            world.now += wake
        assert BACK_OFF_MS[0] <= pauses[0] <= BACK_OFF_MS[1]
        assert pauses == sorted(pauses)
        assert pauses[2] > 2 * pauses[0]
        world.answer(fetched(data(0, b"a")))
        world.answer(fetched(error=ErrorCode.OFFSET_NOT_AVAILABLE))
        assert world.fetcher.plan(world.view, world.now)[2] <= BACK_OFF_MS[1], "a success ends the row of failures"

    def test_others_of_the_request_are_not_delayed(self) -> None:
        world = FetcherWorld(A, B)
        world.answer(fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER), fetched(data(0, b"b")))
        assert world.asked() == [(B, 1)]
        assert world.read() == [b"b"]

    @pytest.mark.parametrize(
        "error",
        [
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.KAFKA_STORAGE_ERROR,
        ],
    )
    def test_some_say_that_the_metadata_is_out_of_date(self, error: ErrorCode) -> None:
        world = FetcherWorld(A, B)
        assert world.answer(fetched(error=error), fetched()) is True
        assert not world.fetcher.has_error
        assert world.answer(fetched()) is False

    def test_the_metadata_is_out_of_date_whichever_partition_says_so(self) -> None:
        for answers in ([ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_OUT_OF_RANGE], [ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH]):
            assert FetcherWorld(A, B).answer(*(fetched(error=error) for error in answers)) is True

    def test_a_lasting_error_is_raised_and_then_the_broker_is_asked_again(self) -> None:
        world = FetcherWorld(A, B)
        for _ in range(3):
            world.answer(fetched(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED), fetched())
            assert world.asked() == [(B, 0)], "not before the error has been raised"
            error = world.fetcher.next_error()
            assert isinstance(error, KafkaError)
            assert error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert world.fetcher.next_error() is None
            world.fetcher.assign((A, B))
        world.answer(fetched(data(0, b"a")), fetched())
        assert world.read() == [b"a"]

    def test_a_seek_takes_the_error_of_the_former_position_away(self) -> None:
        world = FetcherWorld(A, B)
        world.answer(fetched(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED), fetched())
        world.fetcher.seek(A, 0)
        assert world.fetcher.next_error() is None
        assert (A, 0) in world.asked()

    @pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION])
    def test_a_topic_that_metadata_refuses_is_told_to_each_poll(self, code: ErrorCode) -> None:
        world = FetcherWorld()
        refused = world.view._replace(topics={"t": TopicInfo("t", UUID(int=0), False, code, {})})
        for _ in range(2):
            assert world.fetcher.plan(refused, world.now)[:2] == ([], True)
            world.now += BACK_OFF_MS[1]
            error = world.fetcher.next_error()
            assert isinstance(error, KafkaError)
            assert error.code is code
        assert world.asked() == [(A, 0)]

    def test_a_partition_without_leader_needs_metadata(self) -> None:
        world = FetcherWorld(A, B)
        world.leaders[A] = -1
        plans, needs_metadata, wake = world.fetcher.plan(world.view, 0)
        assert [[target.topic_partition for target in plan.targets] for plan in plans] == [[B]]
        assert needs_metadata
        assert wake == FOREVER

    def test_a_leader_that_nobody_knows_the_address_of_needs_metadata(self) -> None:
        world = FetcherWorld()
        world.leaders[A] = 3
        plans, needs_metadata, _ = world.fetcher.plan(world.view, 0)
        assert (plans, needs_metadata) == ([], True)


class TestDeposedLeaders:
    """What metadata of before says of the leader must not be believed: it has not all that was read, or committed."""

    def needs_metadata(self, world: FetcherWorld) -> bool:
        plans, needs_metadata, _ = world.fetcher.plan(world.view, world.now)
        if world.confirm():
            plans = world.plans()
        assert needs_metadata == (not plans)
        for plan in plans:
            world.fetcher.on_response(plan, [None] * len(plan.targets), world.now)
        return needs_metadata

    def test_one_of_before_the_committed_position_is_not_asked(self) -> None:
        world = FetcherWorld()
        world.fetcher.seek(A, 5, 8)
        assert self.needs_metadata(world)
        world.epoch = 8
        assert not self.needs_metadata(world)
        world.fetcher.seek(A, 6)
        world.epoch = 7
        assert self.needs_metadata(world), "a position without an epoch takes nothing back"

    def test_one_of_before_what_was_read_is_not_asked(self) -> None:
        world = FetcherWorld()
        world.answer(fetched(data(0, b"a", partition_leader_epoch=6) + data(1, b"b", partition_leader_epoch=7)))
        world.epoch = 6
        assert self.needs_metadata(world)
        assert world.fetcher.positions[A].epoch == 7

    def test_an_older_batch_takes_nothing_back(self) -> None:
        world = FetcherWorld()
        world.fetcher.seek(A, 0, 7)
        world.answer(fetched(data(0, b"a", partition_leader_epoch=3)))
        assert world.fetcher.positions[A].epoch == 7

    def test_a_broker_that_knows_no_epochs_is_asked(self) -> None:
        world = FetcherWorld()
        world.fetcher.seek(A, 5, 8)
        world.epoch = -1
        assert not self.needs_metadata(world)

    def test_of_a_topic_that_was_made_anew_the_epochs_begin_again(self) -> None:
        world = FetcherWorld()
        world.answer(fetched(data(0, b"a", partition_leader_epoch=7)))
        world.topic_id, world.epoch = SECOND, 0
        assert world.plans() == []
        [(_, _, generation)] = world.fetcher.resets()
        world.fetcher.positioned(A, generation, 0)
        assert not self.needs_metadata(world)
        assert world.fetcher.positions[A].epoch == -1


class TestTopicsMadeAnew:
    @pytest.mark.parametrize("fetches", [fetched(data(0, b"a")), fetched()])
    def test_reading_begins_where_the_policy_says(self, fetches: FetchedPartition) -> None:
        world = FetcherWorld(reset="latest")
        world.answer(fetches)
        world.topic_id = SECOND
        assert world.asked() == []
        assert [wanted for _, wanted, _ in world.fetcher.resets()] == [LATEST_TIMESTAMP]
        assert world.read() == [], "what was fetched is of the former topic"

    def test_without_a_policy_each_poll_says_so_until_a_seek(self) -> None:
        world = FetcherWorld(reset="none")
        world.answer(fetched(data(0, b"a")))
        world.topic_id = SECOND
        for _ in range(2):
            assert world.asked() == []
            error = world.fetcher.next_error()
            assert isinstance(error, TopicRecreated)
            assert (error.code, error.topic_partition) == (ErrorCode.OFFSET_OUT_OF_RANGE, A)
        world.fetcher.seek(A, 0)
        assert world.asked() == [(A, 0)]
        assert world.fetcher.next_error() is None

    def test_a_position_that_nothing_was_read_from_is_believed(self) -> None:
        world = FetcherWorld()
        world.fetcher.seek(A, 5)
        world.plan()
        world.topic_id = SECOND
        world.fetcher.on_failure(FetchPlan(1, ()), KafkaError(ErrorCode.UNKNOWN_TOPIC_ID), 0)
        assert world.fetcher.resets() == []
        assert world.fetcher.positions[A].offset == 5

    @pytest.mark.parametrize("meanwhile", ["deleted", "without an id"])
    def test_metadata_without_a_topic_id_changes_nothing(self, meanwhile: str) -> None:
        world = FetcherWorld()
        world.answer(fetched(data(0, b"a")))
        infos = world.view.topics["t"].partitions if meanwhile != "deleted" else {}
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if meanwhile == "deleted" else ErrorCode.NONE
        world.fetcher.plan(world.view._replace(topics={"t": TopicInfo("t", UUID(int=0), False, error, infos)}), 0)
        assert world.fetcher.resets() == []
        assert world.read() == [b"a"]


class TestOutOfRange:
    @pytest.mark.parametrize(("policy", "timestamp"), [("earliest", EARLIEST_TIMESTAMP), ("latest", LATEST_TIMESTAMP)])
    def test_is_reset_by_the_policy(self, policy: str, timestamp: int) -> None:
        world = FetcherWorld(reset=policy)
        world.answer(fetched(error=ErrorCode.OFFSET_OUT_OF_RANGE))
        assert [wanted for _, wanted, _ in world.fetcher.resets()] == [timestamp]
        assert not world.fetcher.has_error
        assert world.asked() == []

    def test_without_a_policy_is_an_error_that_says_where(self) -> None:
        world = FetcherWorld(reset="none")
        world.fetcher.seek(A, 42)
        world.answer(fetched(error=ErrorCode.OFFSET_OUT_OF_RANGE))
        error = world.fetcher.next_error()
        assert isinstance(error, OffsetOutOfRange)
        assert (error.code, error.topic_partition, error.offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, A, 42)
        world.answer(fetched(error=ErrorCode.OFFSET_OUT_OF_RANGE))
        assert world.asked() == []
        assert isinstance(world.fetcher.next_error(), OffsetOutOfRange), "by each poll, until somebody seeks"

    @pytest.mark.parametrize("policy", ["earliest", "none"])
    def test_waits_until_what_was_fetched_has_been_read(self, policy: str) -> None:
        world = FetcherWorld(reset=policy)
        world.answer(fetched(data(0, b"a")))
        world.answer(fetched(error=ErrorCode.OFFSET_OUT_OF_RANGE))
        assert world.fetcher.resets() == []
        assert not world.fetcher.has_error
        assert world.asked() == [], "and not at once: the answer would be the same"
        assert world.read() == [b"a"]
        world.now = BACK_OFF_MS[1]
        world.answer(fetched(error=ErrorCode.OFFSET_OUT_OF_RANGE))
        assert world.fetcher.has_error == (policy == "none")
        assert bool(world.fetcher.resets()) == (policy == "earliest")


class TestReadCommitted:
    def transaction(self, offset: int, producer_id: int, value: bytes) -> bytes:
        return data(offset, value, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)

    def test_aborted_records_are_left_out_until_their_marker(self) -> None:
        world = FetcherWorld(isolation=READ_COMMITTED)
        records = [
            self.transaction(0, 1, b"aborted"),
            self.transaction(1, 2, b"committed"),
            data(2, b"plain"),
            marker(3, 1, committed=False),
            self.transaction(4, 1, b"next"),
            marker(5, 2, committed=True),
        ]
        world.answer(fetched(b"".join(records), aborted=[(1, 0)]))
        assert world.read() == [b"committed", b"plain", b"next"]
        assert world.asked() == [(A, 6)]

    def test_without_it_only_the_markers_are_left_out(self) -> None:
        world = FetcherWorld()
        world.answer(fetched(self.transaction(0, 1, b"aborted") + marker(1, 1, committed=False), aborted=[(1, 0)]))
        assert world.read() == [b"aborted"]
        assert world.fetcher.positions[A].offset == 2
