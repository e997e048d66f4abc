"""The data source as Spark calls it, on a broker of our own and without a JVM: planning, reading, writing, and what counts as lost."""

from __future__ import annotations

import json
import logging
import pickle
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark.without_spark import Topic, ms, values
from tests.spark.without_spark import bootstrap as bootstrap
from tests.spark.without_spark import name as name

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows  # noqa: E402

from interop.waiting import until  # noqa: E402
from odradek.base.errors import ErrorCode, OdradekError  # noqa: E402
from odradek.base.ids import TopicPartition  # noqa: E402
from odradek.client import Admin, Consumer, KafkaError, Producer  # noqa: E402
from odradek.client.core.partitioner import partition_for_key  # noqa: E402
from odradek.spark.batch import BatchReader, RangePartition, read_range  # noqa: E402
from odradek.spark.options import read_options, write_options  # noqa: E402
from odradek.spark.planning import Planner, open_consumer  # noqa: E402
from odradek.spark.ranges import TOPIC_IDS, DataLoss, OffsetRange  # noqa: E402
from odradek.spark.sink import write_rows  # noqa: E402
from odradek.spark.stream import StreamReader  # noqa: E402


def ranges(partitions: object) -> list[OffsetRange]:
    return [each.offset_range for each in partitions]  # type: ignore[attr-defined]


def plain(offset: Any) -> dict[str, Any]:
    """A stream's offset without the ids of its topics."""
    return {topic: partitions for topic, partitions in offset.items() if topic != TOPIC_IDS}


def rows(**columns: object) -> object:
    return pa.RecordBatch.from_pydict(columns)


class TestSink:
    @pytest.mark.parametrize("header", [None, {"key": None, "value": b"1"}])
    def test_a_header_that_is_null_is_said(self, bootstrap: str, name: str, header: object) -> None:
        topic = Topic(bootstrap, name, 1)
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        good, bad = {"key": "h", "value": None}, header
        topic.write(rows(value=pa.array([b"v", b"w"]), headers=pa.array([[good, good], None], kind)))
        with pytest.raises(ValueError, match="A row has a header that is null, or a header with a null key"):
            topic.write(rows(value=pa.array([b"v", b"w"]), headers=pa.array([[good], [good, bad]], kind)))
        assert topic.contents() == {0: [(None, b"v"), (None, b"w")]}

    def test_a_write_that_fails_at_the_end_is_not_reported_as_done(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1, max_message_bytes="1000")
        with pytest.raises(KafkaError) as caught:
            topic.write(rows(value=pa.array([b"x" * 5000], pa.binary())))
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE

    def test_a_write_that_fails_on_the_way_is_not_reported_as_done(self, bootstrap: str, name: str) -> None:
        Topic(bootstrap, name, 1, max_message_bytes="1000")
        small = rows(value=pa.array([b"x"], pa.binary()))

        def batches(other: Producer) -> Iterator[Any]:
            yield rows(value=pa.array([b"x" * 5000], pa.binary()))
            for _ in range(20):
                other.send(name, b"one more answer of the broker").result(30)
                yield small

        with Producer(bootstrap_servers=bootstrap) as other, pytest.raises(KafkaError) as caught:
            write_rows(write_options({"kafka.bootstrap.servers": bootstrap, "topic": name}, streaming=False), batches(other))
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE

    def test_a_batch_of_which_only_a_part_is_too_large_fails(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1, max_message_bytes="1000")
        values = [b"x" * 100] * 20 + [b"x" * 5000]
        with pytest.raises(KafkaError) as caught:
            topic.write(rows(value=pa.array(values, pa.binary())))
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE

    def test_a_batch_that_is_too_large_is_written_in_pieces(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1, max_message_bytes="1000")
        values = [b"%03d" % number * 30 for number in range(60)]
        assert topic.write(rows(value=pa.array(values, pa.binary()))) == 60
        assert [value for _, value in topic.contents()[0]] == values

    def test_the_column_beats_the_key_and_the_key_beats_chance(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 4)
        keys = [b"a", b"b", b"c", None, None]
        batch = rows(
            key=pa.array(keys, pa.binary()),
            value=pa.array([b"0", b"1", b"2", b"3", b"4"], pa.binary()),
            partition=pa.array([3, None, None, 0, None], pa.int32()),
        )
        assert topic.write(batch) == 5
        placed = {value: partition for partition, records in topic.contents().items() for _, value in records}
        assert placed[b"0"] == 3
        assert placed[b"1"] == partition_for_key(b"b", 4)
        assert placed[b"2"] == partition_for_key(b"c", 4)
        assert placed[b"3"] == 0
        assert len(placed) == 5

    def test_the_option_topic_beats_the_column(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1)
        topic.write(rows(value=pa.array(["a"]), topic=pa.array(["no-such-topic"])))
        assert topic.contents() == {0: [(None, b"a")]}

    def test_rows_go_to_the_topic_they_name(self, bootstrap: str, name: str) -> None:
        one, two = Topic(bootstrap, name + "1", 1), Topic(bootstrap, name + "2", 1)
        batch = rows(value=pa.array(["a", "b", "c"]), topic=pa.array([one.name, two.name, one.name]))
        write_rows(write_options({"kafka.bootstrap.servers": bootstrap}, streaming=False), iter([batch]))
        assert [value for _, value in one.contents()[0]] == [b"a", b"c"]
        assert [value for _, value in two.contents()[0]] == [b"b"]

    @pytest.mark.parametrize(
        ("columns", "said"),
        [
            ({"topic": ["orders", None]}, "A row has no topic"),
            ({"partition": [0, 7]}, "has partitions 0 to 1, but a row names partition 7"),
            ({"partition": [0, -1]}, "has partitions 0 to 1, but a row names partition -1"),
        ],
    )
    def test_rows_without_a_place_are_refused(self, bootstrap: str, name: str, columns: dict[str, list[object]], said: str) -> None:
        topic = Topic(bootstrap, name, 2)
        kinds = {"topic": pa.string(), "partition": pa.int32()}
        given = {column: pa.array(content, kinds[column]) for column, content in columns.items()}
        options = {"kafka.bootstrap.servers": bootstrap} | ({} if "topic" in columns else {"topic": topic.name})
        if "topic" in columns:
            given["topic"] = pa.array([topic.name, None])
        with pytest.raises(ValueError, match=said):
            write_rows(write_options(options, streaming=False), iter([rows(value=pa.array(["a", "b"]), **given)]))

    def test_no_batch_is_larger_than_a_request(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1)
        values = [b"x" * 1000] * 50
        assert topic.write(rows(value=pa.array(values, pa.binary())), **{"kafka.max.request.size": "5000"}) == 50
        assert len(topic.contents()[0]) == 50


