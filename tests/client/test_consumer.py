"""The consumer against a broker of our own: what is handed out, from where, and how often."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, ProtocolError
from odradek.client import Admin, Consumer, KafkaError, NewTopic, Producer, TopicPartition, TopicRecreated
from odradek.client.consumer import fetching
from odradek.client.core.positions import Chunk
from odradek.client.types import ConsumerRecord


@pytest.fixture
def filled(bootstrap: str, topic: str) -> TopicPartition:
    """A partition with the records 0 to 9, in one batch."""
    with Producer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(10)], partition=0)
    return TopicPartition(topic, 0)


def values(records: list[ConsumerRecord]) -> list[int]:
    return [int(record.value or b"-1") for record in records]


def test_a_seek_drops_what_is_decoded_already(bootstrap: str, filled: TopicPartition) -> None:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([filled])
        assert values(consumer.poll(5000, max_records=2)) == [0, 1]
        consumer.seek(filled, 7)
        assert values(consumer.poll(5000)) == [7, 8, 9]


def test_the_position_is_that_of_the_reader(bootstrap: str, filled: TopicPartition) -> None:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([filled])
        assert consumer.position(filled) == 0
        consumer.poll(5000, max_records=3)
        assert consumer.position(filled) == 3
        consumer.poll(5000)
        assert consumer.position(filled) == 10


def test_a_paused_partition_hands_out_nothing_and_loses_nothing(bootstrap: str, filled: TopicPartition) -> None:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([filled])
        assert values(consumer.poll(5000, max_records=2)) == [0, 1]
        consumer.pause(filled)
        assert consumer.poll(50) == []
        assert consumer.position(filled) == 2
        consumer.resume(filled)
        assert values(consumer.poll(5000)) == [2, 3, 4, 5, 6, 7, 8, 9]


def test_a_batch_that_cannot_be_read_is_not_passed_over(bootstrap: str, filled: TopicPartition, monkeypatch: pytest.MonkeyPatch) -> None:
    def corrupt(chunk: Chunk, **_: object) -> list[ConsumerRecord]:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "broken on purpose")

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([filled])
        with monkeypatch.context() as patched:
            patched.setattr("odradek.client.consumer.engine.decode_chunk", corrupt)
            for _ in range(2):
                with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
                    consumer.poll(5000)
        assert values(consumer.poll(5000)) == list(range(10))


def test_a_broker_is_asked_again_after_an_answer_that_made_no_sense(
    bootstrap: str, filled: TopicPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    sense = fetching.fetched_partitions

    def nonsense_once(*_: object) -> None:
        # The consumer asks again as soon as the error is told: that answer makes sense.
        monkeypatch.setattr(fetching, "fetched_partitions", sense)
        raise ProtocolError("broken on purpose")

    monkeypatch.setattr(fetching, "fetched_partitions", nonsense_once)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([filled])
        with pytest.raises(ProtocolError, match="broken on purpose"):
            consumer.poll(5000)
        while not (found := consumer.poll(5000)):
            pass
        assert values(found) == list(range(10))


def test_the_first_fetch_does_not_wait_for_the_pause_between_questions(bootstrap: str, filled: TopicPartition) -> None:
    settings = {"retry.backoff.ms": 60_000, "retry.backoff.max.ms": 60_000}
    with Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "none", **settings}) as consumer:
        consumer.assign([filled])
        consumer.seek(filled, 0)
        assert values(consumer.poll(30_000)) == list(range(10))


def test_a_range_begins_and_ends_where_it_says(bootstrap: str, filled: TopicPartition) -> None:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign_range(filled, 3, 3)
        assert consumer.at_rest
        assert consumer.poll(200) == []
        consumer.assign_range(filled, 3, 10)
        assert not consumer.at_rest
        assert values(consumer.poll(5000)) == [3, 4, 5, 6, 7, 8, 9]
        assert consumer.at_rest
        assert consumer.leader_epoch(filled) == 0
        consumer.assign_range(filled, 3, 3)  # at rest: no fetch tells the epoch again
        assert consumer.leader_epoch(filled) == -1, "nothing of before is kept"
        consumer.assign_range(filled, 0, 10)
        assert values(consumer.poll(5000)) == list(range(10))


def test_a_range_of_a_topic_that_was_created_again_is_judged_by_new_metadata(bootstrap: str, filled: TopicPartition) -> None:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="none") as consumer, Admin(bootstrap_servers=bootstrap) as admin:
        old_id = consumer.list_topics()[filled.topic].topic_id
        consumer.assign_range(filled, 0, 10, old_id)
        assert values(consumer.poll(5000)) == list(range(10))
        admin.delete_topics([filled.topic])
        admin.create_topics([NewTopic(filled.topic, 1)])
        with Producer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
            producer.send_many(filled.topic, [b"7", b"8"], partition=0)
        consumer.assign_range(filled, 0, 2, admin.describe_topics([filled.topic])[filled.topic].topic_id)
        assert values(consumer.poll(5000)) == [7, 8]
        consumer.assign_range(filled, 0, 10, old_id)
        with pytest.raises(TopicRecreated):
            consumer.poll(5000)


def test_what_another_assignment_leaves_out_is_not_handed_out(bootstrap: str, filled: TopicPartition) -> None:
    other = TopicPartition(filled.topic, 1)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([filled])
        assert values(consumer.poll(5000, max_records=1)) == [0]
        consumer.assign([other])
        assert consumer.poll(50) == []
        assert consumer.assignment() == {other}
