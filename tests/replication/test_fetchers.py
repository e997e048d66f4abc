"""What a leader appends reaches its followers, whatever happens to leaders, logs, sessions and bytes on the way."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.fetch import FetchResponse
from odradek.protocol.messages.metadata_records import PartitionChangeRecord
from odradek.protocol.schema import Message
from odradek.replication.fetching.shares import fetcher_number
from odradek.replication.fetching.states import FetchState
from odradek.replication.partition import Partition
from odradek.replication.roles import Role
from odradek.replication.subscriptions import EXPECTED_S
from tests.handlers.support import topic_id
from tests.replication.fetching_cluster import FetchCluster, stored

TP = TopicPartition("orders", 0)


def agree(cluster: FetchCluster, *numbers: int, topic_partition: TopicPartition = TP) -> bool:
    nodes = [cluster[number] for number in numbers or cluster.nodes]
    ends = {node.log(topic_partition).log_end_offset for node in nodes}
    return len(ends) == 1 and len({stored(node, topic_partition) for node in nodes}) == 1


def three(**config: str) -> FetchCluster:
    cluster = FetchCluster(1, 2, 3, **config)
    cluster.create("orders", leader=1)
    return cluster


# -- copying ---------------------------------------------------------------------------------------------------------------------------


def test_what_the_leader_appends_reaches_the_followers_and_is_acknowledged() -> None:
    cluster = three()
    cluster.run(5)
    asked = cluster[1].lead(TP, b"a", b"b", acks=-1)
    cluster.run(20)
    assert asked.done
    assert [each.error for each in asked.result()] == [ErrorCode.NONE]
    assert agree(cluster)
    assert cluster[1].log(TP).high_watermark == 2
    for number in (2, 3):
        assert cluster[number].followed(TP).lag == 0


def test_followers_learn_the_high_watermark_within_replica_fetch_wait_max_ms() -> None:
    cluster = three()
    cluster[1].lead(TP, b"a", acks=-1)
    cluster.run_until(lambda: all(cluster[number].log(TP).high_watermark == 1 for number in (1, 2, 3)), seconds=0.7)


def test_the_next_fetch_goes_out_with_the_answer_and_says_only_what_is_new() -> None:
    cluster = FetchCluster(1, 2)
    cluster.create("orders", leader=1, partitions=5)
    cluster.run(5)
    first = cluster.wire.fetches(2, 1)
    assert [(fetch.session_epoch, len(fetch.topics[0].partitions)) for fetch in first[:1]] == [(0, 5)]
    before = len(cluster.wire.fetches(2, 1))
    cluster[1].lead(TP, b"a")
    cluster.run(10)
    new = cluster.wire.fetches(2, 1)[before:]
    named = [[each.fetch_offset for topic in fetch.topics for each in topic.partitions] for fetch in new]
    assert named[0] == [1]
    assert all(not positions for positions in named[1:])
    assert {fetch.session_id for fetch in new} != {0}


def test_a_request_says_what_kafkas_followers_say() -> None:
    cluster = FetchCluster(
        1,
        2,
        replica_fetch_min_bytes="7",
        replica_fetch_max_bytes="5000",
        replica_fetch_wait_max_ms="77",
        replica_fetch_response_max_bytes="9000",
    )
    cluster.create("orders", leader=1)
    cluster[1].lead(TP, b"a")
    cluster.run(5)
    fetch = cluster.wire.fetches(2, 1)[-1]
    assert (fetch.min_bytes, fetch.max_bytes, fetch.max_wait_ms) == (7, 9000, 77)
    assert (fetch.replica_state.replica_id, fetch.replica_state.replica_epoch) == (2, 200)
    position = fetch.topics[0].partitions[0]
    assert (position.fetch_offset, position.last_fetched_epoch, position.current_leader_epoch) == (1, 0, 0)
    assert (position.log_start_offset, position.partition_max_bytes) == (0, 5000)
    assert fetch.topics[0].topic_id == topic_id(1)


def test_the_request_that_begins_a_session_is_not_parked_for_long() -> None:
    """What comes after it is not in it, and waits for its end."""
    cluster = FetchCluster(1, 2)
    cluster.create("orders", leader=1)
    cluster.run(50)
    assert [(fetch.session_epoch, fetch.max_wait_ms) for fetch in cluster.wire.fetches(2, 1)] == [(0, 10), (1, 500)]


def test_partitions_are_spread_over_the_fetchers_as_in_kafka() -> None:
    # From AbstractFetcherManager.getFetcherId, asked of the JVM.
    assert [fetcher_number(TopicPartition("orders", partition), 4) for partition in range(5)] == [
        abs(java(31 * hash_of("orders") + partition)) % 4 for partition in range(5)
    ]
    cluster = FetchCluster(1, 2, num_replica_fetchers="2")
    cluster.create("orders", leader=1, partitions=4)
    cluster.run(5)
    purposes = {purpose for source, _, purpose, _ in cluster.wire.sent if source == 2}
    assert purposes == {"fetch-0", "fetch-1"}
    for partition in range(4):
        cluster[1].lead(TopicPartition("orders", partition), b"a")
    cluster.run(20)
    assert all(agree(cluster, topic_partition=TopicPartition("orders", partition)) for partition in range(4))


def java(number: int) -> int:
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def hash_of(text: str) -> int:
    number = 0
    for letter in text:
        number = java(31 * number + ord(letter))
    return number


def test_a_log_that_was_cut_by_somebody_else_is_fetched_from_where_it_ends() -> None:
    cluster = FetchCluster(1, 2)
    cluster.create("orders", leader=1)
    cluster[1].lead(TP, b"a", b"b")
    cluster[1].lead(TP, b"c")
    cluster.run(20)
    cluster[2].log(TP).truncate_to(2)
    cluster[1].lead(TP, b"d")
    cluster.run(20)
    assert agree(cluster)
    assert cluster[2].log(TP).log_end_offset == 4


def test_more_fetchers_at_run_time_take_over_their_share() -> None:
    cluster = FetchCluster(1, 2)
    cluster.create("orders", leader=1, partitions=4)
    cluster.run(5)
    assert not cluster[2].services.dynamic_config.update({"num.replica.fetchers": "2"}, {})
    cluster[2].fetchers.resize()
    cluster.run(600)
    sent = len(cluster.wire.sent)
    for partition in range(4):
        cluster[1].lead(TopicPartition("orders", partition), b"a")
    cluster.run(20)
    assert all(agree(cluster, topic_partition=TopicPartition("orders", partition)) for partition in range(4))
    since = [(purpose, request) for source, _, purpose, request in cluster.wire.sent[sent:] if source == 2]
    assert {purpose for purpose, _ in since} == {"fetch-0", "fetch-1"}
    by = sorted({(each.partition, purpose) for purpose, fetch in since for topic in fetch.topics for each in topic.partitions})
    assert [partition for partition, _ in by] == [0, 1, 2, 3], "each by one fetcher, the former one has let go"


def test_deleted_records_go_from_the_followers_and_the_leader_hears_of_it() -> None:
    cluster = three()
    for value in (b"a", b"b", b"c"):
        cluster[1].lead(TP, value)
    cluster.run(50)
    deleted = cluster[1].manager.deleter.delete_records({TP: 2}, 5000)
    cluster.run(1200)
    assert isinstance(deleted, Deferred)
    assert deleted.done
    assert [cluster[number].log(TP).log_start_offset for number in (1, 2, 3)] == [2, 2, 2]
    assert cluster[1].partition(TP).low_watermark() == 2


# -- leaders come and go -----------------------------------------------------------------------------------------------------------------


def test_after_the_death_of_the_leader_the_others_go_on_and_the_old_one_cuts_what_they_never_had() -> None:
    cluster = three()
    cluster[1].lead(TP, b"a", b"b", acks=-1)
    cluster.run(20)
    cluster.kill(1)
    cluster[1].lead(TP, b"never seen")
    cluster.elect(topic_id(1), 2, 2, 3)
    asked = cluster[2].lead(TP, b"c")
    cluster.run_until(lambda: agree(cluster, 2, 3), seconds=2)
    assert cluster[2].log(TP).log_end_offset == 3
    assert asked.done
    cluster.heal()
    cluster.tell(1)
    cluster.run_until(lambda: agree(cluster), seconds=3)
    assert cluster[1].log(TP).log_end_offset == 3
    assert b"never seen" not in stored(cluster[1], TP)


def test_logs_that_have_parted_over_several_epochs_meet_again() -> None:
    cluster = three()
    id_ = topic_id(1)
    cluster[1].lead(TP, b"common", acks=-1)
    cluster.run(50)
    for number in (1, 2, 3):
        cluster.kill(number)
    # Each leads for a while without the others, unclean: epochs 1, 2, 3 with different records.
    for leader, values in ((1, 3), (2, 2), (3, 4), (1, 1)):
        cluster.elect(id_, leader, leader, isr=[leader])
        for value in range(values):
            cluster[leader].lead(TP, b"of %d: %d" % (leader, value))
    cluster.elect(id_, 3, isr=[3])
    cluster.tell()
    cluster.heal()
    cluster.run_until(lambda: agree(cluster), seconds=5)
    cluster[3].lead(TP, b"last")
    cluster.run_until(lambda: agree(cluster), seconds=5)
    assert cluster[1].log(TP).leader_epochs.entries == cluster[3].log(TP).leader_epochs.entries


def test_a_leader_that_is_not_reached_holds_up_nobody_else() -> None:
    cluster = FetchCluster(1, 2, 3, replica_fetch_backoff_ms="300")
    cluster.create("orders", leader=1)
    cluster.create("others", leader=2, number=2)
    others = TopicPartition("others", 0)
    cluster.run(50)
    cluster.wire.part(1, 3)
    cluster[2].lead(others, b"a")
    cluster[1].lead(TP, b"a")
    cluster.run(20)
    assert agree(cluster, 2, 3, topic_partition=others)
    cluster.wire.cut.clear()
    before = len(cluster.wire.fetches(3, 1))
    cluster.run(200)
    assert len(cluster.wire.fetches(3, 1)) == before, "it waits for the back-off"
    cluster.run(200)
    assert agree(cluster, 1, 3)


def test_a_leader_that_is_elected_again_is_tried_at_once() -> None:
    cluster = three(replica_fetch_backoff_ms="5000")
    cluster.run(5)
    cluster.wire.part(1, 3)
    cluster.run(100)
    cluster.heal()
    cluster.elect(topic_id(1), 2, 1, 2, 3)
    cluster.elect(topic_id(1), 1, 1, 2, 3)
    cluster[1].lead(TP, b"a")
    cluster.run(20)
    assert agree(cluster, 1, 3)


def test_an_answer_that_comes_after_the_leader_has_changed_is_dropped() -> None:
    cluster = three()
    cluster.run(5)
    cluster[1].lead(TP, b"late")
    # The answer is on its way to broker 3 when that hears of another leader.
    cluster.run(0.5)
    cluster.elect(topic_id(1), 2, 2, 3)
    cluster.run(30)
    assert b"late" not in stored(cluster[3], TP)
    cluster[2].lead(TP, b"new")
    cluster.run_until(lambda: agree(cluster, 2, 3), seconds=2)


def test_a_follower_that_is_ahead_of_the_leaders_metadata_asks_again() -> None:
    cluster = three(replica_fetch_backoff_ms="100")
    cluster.run(5)
    cluster.elect(topic_id(1), 2, 3)
    cluster.run(20)
    assert cluster[3].state(TP) is FetchState.DELAYED
    cluster.tell(2)
    cluster[2].lead(TP, b"a")
    cluster.run(150)
    assert agree(cluster, 2, 3)


def test_a_leader_that_hears_of_its_partition_a_moment_later_need_not_wait_for_its_followers() -> None:
    cluster = three(replica_fetch_backoff_ms="5000")
    cluster.run(5)
    cluster.elect(topic_id(1), 2, 3)
    cluster.run(10)
    assert cluster[3].state(TP) is FetchState.DELAYED
    cluster.tell(2)
    cluster[2].lead(TP, b"a")
    cluster.run(60)
    assert agree(cluster, 2, 3)


def test_a_leader_that_does_not_hear_of_its_partition_is_asked_less_and_less() -> None:
    cluster = three(replica_fetch_backoff_ms="1000")
    cluster.run(5)
    cluster.elect(topic_id(1), 2, 3)
    before = len(cluster.wire.fetches(3, 2))
    cluster.run(5000)
    # Nine times with the partition, each followed by one that leaves it out and is parked.
    assert 12 <= len(cluster.wire.fetches(3, 2)) - before <= 24
    cluster.tell(2)
    cluster[2].lead(TP, b"a")
    cluster.run(1100)
    assert agree(cluster, 2, 3)


def test_a_leader_that_has_served_a_partition_is_asked_soon_again_when_it_does_not_know_it() -> None:
    cluster = three(replica_fetch_backoff_ms="5000")
    cluster.run(5)
    followed = cluster[3].followed(TP)
    followed.delays = 30
    cluster[1].lead(TP, b"a")
    cluster.run(20)
    assert followed.delays == 0


def test_a_follower_that_is_behind_the_leaders_metadata_waits_for_its_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "odradek.replication.fetchers")
    cluster = three(replica_fetch_backoff_ms="50")
    cluster.run(5)
    cluster.elect(topic_id(1), 2)
    cluster.elect(topic_id(1), 1, 1)
    cluster.run(600)
    assert cluster[3].state(TP) is FetchState.FAILED
    said = {record.levelno for record in caplog.records if "is not fetched any more" in record.message}
    assert said == {logging.INFO}, "it belongs to every change of leaders"
    asked = len(cluster.wire.fetches(3, 1))
    cluster.run(2000)
    assert len(cluster.wire.fetches(3, 1)) == asked
    cluster.tell(3)
    cluster[1].lead(TP, b"a")
    cluster.run(600)
    assert agree(cluster, 1, 3)


def test_nobody_is_fetched_from_while_there_is_no_leader() -> None:
    cluster = three()
    cluster.run(5)
    cluster.elect(topic_id(1), -1)
    cluster.tell()
    cluster.run(600)
    sent = len(cluster.wire.sent)
    cluster.run(2000)
    assert len(cluster.wire.sent) == sent
    assert cluster[2].fetchers.followed(TP) is None


def test_a_closed_broker_asks_nobody() -> None:
    cluster = three()
    cluster.run(5)
    cluster[2].fetchers.close()
    sent = len(cluster.wire.fetches(2, 1))
    cluster.run(3000)
    assert len(cluster.wire.fetches(2, 1)) == sent


# -- topics come and go ------------------------------------------------------------------------------------------------------------------


def test_a_topic_that_was_made_anew_while_a_replica_was_away_is_copied_from_its_beginning() -> None:
    cluster = three(replica_fetch_backoff_ms="100")
    for value in (b"old 1", b"old 2"):
        cluster[1].lead(TP, value)
    cluster.run(50)
    cluster.delete(topic_id(1))
    cluster.create("orders", leader=1, number=2, told=(1, 2))
    cluster[1].lead(TP, b"new")
    cluster.run(700)
    # Broker 3 knows the old topic only: nothing of the new one gets into its log.
    assert cluster[3].log(TP).log_end_offset == 2
    assert cluster[3].state(TP) is FetchState.DELAYED
    cluster.tell(3)
    cluster.run(700)
    assert agree(cluster)
    assert b"old" not in stored(cluster[3], TP)


def test_a_deleted_topic_is_forgotten_by_the_session() -> None:
    cluster = three()
    cluster.create("others", leader=1, number=2)
    cluster.run(5)
    cluster.delete(topic_id(1))
    cluster.tell()
    cluster.run(600)
    [session] = {id(fetch): fetch for fetch in cluster.wire.fetches(2, 1) if fetch.forgotten_topics_data}.values()
    assert [(each.topic_id, each.partitions) for each in session.forgotten_topics_data] == [(topic_id(1), [0])]


# -- out of range ------------------------------------------------------------------------------------------------------------------------


def test_a_follower_whose_end_the_leader_has_deleted_starts_over() -> None:
    cluster = three()
    cluster.kill(3)
    for index in range(10):
        cluster[1].lead(TP, b"%d" % index)
    cluster.elect(topic_id(1), 1, 1, 2, isr=[1, 2])
    cluster.run(50)
    leader = cluster[1].log(TP)
    leader.update_high_watermark(10)
    leader.roll()
    leader.maybe_increment_log_start_offset(7)
    cluster.heal()
    cluster.tell(3)
    cluster.run(3000)
    log = cluster[3].log(TP)
    assert (log.log_start_offset, log.log_end_offset) == (7, 10)
    assert cluster[3].state(TP) is FetchState.FETCHING


def test_a_log_that_reaches_beyond_the_leaders_is_cut_to_it() -> None:
    """An unclean election: the leader's log ends earlier, and knows no epoch that would tell where the logs part."""
    cluster = three()
    cluster.run(5)
    for _ in range(4):
        cluster[1].lead(TP, b"a")
    cluster.run(50)
    cluster.kill(2)
    cluster[2].log(TP).truncate_fully_and_start_at(0)
    cluster.elect(topic_id(1), 2)
    cluster.tell()
    cluster[2].log(TP).leader_epochs.clear()
    cluster.heal()
    cluster.run_until(lambda: cluster[3].log(TP).log_end_offset == 0, seconds=5)
    asked = {request.API_KEY for source, _, _, request in cluster.wire.sent if source == 3}
    assert ApiKey.LIST_OFFSETS in asked
    cluster[2].lead(TP, b"b")
    cluster.run_until(lambda: agree(cluster, 2, 3), seconds=5)
    assert cluster[3].log(TP).log_end_offset == 1