class TestBatch:
    def test_reads_exactly_its_range(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1)
        topic.fill(0, 100)
        options = read_options(topic.options(), streaming=False)
        assert values(read_range(options, OffsetRange(topic[0], 20, 30))) == list(range(20, 30)), "within one batch of a hundred"

    def test_reads_large_compressed_partitions_to_the_end(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1)
        with Producer(bootstrap_servers=bootstrap, compression_type="zstd", batch_size=400_000, max_request_size=900_000) as producer:
            noise = random.Random(1)
            producer.send_many(name, [b"%07d" % number + noise.randbytes(1000) for number in range(6000)], partition=0)
        options = read_options(topic.options(), streaming=False)
        read = read_range(options, OffsetRange(topic[0], 0, 6000))
        assert [int(value[:7]) for batch in read for value in batch.column("value").to_pylist()] == list(range(6000))

    def test_plans_one_task_for_each_partition_with_something_to_read(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 3)
        topic.fill(0, 5)
        topic.fill(2, 7)
        assert ranges(topic.batch().partitions()) == [OffsetRange(topic[0], 0, 5), OffsetRange(topic[2], 0, 7)]

    def test_reads_from_and_to_the_offsets_given(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 2)
        topic.fill(0, 5)
        topic.fill(1, 5)
        reader = topic.batch(startingOffsets=json.dumps({name: {"0": 1, "1": -2}}), endingOffsets=json.dumps({name: {"0": -1, "1": 3}}))
        assert ranges(reader.partitions()) == [OffsetRange(topic[0], 1, 5), OffsetRange(topic[1], 0, 3)]

    def test_begins_and_ends_at_times(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 2)
        for partition in (0, 1):
            topic.stamp(partition, [1000, 2000, 3000])
        topic.stamp(1, [4000])
        assert ranges(topic.batch(startingTimestamp=ms(1500), endingTimestamp=ms(3000)).partitions()) == [
            OffsetRange(topic[0], 1, 2),
            OffsetRange(topic[1], 1, 2),
        ]
        each = {"startingOffsetsByTimestamp": json.dumps({name: {"0": int(ms(3000)), "1": int(ms(2001))}}), "startingOffsets": "earliest"}
        assert ranges(
            topic.batch(**each, endingOffsetsByTimestamp=json.dumps({name: {"0": int(ms(9999)), "1": int(ms(4000))}})).partitions()
        ) == [
            OffsetRange(topic[0], 2, 3),
            OffsetRange(topic[1], 2, 3),
        ]
        with pytest.raises(ValueError, match=rf"{name}-0 has no offset with a timestamp of {ms(3500)} or later"):
            topic.batch(startingTimestamp=ms(3500)).partitions()
        late = topic.batch(startingTimestamp=ms(3500), startingOffsetsByTimestampStrategy="latest")
        assert ranges(late.partitions()) == [OffsetRange(topic[1], 3, 4)]
        with pytest.raises(ValueError, match=f"exactly the partitions that are read: it omits {name}-1"):
            topic.batch(startingOffsetsByTimestamp=json.dumps({name: {"0": 5}})).partitions()

    def test_a_pattern_is_found_in_names_and_not_in_kafkas_own(self, bootstrap: str, name: str) -> None:
        first, second, third = (Topic(bootstrap, f"{name}{suffix}", 1) for suffix in ("-a", "-b", "-c"))
        for each in (first, second, third):
            each.fill(0, 1)
        options = {"kafka.bootstrap.servers": bootstrap, "subscribePattern": f" {name[1:]}-[ab]|__consumer "}
        with Consumer(bootstrap_servers=bootstrap, group_id=name) as consumer:
            consumer.commit({first[0]: 1})  # which makes a topic of Kafka's own
        assert ranges(BatchReader(read_options(options, streaming=False)).partitions()) == [
            OffsetRange(first[0], 0, 1),
            OffsetRange(second[0], 0, 1),
        ]

    @pytest.mark.parametrize(("option", "value"), [("subscribe", "{}"), ("assign", '{{"{}":[0]}}'), ("assign", '{{"{}":[1]}}')])
    def test_what_does_not_exist_is_said(self, bootstrap: str, name: str, option: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """As often as the option says, and not until the time of a request is over."""
        if "[1]" in value:
            Topic(bootstrap, name, 1)
        settings = {"kafka.bootstrap.servers": bootstrap, option: value.format(name), "fetchOffset.retryIntervalMs": "0"}
        asked: list[Any] = []
        ask = Admin.try_describe_topics
        monkeypatch.setattr(Admin, "try_describe_topics", lambda admin, names: (asked.append(names), ask(admin, names))[1])
        with pytest.raises(KafkaError, match=name) as caught:
            BatchReader(read_options(settings, streaming=False)).partitions()
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert len(asked) == (1 if "[1]" in value else 3)

    def test_large_ranges_are_divided_among_tasks(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 2)
        topic.fill(0, 90)
        topic.fill(1, 10)
        reader = topic.batch(minPartitions="4")
        tasks = reader.partitions()
        assert ranges(tasks) == [*(OffsetRange(topic[0], start, start + 30) for start in (0, 30, 60)), OffsetRange(topic[1], 0, 10)]
        assert [values(reader.read(task)) for task in tasks] == [
            list(range(30)),
            list(range(30, 60)),
            list(range(60, 90)),
            list(range(10)),
        ]
        assert [each.end - each.start for each in ranges(topic.batch(maxRecordsPerPartition="50").partitions())] == [45, 45, 10]

    def test_silence_where_there_must_be_something_is_an_error(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1)
        reader = topic.batch(**{"kafkaConsumer.pollTimeoutMs": "50"})
        with pytest.raises(KafkaError, match="no data from offset 0 on within 50 ms"):
            list(reader.read(RangePartition(OffsetRange(topic[0], 0, 5))))

    @pytest.mark.parametrize(("retries", "asked"), [("1", 1), ("3", 3)])
    def test_offsets_are_asked_for_as_often_as_the_option_says(
        self, bootstrap: str, name: str, retries: str, asked: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        attempts: list[int] = []

        def failing(*_: object) -> dict[TopicPartition, int]:
            attempts.append(1)
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)

        monkeypatch.setattr(Consumer, "end_offsets", failing)
        topic = Topic(bootstrap, name, 1)
        with pytest.raises(KafkaError):
            topic.batch(**{"fetchOffset.numRetries": retries, "fetchOffset.retryIntervalMs": "1"}).partitions()
        assert len(attempts) == asked

    def test_what_is_gone_when_the_query_is_planned(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1)
        topic.fill(0, 10)
        topic.delete_before(0, 4)
        offsets = json.dumps({name: {"0": 2}})
        with pytest.raises(DataLoss, match="offsets 2 to 3 are no longer in the log"):
            topic.batch(startingOffsets=offsets).partitions()
        reader = topic.batch(startingOffsets=offsets, failOnDataLoss="false")
        assert ranges(reader.partitions()) == [OffsetRange(topic[0], 4, 10)]

    def test_what_goes_while_it_is_read(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1)
        topic.fill(0, 10)
        [task] = topic.batch().partitions()
        topic.delete_before(0, 4)
        with pytest.raises(DataLoss, match="offset 0 disappeared while it was read"):
            list(topic.batch().read(task))
        assert values(topic.batch(failOnDataLoss="false").read(task)) == [4, 5, 6, 7, 8, 9]
        topic.delete_before(0, -1)
        assert values(topic.batch(failOnDataLoss="false").read(task)) == []

    def test_headers_are_null_where_there_are_none(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1)
        with Producer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
            producer.send(name, b"0", partition=0)
            producer.send(name, b"1", partition=0, headers={"h": b"x"})
            producer.send(name, b"2", partition=0, headers={"h": None})
        options = read_options(topic.options(includeHeaders="true"), streaming=False)
        [batch] = read_range(options, OffsetRange(topic[0], 0, 3))
        assert batch.column("headers").to_pylist() == [None, [{"key": "h", "value": b"x"}], [{"key": "h", "value": None}]]

    def test_a_task_of_an_empty_plan_reads_nothing(self, bootstrap: str, name: str) -> None:
        assert list(Topic(bootstrap, name, 1).batch().read(object())) == []  # type: ignore[arg-type]

    def test_a_topic_that_does_not_exist_is_not_created(self, bootstrap: str, name: str) -> None:
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": name, "kafka.default.api.timeout.ms": "500"}
        with pytest.raises(KafkaError) as caught:
            BatchReader(read_options(options, streaming=False)).partitions()
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_aborted_transactions_are_not_read(bootstrap: str, name: str) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    topic = Topic(bootstrap, name, 1)
    producer = confluent.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions()
    for value, commit in ((b"0", True), (b"1", False), (b"2", True)):
        producer.begin_transaction()
        producer.produce(name, value, partition=0)
        producer.flush()
        producer.commit_transaction() if commit else producer.abort_transaction()
    for isolation, seen in (("read_committed", [0, 2]), ("read_uncommitted", [0, 1, 2])):
        reader = topic.batch(**{"kafka.isolation.level": isolation})
        assert [value for task in reader.partitions() for value in values(reader.read(task))] == seen


def test_what_is_committed_in_a_later_step_is_read(bootstrap: str, name: str) -> None:
    # Compressed fetches are decoded in steps of some megabytes: an aborted transaction that ends in one is over in those that follow.
    confluent = pytest.importorskip("confluent_kafka")
    topic = Topic(bootstrap, name, 1)
    producer = confluent.Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "compression.type": "lz4"})
    producer.init_transactions()
    noise = random.Random(1)
    for number in range(8):
        producer.begin_transaction()
        producer.produce(name, b"%d" % number + b"=" + noise.randbytes(700_000) + bytes(100_000), partition=0)
        producer.flush()
        producer.commit_transaction() if number % 2 else producer.abort_transaction()
    reader = topic.batch(**{"kafka.isolation.level": "read_committed"})
    read = [value for task in reader.partitions() for batch in reader.read(task) for value in batch.column("value").to_pylist()]
    assert [value.partition(b"=")[0] for value in read] == [b"1", b"3", b"5", b"7"]