def test_what_the_leader_cannot_tell_is_asked_again_after_a_pause() -> None:
    cluster = three(replica_fetch_backoff_ms="200")
    cluster.run(5)
    refusing = [True]

    def tamper(source: int, target: int, request: Message, body: bytearray) -> bytes | None:
        if source == 3 and request.API_KEY == ApiKey.FETCH and refusing[0]:
            response = FetchResponse.decode(bytes(body), 18)
            for topic in response.responses:
                for data in topic.partitions:
                    data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            return response.encode(18)
        return bytes(body)

    cluster.wire.tamper = tamper
    cluster[1].lead(TP, b"a")
    cluster.run(1000)
    asked = sum(1 for source, _, _, request in cluster.wire.sent if source == 3 and request.API_KEY == ApiKey.LIST_OFFSETS)
    assert 2 < asked < 30
    refusing[0] = False
    cluster.run(1000)
    assert agree(cluster, 1, 3)


@pytest.mark.parametrize("code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_a_question_for_the_leaders_offsets_that_is_never_answered_is_asked_again(code: ErrorCode) -> None:
    """The fetcher has nothing else to do meanwhile, so nothing else wakes it."""
    cluster = three(replica_fetch_backoff_ms="200")
    cluster.run(5)
    out_of_range, asked = [True], list[Deferred[Any]]()
    send = cluster.wire.send

    def sending(source: int, target: int, purpose: str, request: Any, **how: Any) -> Any:
        if source == 3 and request.API_KEY == ApiKey.LIST_OFFSETS and out_of_range[0]:
            asked.append(Deferred())
            return asked[-1]
        return send(source, target, purpose, request, **how)

    def tamper(source: int, target: int, request: Message, body: bytearray) -> bytes | None:
        if source == 3 and request.API_KEY == ApiKey.FETCH and out_of_range[0]:
            response = FetchResponse.decode(bytes(body), 18)
            for topic in response.responses:
                for data in topic.partitions:
                    data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            return response.encode(18)
        return bytes(body)

    cluster.wire.send = sending  # type: ignore[method-assign]
    cluster.wire.tamper = tamper
    cluster[1].lead(TP, b"a")
    cluster.run(2000)
    assert len(asked) == 2, "for its first and for its last offset"
    out_of_range[0] = False
    for answer in asked:
        answer.fail(KafkaError(code))
    cluster.run(2000)
    assert agree(cluster, 1, 3)


# -- sessions ----------------------------------------------------------------------------------------------------------------------------


def test_a_session_that_the_leader_has_dropped_begins_anew() -> None:
    cluster = three()
    cluster.run(600)
    cache = cluster[1].manager.fetch_sessions
    cache._sessions.clear()  # pyright: ignore[reportPrivateUsage]
    cluster[1].lead(TP, b"a")
    cluster.run(600)
    cluster[1].lead(TP, b"b")
    cluster.run(20)
    assert agree(cluster)
    assert [fetch.session_epoch for fetch in cluster.wire.fetches(2, 1)].count(0) == 2


def test_a_leader_without_room_for_sessions_gets_full_fetches() -> None:
    cluster = three(max_incremental_fetch_session_cache_slots="0")
    cluster[1].lead(TP, b"a")
    cluster.run(50)
    assert agree(cluster)
    assert {fetch.session_epoch for fetch in cluster.wire.fetches(2, 1)} == {0}


def test_after_a_lost_answer_the_session_is_closed_and_begun_anew() -> None:
    cluster = three(replica_fetch_backoff_ms="50")
    cluster.run(600)
    losing = [True]

    def tamper(source: int, target: int, request: Message, body: bytearray) -> bytes | None:
        if source == 2 and losing[0]:
            losing[0] = False
            return None
        return bytes(body)

    cluster.wire.tamper = tamper
    cluster[1].lead(TP, b"a")
    cluster.run(200)
    assert agree(cluster)
    again = [fetch for fetch in cluster.wire.fetches(2, 1) if fetch.session_epoch == 0][1:]
    assert len(again) == 1
    assert again[0].session_id != 0, "the leader is to close the old one"
    assert len(cluster[1].manager.fetch_sessions) == 2


@pytest.mark.parametrize(
    "code", [ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR]
)
def test_a_leader_that_refuses_each_fetch_is_not_asked_without_pause(code: ErrorCode) -> None:
    cluster = three(replica_fetch_backoff_ms="100")
    cluster.run(5)

    def tamper(source: int, target: int, request: Message, body: bytearray) -> bytes | None:
        return FetchResponse(error_code=code).encode(18) if source == 2 else bytes(body)

    cluster.wire.tamper = tamper
    cluster[1].lead(TP, b"a")
    before = len(cluster.wire.fetches(2, 1))
    cluster.run(1000)
    assert len(cluster.wire.fetches(2, 1)) - before < 15
    cluster.wire.tamper = None
    cluster.run(200)
    assert agree(cluster)


def test_an_answer_about_what_was_not_asked_is_not_believed() -> None:
    cluster = three(replica_fetch_backoff_ms="100")
    cluster.run(5)
    other = FetchResponse.FetchableTopicResponse(
        topic_id=topic_id(9), partitions=[FetchResponse.PartitionData(partition_index=0, records=b"")]
    )

    def tamper(source: int, target: int, request: Message, body: bytearray) -> bytes | None:
        if source == 2 and request.API_KEY == ApiKey.FETCH:
            response = FetchResponse.decode(bytes(body), 18)
            response.responses.append(other)
            return response.encode(18)
        return bytes(body)

    cluster.wire.tamper = tamper
    cluster[1].lead(TP, b"a")
    cluster.run(500)
    assert cluster[2].log(TP).log_end_offset == 0
    cluster.wire.tamper = None
    cluster.run(200)
    assert agree(cluster)


# -- damaged and impossible things -------------------------------------------------------------------------------------------------------


def test_damaged_records_are_never_appended_and_asked_for_again() -> None:
    cluster = three(replica_fetch_backoff_ms="200")
    cluster.run(5)
    flips = [0]

    def tamper(source: int, target: int, request: Message, body: bytearray) -> bytes | None:
        at = body.find(b"precious")
        if source == 2 and at >= 0 and flips[0] < 2:
            flips[0] += 1
            body[at] ^= 4
        return bytes(body)

    cluster.wire.tamper = tamper
    cluster[1].lead(TP, b"precious", acks=-1)
    cluster.run(100)
    assert (flips[0], cluster[2].log(TP).log_end_offset) == (1, 0)
    assert cluster[2].state(TP) is FetchState.DELAYED
    cluster.run(1000)
    assert flips[0] == 2
    assert agree(cluster)
    assert cluster[1].log(TP).high_watermark == 1


def test_a_partition_that_cannot_be_appended_to_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FetchCluster(1, 2)
    cluster.create("orders", leader=1, partitions=2)
    cluster.run(5)

    append = Partition.append_as_follower

    def broken(self: Partition, *given: Any, **offsets: Any) -> None:
        if self.topic_partition == TP:
            raise ValueError("no reason")
        append(self, *given, **offsets)

    monkeypatch.setattr(Partition, "append_as_follower", broken)
    other = TopicPartition("orders", 1)
    cluster[1].lead(TP, b"a")
    cluster[1].lead(other, b"a")
    cluster.run(600)
    assert cluster[2].state(TP) is FetchState.FAILED
    assert agree(cluster, topic_partition=other)


def test_what_has_moved_to_tiered_storage_is_not_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    cluster = three()
    cluster.run(5)

    def tamper(source: int, target: int, request: Message, body: bytearray) -> bytes | None:
        response = FetchResponse.decode(bytes(body), 18)
        for topic in response.responses:
            for data in topic.partitions:
                data.error_code = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
        return response.encode(18)

    cluster.wire.tamper = tamper
    cluster[1].lead(TP, b"a")
    cluster.run(100)
    assert cluster[3].state(TP) is FetchState.FAILED
    assert {record.levelno for record in caplog.records if "is not fetched any more" in record.message} == {logging.ERROR}


def test_a_log_directory_that_fails_takes_only_its_own_replicas_along() -> None:
    cluster = FetchCluster(1, 2)
    cluster.create("orders", leader=1, partitions=2)
    cluster.run(5)
    places = {partition: cluster[2].log(TopicPartition("orders", partition)).parent_directory for partition in (0, 1)}
    assert set(places.values()) == {"/data", "/more"}
    cluster[2].disk.fail(places[0], "write")
    for partition in (0, 1):
        cluster[1].lead(TopicPartition("orders", partition), b"a")
    cluster.run(700)
    assert cluster[2].partition(TP).role is Role.OFFLINE
    assert cluster[2].fetchers.followed(TP) is None
    other = TopicPartition("orders", 1)
    cluster[1].lead(other, b"b")
    cluster.run(20)
    assert agree(cluster, topic_partition=other)


# -- cuts that are not durable yet -----------------------------------------------------------------------------------------------------


def diverged() -> FetchCluster:
    """Broker 3 has a record that the new leader, broker 2, has not."""
    cluster = three()
    cluster[1].lead(TP, b"common")
    cluster.run(50)
    cluster.wire.part(1, 2)
    cluster[1].lead(TP, b"only 1 and 3")
    cluster.run(50)
    assert cluster[3].log(TP).log_end_offset == 2
    cluster[3].hold_jobs = True
    cluster.elect(topic_id(1), 2, 2, 3)
    cluster.run(700)
    return cluster


def test_a_replica_is_neither_fetched_nor_appended_to_before_its_cut_is_durable() -> None:
    cluster = diverged()
    node = cluster[3]
    assert node.jobs == 1
    assert node.state(TP) is FetchState.TRUNCATING
    assert (node.log(TP).log_end_offset, node.log(TP).is_cut) == (1, True)
    cluster[2].lead(TP, b"new")
    cluster.run(1000)
    assert node.log(TP).log_end_offset == 1
    node.run_jobs()
    cluster.run(50)
    assert agree(cluster, 2, 3)
    assert not node.log(TP).is_cut


def test_other_partitions_of_the_leader_are_fetched_meanwhile() -> None:
    cluster = diverged()
    cluster.create("others", leader=2, number=2)
    others = TopicPartition("others", 0)
    cluster[2].lead(others, b"a")
    cluster.run(100)
    assert agree(cluster, 2, 3, topic_partition=others)
    assert cluster[3].state(TP) is FetchState.TRUNCATING
    cluster.run(EXPECTED_S * 1000 + 100)
    cluster[2].lead(TP, b"new")
    cluster[3].run_jobs()
    cluster.run(30)
    assert agree(cluster, 2, 3), "not after replica.fetch.wait.max.ms"


def test_who_is_elected_before_its_cut_is_durable_makes_it_so_before_it_writes() -> None:
    cluster = diverged()
    node = cluster[3]
    cluster.elect(topic_id(1), 3, 3)
    assert node.log(TP).is_cut
    synced: list[str] = []
    node.disk.fault = lambda operation, path: synced.append(operation) if path.endswith(".log") else None
    node.lead(TP, b"mine")
    node.disk.fault = None
    assert "fsync" in synced[: synced.index("write")]
    assert not node.log(TP).is_cut
    node.run_jobs()
    assert node.log(TP).log_end_offset == 2
    cluster.tell(2)
    cluster.run_until(lambda: agree(cluster, 2, 3), seconds=3)


def test_a_cut_that_cannot_be_made_durable_takes_the_directory_offline() -> None:
    cluster = diverged()
    node = cluster[3]
    node.disk.fail(node.log(TP).parent_directory, "fsync")
    node.run_jobs()
    assert node.partition(TP).role is Role.OFFLINE
    assert node.fetchers.followed(TP) is None


def test_many_cuts_of_one_answer_are_one_job() -> None:
    cluster = FetchCluster(1, 2, 3)
    cluster.create("orders", leader=1, partitions=20)
    partitions = [TopicPartition("orders", index) for index in range(20)]
    for each in partitions:
        cluster[1].lead(each, b"common")
    cluster.run(50)
    cluster.wire.part(1, 2)
    for each in partitions:
        cluster[1].lead(each, b"only 1 and 3")
    cluster.run(50)
    cluster[3].hold_jobs = True
    cluster.records += [PartitionChangeRecord(partition_id=each.partition, topic_id=topic_id(1), leader=2) for each in partitions]
    cluster.tell(2, 3)
    cluster.run(600)
    assert cluster[3].jobs == 1
    assert {cluster[3].state(each) for each in partitions} == {FetchState.TRUNCATING}
    cluster[3].run_jobs()
    for each in partitions:
        cluster[2].lead(each, b"new")
    cluster.run(100)
    assert all(agree(cluster, 2, 3, topic_partition=each) for each in partitions)


# -- what has to be durable before the leader may count it ------------------------------------------------------------------------------


def test_the_leader_hears_of_nothing_that_flush_messages_wants_durable_first() -> None:
    cluster = three(log_flush_interval_messages="1")
    cluster.run(5)
    cluster[2].hold_jobs = True
    asked = cluster[1].lead(TP, b"a", acks=-1)
    cluster.run(2000)
    assert cluster[2].log(TP).log_end_offset == 1
    assert not asked.done
    assert cluster[2].log(TP).recovery_point == 0
    cluster[2].run_jobs()
    cluster.run(20)
    assert [each.error for each in asked.result()] == [ErrorCode.NONE]
    assert cluster[2].log(TP).recovery_point == 1


def test_the_next_leader_does_not_hear_of_it_either() -> None:
    cluster = three(log_flush_interval_messages="1")
    cluster.run(5)
    cluster[2].hold_jobs = True
    cluster[1].lead(TP, b"a")
    cluster.run(20)
    assert cluster[2].log(TP).log_end_offset == 1
    cluster.elect(topic_id(1), 3, 2, 3)
    cluster.run(50)
    assert not cluster.wire.fetches(2, 3)
    cluster[2].run_jobs()
    cluster.run(20)
    assert [each.fetch_offset for each in cluster.wire.fetches(2, 3)[0].topics[0].partitions] == [1]


def test_what_flush_messages_does_not_ask_for_is_left_to_the_system() -> None:
    cluster = three(log_flush_interval_messages="3")
    cluster.run(5)
    cluster[2].hold_jobs = True
    asked = cluster[1].lead(TP, b"a", b"b", acks=-1)
    cluster.run(20)
    assert asked.done
    assert cluster[2].jobs == 0


def test_other_partitions_go_on_after_a_flush_that_fails() -> None:
    cluster = FetchCluster(1, 2, log_flush_interval_messages="1")
    cluster.create("orders", leader=1)
    cluster.create("others", leader=1, number=2)
    others = TopicPartition("others", 0)
    cluster.run(5)
    node = cluster[2]
    assert node.log(TP).parent_directory != node.log(others).parent_directory
    node.disk.fail(node.log(TP).parent_directory, "fsync")
    cluster[1].lead(TP, b"a")
    cluster.run(20)
    assert node.partition(TP).role is Role.OFFLINE
    cluster[1].lead(others, b"a")
    cluster.run(20)
    assert agree(cluster, topic_partition=others)


def test_a_log_without_epochs_is_cut_to_its_high_watermark_first() -> None:
    cluster = three()
    cluster[1].lead(TP, b"a")
    cluster.run(50)
    cluster[1].lead(TP, b"b")
    cluster.run(2.5)
    log = cluster[3].log(TP)
    assert log.log_end_offset == 2
    log.update_high_watermark(1)
    log.leader_epochs.clear()
    cluster.elect(topic_id(1), 2, 2, 3)
    assert log.log_end_offset == 1
    cluster.run(700)
    cluster[2].lead(TP, b"c")
    cluster.run(700)
    assert agree(cluster, 2, 3)