class TestStream:
    def test_begins_by_the_option_and_goes_on_from_there(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 2)
        topic.fill(0, 5)
        assert plain(topic.stream().initialOffset()) == {name: {"0": 5, "1": 0}}, "latest"
        stream = topic.stream(startingOffsets="earliest")
        start = stream.initialOffset()
        assert plain(start) == {name: {"0": 0, "1": 0}}
        end = stream.latestOffset(start, ReadAllAvailable())
        assert plain(end) == {name: {"0": 5, "1": 0}}
        assert ranges(stream.partitions(start, end)) == [OffsetRange(topic[0], 0, 5)]
        assert stream.partitions(end, end) == []
        stream.stop()

    def test_a_limit_cuts_the_micro_batch(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1)
        topic.fill(0, 10)
        stream = topic.stream(startingOffsets="earliest", maxOffsetsPerTrigger="4")
        limit = stream.getDefaultReadLimit()
        assert isinstance(limit, ReadMaxRows)
        assert plain(stream.latestOffset({name: {"0": 0}}, limit)) == {name: {"0": 4}}
        assert plain(stream.latestOffset({name: {"0": 8}}, limit)) == {name: {"0": 10}}
        assert plain(stream.reportLatestOffset()) == {name: {"0": 10}}
        assert isinstance(topic.stream().getDefaultReadLimit(), ReadAllAvailable)
        stream.stop()

    def test_small_micro_batches_wait_until_the_delay_is_over(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1)
        now = 0.0
        options = topic.options(startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="60s", maxOffsetsPerTrigger="12")
        stream = StreamReader(read_options(options, streaming=True), clock=lambda: now)
        limit = stream.getDefaultReadLimit()
        start = stream.initialOffset()
        topic.fill(0, 4)
        assert plain(stream.latestOffset(start, limit)) == {name: {"0": 4}}, "the first one comes at once, as in the connector"
        topic.fill(0, 9)
        now = 59.0
        assert plain(stream.latestOffset({name: {"0": 4}}, limit)) == {name: {"0": 4}}
        topic.fill(0, 1)
        assert plain(stream.latestOffset({name: {"0": 4}}, limit)) == {name: {"0": 14}}, "there are enough"
        topic.fill(0, 30)
        assert plain(stream.latestOffset({name: {"0": 14}}, limit)) == {name: {"0": 26}}, "and never too many"
        topic.delete_before(0, 0)
        now = 100.0
        assert plain(stream.latestOffset({name: {"0": 40}}, limit)) == {name: {"0": 40}}
        now = 120.0
        assert plain(stream.latestOffset({name: {"0": 40}}, limit)) == {name: {"0": 44}}, "the delay is over"
        stream.prepareForTriggerAvailableNow()
        assert plain(stream.latestOffset({name: {"0": 42}}, limit)) == {name: {"0": 44}}, "it has to end"
        stream.stop()

    def test_what_is_new_counts_from_its_beginning_when_there_must_be_enough(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1)
        stream = topic.stream(minOffsetsPerTrigger="5", **{"kafka.metadata.max.age.ms": "50"})
        start = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
        topic.add_partitions(2)
        topic.fill(1, 5)
        until(lambda: plain(stream.latestOffset(start, ReadAllAvailable())) == {name: {"0": 0, "1": 5}}, "the new partition to be seen", 30)
        stream.stop()

    def test_finished_micro_batches_are_committed_to_the_group(self, bootstrap: str, name: str, caplog: pytest.LogCaptureFixture) -> None:
        topic = Topic(bootstrap, name, 1)
        topic.fill(0, 5)
        stream = topic.stream(commitOffsets="true", **{"kafka.group.id": name})
        quiet = topic.stream(**{"kafka.group.id": name})
        with Consumer(bootstrap_servers=bootstrap, group_id=name) as consumer:
            quiet.commit({name: {"0": 2}})
            assert consumer.committed([topic[0]])[topic[0]] is None
            stream.commit({name: {"0": 3}})
            committed = consumer.committed([topic[0]])[topic[0]]
            assert committed is not None
            assert committed.offset == 3
            consumer.subscribe([name])
            consumer.poll(1000)
            with caplog.at_level(logging.WARNING):
                stream.commit({name: {"0": 4}})
            assert f"could not be committed for group {name}" in caplog.text, "a member is there, and the query goes on"
        stream.stop()

    def test_available_now_does_not_see_what_comes_later(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1)
        topic.fill(0, 5)
        stream = topic.stream(startingOffsets="earliest")
        stream.prepareForTriggerAvailableNow()
        topic.fill(0, 5)
        assert plain(stream.latestOffset({name: {"0": 0}}, ReadAllAvailable())) == {name: {"0": 5}}
        stream.stop()

    def test_new_partitions_are_read_from_their_beginning(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1)
        topic.add_partitions(2)
        topic.fill(1, 6)
        stream = topic.stream(startingOffsets="earliest")
        end = stream.latestOffset({name: {"0": 0}}, ReadMaxRows(100))
        assert plain(end) == {name: {"0": 0, "1": 6}}
        assert plain(stream.latestOffset({name: {"0": 0}}, ReadMaxRows(4))) == {name: {"0": 0, "1": 4}}
        assert ranges(stream.partitions({name: {"0": 0}}, end)) == [OffsetRange(topic[1], 0, 6)]
        topic.delete_before(1, 2)
        with pytest.raises(DataLoss, match="its first offset is 2 instead of 0"):
            stream.partitions({name: {"0": 0}}, end)
        stream.stop()

    def test_partitions_that_come_later_are_found_at_once(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1)
        stream = topic.stream()
        assert plain(stream.latestOffset({name: {"0": 0}}, ReadAllAvailable())) == {name: {"0": 0}}
        topic.add_partitions(2)
        assert plain(stream.latestOffset({name: {"0": 0}}, ReadAllAvailable())) == {name: {"0": 0, "1": 0}}
        stream.stop()

    def test_a_shorter_log_of_a_checkpoint_without_ids_is_data_loss(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1)
        topic.fill(0, 3)
        stream = topic.stream()
        with pytest.raises(DataLoss, match="ends at offset 3, but the query has already read up to 9"):
            stream.latestOffset({name: {"0": 9}}, ReadAllAvailable())
        with pytest.raises(DataLoss, match=f"{name}-1 no longer exists"):
            stream.latestOffset({name: {"0": 0, "1": 4}}, ReadAllAvailable())
        stream.stop()

    @pytest.mark.parametrize("limit", [ReadAllAvailable(), ReadMaxRows(2)])
    def test_what_comes_into_a_shorter_log_is_read_where_loss_is_no_failure(self, bootstrap: str, name: str, limit: Any) -> None:
        topic = Topic(bootstrap, name, 1)
        topic.fill(0, 3)
        stream = topic.stream(failOnDataLoss="false", **{"fetchOffset.retryIntervalMs": "0"})
        end = stream.latestOffset({name: {"0": 9}}, limit)
        assert plain(end) == {name: {"0": 3}}
        assert ranges(stream.partitions({name: {"0": 9}}, end)) == []
        topic.fill(0, 2)
        later = stream.latestOffset(end, limit)
        assert ranges(stream.partitions(end, later)) == [OffsetRange(topic[0], 3, 5)]
        stream.stop()

    def test_a_leader_that_does_not_know_all_yet_is_asked_again(self, bootstrap: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        topic = Topic(bootstrap, name, 1)
        answers = iter([7, 8, 9])
        monkeypatch.setattr(Consumer, "end_offsets", lambda *_: {topic[0]: next(answers)})
        stream = topic.stream(**{"fetchOffset.retryIntervalMs": "0"})
        assert plain(stream.latestOffset({name: {"0": 9}}, ReadAllAvailable())) == {name: {"0": 9}}
        assert next(answers, None) is None
        stream.stop()

    def test_the_copy_for_the_tasks_has_no_connection(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1)
        topic.fill(0, 3)
        stream = topic.stream(startingOffsets="earliest")
        stream.initialOffset()
        copy = pickle.loads(pickle.dumps(stream))
        assert values(copy.read(RangePartition(OffsetRange(topic[0], 1, 3)))) == [1, 2]
        stream.stop()
        stream.stop()
        assert plain(stream.initialOffset()) == {name: {"0": 0}}, "and it connects again when it is asked again"
        stream.stop()

    def test_a_stopped_query_closes_its_connections(self, bootstrap: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        opened: list[Consumer] = []

        def remember(*arguments: Any, **more: Any) -> Consumer:
            opened.append(open_consumer(*arguments, **more))
            return opened[-1]

        monkeypatch.setattr("odradek.spark.planning.open_consumer", remember)
        topic = Topic(bootstrap, name, 1)
        stream = topic.stream()
        stream.initialOffset()
        stream.stop()
        [consumer] = opened
        with pytest.raises(OdradekError, match="closed"):
            consumer.end_offsets([topic[0]])


def described(stream: StreamReader, start: Any, end: Any) -> list[int]:
    """What a micro-batch reads, planned and read as after a way through Spark's checkpoint."""
    tasks = stream.partitions(json.loads(json.dumps(start)), json.loads(json.dumps(end)))
    return [value for task in tasks for value in values(stream.read(task))]


class TestTopicsThatGo:
    """A stream knows topics by their ids: in its checkpoint stands which topic its offsets are of."""

    @pytest.fixture
    def pair(self, bootstrap: str, name: str) -> tuple[Topic, Topic]:
        stays, goes = Topic(bootstrap, f"{name}-a", 1), Topic(bootstrap, f"{name}-b", 2)
        stays.fill(0, 3)
        goes.fill(0, 5)
        return stays, goes

    def streams(self, pair: tuple[Topic, Topic], selection: str = "subscribe", **more: str) -> tuple[StreamReader, StreamReader]:
        """One for which loss is no failure, and one for which it is."""
        stays, goes = pair
        selected = {
            "subscribe": f"{stays.name},{goes.name}",
            "subscribePattern": f"^{stays.name[:-1]}[ab]$",
            "assign": json.dumps({stays.name: [0], goes.name: [0, 1]}),
        }[selection]
        settings = {
            "kafka.bootstrap.servers": stays.bootstrap,
            selection: selected,
            "startingOffsets": "earliest",
            "fetchOffset.retryIntervalMs": "0",
            **more,
        }
        lenient, strict = (StreamReader(read_options({**settings, "failOnDataLoss": fails}, streaming=True)) for fails in ("false", "true"))
        return lenient, strict

    @pytest.mark.parametrize("selection", ["subscribe", "subscribePattern", "assign"])
    def test_a_topic_that_is_deleted_ends_a_stream_only_where_loss_is_a_failure(self, pair: tuple[Topic, Topic], selection: str) -> None:
        stays, goes = pair
        lenient, strict = self.streams(pair, selection)
        start = lenient.initialOffset()
        end = lenient.latestOffset(start, ReadAllAvailable())
        goes.delete()
        assert described(lenient, start, end) == [0, 1, 2], "a micro-batch that was planned before, as after each restart"
        with pytest.raises(DataLoss, match=f"{goes.name}-0 no longer exist"):
            strict.partitions(start, end)
        stays.fill(0, 2)
        later = lenient.latestOffset(end, ReadAllAvailable())
        assert described(lenient, end, later) == [0, 1]
        assert lenient.latestOffset(later, ReadMaxRows(10)) == later
        with pytest.raises(DataLoss, match=f"{goes.name}-0, {goes.name}-1 no longer exist"):
            strict.latestOffset(end, ReadAllAvailable())
        Topic(goes.bootstrap, goes.name, 2).fill(0, 4)
        back = lenient.latestOffset(later, ReadAllAvailable())
        assert described(lenient, later, back) == [0, 1, 2, 3], "from the beginning of the new one"
        lenient.stop()
        strict.stop()

    @pytest.mark.parametrize("limit", [ReadAllAvailable(), ReadMaxRows(100)])
    @pytest.mark.parametrize("count", [2, 5, 9])
    def test_a_topic_made_again_is_known_by_its_id(self, pair: tuple[Topic, Topic], limit: Any, count: int) -> None:
        """Whether it has fewer records than were read, as many, or more."""
        _, goes = pair
        lenient, strict = self.streams(pair)
        start = lenient.initialOffset()
        end = lenient.latestOffset(start, limit)
        goes.delete()
        again = Topic(goes.bootstrap, goes.name, 1)
        again.fill(0, count)
        said = f"topic {goes.name} was deleted and created again: its id was .{{22}}, and now is .{{22}}"
        for ask in (lambda: strict.latestOffset(end, limit), lambda: strict.partitions(start, end)):
            with pytest.raises(DataLoss, match=said):
                ask()
        assert described(lenient, start, end) == [0, 1, 2], "no record of the new topic at offsets of the old one"
        later = lenient.latestOffset(end, limit)
        assert described(lenient, end, later) == list(range(count))
        again.fill(0, 1)
        last = lenient.latestOffset(later, limit)
        assert described(lenient, later, last) == [0]
        assert described(strict, later, last) == [0], "what the checkpoint has now is no loss"
        lenient.stop()
        strict.stop()

    def test_a_limit_and_a_least_count_from_the_beginning_of_the_new_topic(self, pair: tuple[Topic, Topic]) -> None:
        _, goes = pair
        lenient, _ = self.streams(pair, minOffsetsPerTrigger="4", maxOffsetsPerTrigger="4")
        start = lenient.latestOffset(lenient.latestOffset(lenient.initialOffset(), ReadAllAvailable()), ReadAllAvailable())
        goes.delete()
        again = Topic(goes.bootstrap, goes.name, 1)
        again.fill(0, 3)
        assert lenient.latestOffset(start, ReadMaxRows(4)) == start, "too few"
        again.fill(0, 3)
        end = lenient.latestOffset(start, ReadMaxRows(4))
        assert described(lenient, start, end) == [0, 1, 2, 0]
        lenient.stop()

    def test_offsets_without_ids_are_read_and_get_them(self, pair: tuple[Topic, Topic]) -> None:
        """Of the connector, or of a release that did not know ids."""
        stays, goes = pair
        _, strict = self.streams(pair)
        old = {stays.name: {"0": 1}, goes.name: {"0": 5, "1": 0}}
        end = strict.latestOffset(old, ReadAllAvailable())
        assert set(end[TOPIC_IDS]) == {stays.name, goes.name}
        assert described(strict, old, end) == [1, 2]
        assert described(strict, {**end, TOPIC_IDS: {}}, end) == []
        strict.stop()

    def test_a_topic_that_only_seemed_to_be_gone_is_not_read_twice(
        self, pair: tuple[Topic, Topic], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A broker that has just started may not know all topics for a moment."""
        stays, _ = pair
        lenient, _ = self.streams(pair, **{"fetchOffset.numRetries": "1"})
        end = lenient.latestOffset(lenient.initialOffset(), ReadAllAvailable())
        ask = Admin.try_describe_topics

        def forgetful(admin: Admin, names: Any, **more: Any) -> Any:
            return {
                name: each if name == stays.name else KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                for name, each in ask(admin, names, **more).items()
            }

        with monkeypatch.context() as patched:
            patched.setattr(Admin, "try_describe_topics", forgetful)
            during = lenient.latestOffset(end, ReadAllAvailable())
        assert during == end
        assert lenient.latestOffset(during, ReadAllAvailable()) == end
        lenient.stop()

    def test_a_topic_that_never_was_there_is_said(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1)
        stream = StreamReader(
            read_options({**topic.options(), "subscribe": f"{name},{name}-not", "fetchOffset.retryIntervalMs": "0"}, streaming=True)
        )
        for ask in (stream.initialOffset, lambda: stream.latestOffset({name: {"0": 0}}, ReadAllAvailable())):
            with pytest.raises(KafkaError, match=f"{name}-not") as caught:
                ask()
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        stream.stop()

    def test_offsets_of_what_is_gone_are_not_committed(
        self, pair: tuple[Topic, Topic], name: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        stays, goes = pair
        lenient, _ = self.streams(pair, commitOffsets="true", **{"kafka.group.id": name})
        end = lenient.latestOffset(lenient.initialOffset(), ReadAllAvailable())
        goes.delete()
        end = lenient.latestOffset(end, ReadAllAvailable())
        lenient.commit(end)
        assert "could not be committed" not in caplog.text
        with Consumer(bootstrap_servers=stays.bootstrap, group_id=name) as consumer:
            found = consumer.committed([stays[0]])[stays[0]]
            assert found is not None
            assert found.offset == 3
        lenient.stop()

    @pytest.mark.parametrize("limit", [ReadAllAvailable(), ReadMaxRows(100)])
    def test_a_topic_that_goes_between_a_look_at_topics_and_one_at_offsets(
        self, pair: tuple[Topic, Topic], limit: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Offsets of a partition that was deleted are not waited for until every time limit is over."""
        stays, goes = pair
        lenient, strict = self.streams(pair, **{"kafka.default.api.timeout.ms": "500", "fetchOffset.numRetries": "20"})
        old = {stays.name: {"0": 0}}
        look = Planner.of_topics

        def then_goes(planner: Planner, names: Any) -> Any:
            found = look(planner, names)
            if any(each.topic == goes.name for each in found.partitions):
                goes.delete()
            return found

        monkeypatch.setattr(Planner, "of_topics", then_goes)
        for _ in range(2):
            end = lenient.latestOffset(old, limit)
            assert plain(end) == {stays.name: {"0": 3}}
            Topic(goes.bootstrap, goes.name, 1).fill(0, 2)
            assert described(lenient, old, {**end, goes.name: {"0": 2}}) == [0, 1, 2], "when a micro-batch is planned"
            Topic(goes.bootstrap, goes.name, 1).fill(0, 2)
            with pytest.raises(DataLoss, match=f"{goes.name}-0 no longer exists"):
                strict.partitions(old, {**end, goes.name: {"0": 2}})
            Topic(goes.bootstrap, goes.name, 1).fill(0, 2)
            with pytest.raises(DataLoss, match=f"{goes.name}-0 no longer exists"):
                strict.latestOffset({**old, goes.name: {"0": 1}}, limit)
            Topic(goes.bootstrap, goes.name, 1).fill(0, 2)
        with pytest.raises(KafkaError, match=f"{goes.name}-0 no longer exist") as caught:
            strict.initialOffset()
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        lenient.stop()
        strict.stop()

    @pytest.mark.parametrize("knows_the_old_one", [False, True])
    def test_a_task_reads_no_records_of_a_topic_that_was_made_again(self, pair: tuple[Topic, Topic], *, knows_the_old_one: bool) -> None:
        """After its micro-batch was planned, by clients of a worker that have read the old topic, or have not."""
        _, goes = pair
        lenient, strict = self.streams(pair)
        start = lenient.initialOffset()
        end = lenient.latestOffset(start, ReadAllAvailable())
        (task,) = [each for each in lenient.partitions(start, end) if ranges([each])[0].topic_partition == goes[0]]
        if knows_the_old_one:
            for each in (lenient, strict):
                assert values(each.read(task)) == [0, 1, 2, 3, 4]
        goes.delete()
        Topic(goes.bootstrap, goes.name, 1).fill(0, 9)
        said = f"topic {goes.name} was deleted and created again: {goes.name}-0 was read up to offset 0 of 5"
        for _ in range(2):
            assert values(lenient.read(task)) == []
            with pytest.raises(DataLoss, match=said):
                list(strict.read(task))
        later = lenient.latestOffset(end, ReadAllAvailable())
        assert described(lenient, end, later) == list(range(9)), "tasks of the new topic"
        lenient.stop()
        strict.stop()

    @pytest.mark.parametrize("fails", [False, True])
    def test_a_client_that_has_read_the_old_topic_reads_the_new_one(self, pair: tuple[Topic, Topic], *, fails: bool) -> None:
        _, goes = pair
        lenient, strict = self.streams(pair)
        reader = strict if fails else lenient
        start = lenient.initialOffset()
        end = lenient.latestOffset(start, ReadAllAvailable())
        (task,) = [each for each in lenient.partitions(start, end) if ranges([each])[0].topic_partition == goes[0]]
        assert values(reader.read(task)) == [0, 1, 2, 3, 4]
        goes.delete()
        Topic(goes.bootstrap, goes.name, 1).fill(0, 9)
        later = lenient.latestOffset(end, ReadAllAvailable())
        (task,) = lenient.partitions(end, later)
        assert values(reader.read(task)) == list(range(9))
        lenient.stop()
        strict.stop()

    def test_a_batch_query_reads_no_records_of_a_topic_that_was_made_again(self, bootstrap: str, name: str) -> None:
        topic = Topic(bootstrap, name, 1)
        topic.fill(0, 5)
        reader = topic.batch()
        (task,) = reader.partitions()
        topic.delete()
        Topic(bootstrap, name, 1).fill(0, 9)
        with pytest.raises(DataLoss, match=f"topic {name} was deleted and created again"):
            list(reader.read(task))

    def test_a_topic_that_goes_while_it_is_read(self, pair: tuple[Topic, Topic]) -> None:
        _, goes = pair
        task = RangePartition(OffsetRange(goes[0], 0, 5))
        lenient, strict = self.streams(pair, **{"kafkaConsumer.pollTimeoutMs": "100"})
        goes.delete()
        assert values(lenient.read(task)) == []
        with pytest.raises(DataLoss, match=f"{goes.name}-0 no longer exists: {goes.name}-0 was read up to offset 0 of 5"):
            list(strict.read(task))
