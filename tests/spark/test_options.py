"""Options are the connector's, and none is accepted and ignored; offsets are shared and checked as the connector does."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.errors import ConfigError
from odradek.base.ids import TopicPartition
from odradek.spark.environment import major_version
from odradek.spark.option_keys import EARLIEST, LATEST
from odradek.spark.options import ReadOptions, TimeSpec, log_options, read_options, write_options
from odradek.spark.ranges import (
    DataLoss,
    OffsetRange,
    divided,
    from_stream_offset,
    ids_of,
    in_order,
    limited,
    made_again,
    resolve,
    to_stream_offset,
    within_log,
)

BASE = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
NOWHERE = {"kafka.bootstrap.servers": "h:1"}
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_defaults_are_those_of_the_connector() -> None:
    batch, stream = read_options(BASE, streaming=False), read_options(BASE, streaming=True)
    assert (batch.starting, batch.ending, batch.fail_on_data_loss, batch.include_headers) == (EARLIEST, LATEST, True, False)
    assert stream.starting == LATEST


def test_a_secret_stays_a_reference_until_a_client_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_TEST_SECRET", "hunter2")
    provider = {
        "kafka.config.providers": "env",
        "kafka.config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "kafka.sasl.password": "${env:ODRADEK_TEST_SECRET}",
    }
    options = read_options({**BASE, **provider}, streaming=True)
    assert options.client["sasl.password"] == "${env:ODRADEK_TEST_SECRET}"
    assert "hunter2" not in repr(options)
    with pytest.raises(ConfigError, match=r"config.providers names Env, but config.providers.Env.class is missing"):
        read_options({**BASE, **provider, "kafka.config.providers": "Env"}, streaming=True)


ANYWHERE = {"subscribe": "t", "startingOffsets": "earliest", "failOnDataLoss": "false", "includeHeaders": "true", "minPartitions": "2"}
"""Options of every read, with values; the others by the kinds of query that have them."""
OF_TOPICS = {
    "startingTimestamp": "5",
    "startingOffsetsByTimestamp": '{"t":{"0":5}}',
    "startingOffsetsByTimestampStrategy": "latest",
    "kafkaConsumer.pollTimeoutMs": "5",
    "fetchOffset.numRetries": "5",
    "fetchOffset.retryIntervalMs": "0",
    "groupIdPrefix": "g",
}
OF_BATCHES = {"endingTimestamp": "5", "endingOffsetsByTimestamp": '{"t":{"0":5}}', "pushFilters": "true"}
OF_STREAMS = {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "5", "maxTriggerDelay": "5s"}
OF_LOGS = {"isolationLevel": "read_uncommitted", "beyondHighWatermark": "true"}
ENDS = {"endingOffsets": "latest"}
WRITTEN = {"topic": "t", "exactlyOnce": "false"}


def test_each_kind_of_query_has_its_options() -> None:
    everything = {**ANYWHERE, "maxRecordsPerPartition": "5"}
    read_options({**BASE, **everything, **OF_TOPICS, **OF_BATCHES, **ENDS}, streaming=False)
    read_options({**BASE, **everything, **OF_TOPICS, **OF_STREAMS}, streaming=True)
    log_options({"path": "/logs", **everything, **ENDS, **OF_LOGS})
    write_options({**NOWHERE, **WRITTEN, "includeHeaders": "true"}, streaming=False)


@pytest.mark.parametrize("name", [*OF_TOPICS, *OF_BATCHES, *OF_STREAMS, "commitOffsets", *WRITTEN])
def test_logs_have_no_options_of_other_queries(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^Unknown option {name.lower()}; the options .* are assign, subscribe, "):
        log_options({"path": "/logs", name: "x"})


@pytest.mark.parametrize("name", WRITTEN)
def test_reads_have_no_options_of_writes(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^Option {name} has no effect when reading$"):
        read_options({**BASE, name: "x"}, streaming=False)


@pytest.mark.parametrize("name", [*sorted(ANYWHERE.keys() - {"includeHeaders"}), *OF_TOPICS, *OF_BATCHES, *OF_STREAMS])
def test_writes_have_no_options_of_reads(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^Option {name} has no effect when writing$"):
        write_options({**NOWHERE, name: "x"}, streaming=True)


@pytest.mark.parametrize("name", OF_LOGS)
def test_topics_have_no_options_of_logs(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^Unknown option {name.lower()}; "):
        read_options({**BASE, name: "x"}, streaming=False)


def test_names_ignore_case() -> None:
    options = read_options({**BASE, "STARTINGOFFSETS": '{"t":{"0":5,"1":-2}}', "failondataloss": "FALSE"}, streaming=False)
    assert options.starting == {A: 5, B: EARLIEST}
    assert not options.fail_on_data_loss


def test_a_topic_that_is_named_twice_is_read_once() -> None:
    assert read_options({**BASE, "subscribe": "t, u,t,"}, streaming=False).subscribe == ("t", "u")
    assigned = {name: value for name, value in BASE.items() if name != "subscribe"} | {"assign": '{"t":[1,0,1]}'}
    assert read_options(assigned, streaming=False).assign == (A, B)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "t"}, "kafka.bootstrap.servers"),
        ({"kafka.bootstrap.servers": "h:1"}, "Exactly one of"),
        ({**BASE, "assign": '{"t":[0]}'}, "Exactly one of"),
        ({**BASE, "sbuscribe": "t"}, "Unknown option sbuscribe"),
        ({**BASE, "kafka.auto.offset.reset": "latest"}, "startingOffsets instead"),
        ({**BASE, "kafka.no.such.key": "1"}, "no.such.key"),
        ({**BASE, "startingOffsets": "latest"}, "cannot start at latest"),
        ({**BASE, "endingOffsets": "earliest"}, "cannot end at earliest"),
        ({**BASE, "startingOffsets": '{"t":[1]}'}, "startingOffsets must be"),
        ({**BASE, "maxOffsetsPerTrigger": "5"}, "is only for streams"),
        ({**BASE, "topic": "t"}, "no effect when reading"),
        ({**BASE, "subscribePattern": "t.*"}, "Exactly one of"),
        ({**NOWHERE, "subscribePattern": "t["}, "subscribePattern is not a regular expression"),
        ({**NOWHERE, "subscribePattern": "^t-[a-c[z]]"}, "it has a set within a set"),
        ({**BASE, "startingOffsets": '{"t":{"0":9223372036854775808}}'}, "startingOffsets must be"),
        ({**BASE, "startingTimestamp": "9223372036854775808"}, "startingTimestamp must be"),
        ({**BASE, "minPartitions": "2147483648"}, "at least 1 and at most 2147483647, not 2147483648"),
        ({**BASE, "minPartitions": " 4 "}, "minPartitions must be a number"),
        ({**BASE, "failOnDataLoss": " true "}, "failOnDataLoss must be true or false"),
        ({**BASE, "startingOffsetsByTimestampStrategy": " latest "}, "must be error or latest"),
        ({**NOWHERE, "subscribePattern": "[a-z&&[^b]]"}, "subscribePattern is not a regular expression of Python: Possible set"),
        ({**NOWHERE, "subscribePattern": " "}, "subscribePattern must not be empty"),
        ({**BASE, "startingTimestamp": "yesterday"}, "startingTimestamp must be milliseconds"),
        ({**BASE, "endingTimestamp": "-1"}, "endingTimestamp must be milliseconds"),
        ({**BASE, "startingOffsetsByTimestamp": '{"t":{"0":-1}}'}, "startingOffsetsByTimestamp must look like"),
        ({**BASE, "startingOffsetsByTimestampStrategy": "first"}, "must be error or latest"),
        ({**BASE, "minOffsetsPerTrigger": "5"}, "is only for streams"),
        ({**BASE, "maxTriggerDelay": "5s"}, "is only for streams"),
        ({**BASE, "commitOffsets": "true"}, "is only for streams"),
        ({**BASE, "minPartitions": "0"}, "minPartitions must be a number of at least 1"),
        ({**BASE, "maxRecordsPerPartition": "x"}, "maxRecordsPerPartition must be"),
        ({**BASE, "kafkaConsumer.pollTimeoutMs": "0"}, "kafkaConsumer.pollTimeoutMs must be"),
        ({**BASE, "fetchOffset.numRetries": "0"}, "fetchOffset.numRetries must be"),
        ({**BASE, "kafka.enable.auto.commit": "true"}, "Spark keeps them in its checkpoint"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_options(options, streaming=False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endingTimestamp": "5"}, "endingTimestamp is only for batch queries"),
        ({"endingOffsetsByTimestamp": "{}"}, "endingOffsetsByTimestamp is only for batch queries"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, r"minOffsetsPerTrigger \(5\) is more than maxOffsetsPerTrigger \(4\)"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay must be a duration such as 15m"),
        ({"maxTriggerDelay": "1 min"}, "maxTriggerDelay must be a duration such as 15m"),
        ({"commitOffsets": "true"}, "commitOffsets needs the option kafka.group.id"),
    ],
)
def test_what_is_wrong_with_a_stream_is_said(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_options({**BASE, **options}, streaming=True)


def _batch(**options: str) -> ReadOptions:
    return read_options({**BASE, **options}, streaming=False)


def test_a_time_for_all_goes_before_times_and_these_before_offsets() -> None:
    each = {"startingOffsetsByTimestamp": '{"t":{"0":7}}', "startingOffsets": "earliest"}
    assert _batch(**each).starting == TimeSpec({A: 7}, latest_when_none=False)
    assert _batch(**each, startingTimestamp="9").starting == TimeSpec(9, latest_when_none=False)
    assert _batch(**each, startingOffsetsByTimestampStrategy="LATEST").starting == TimeSpec({A: 7}, latest_when_none=True)
    assert _batch(endingTimestamp="9").ending == TimeSpec(9, latest_when_none=True), "an end has no strategy"
    assert _batch(endingOffsetsByTimestamp='{"t":{"1":8}}', endingOffsets="latest").ending == TimeSpec({B: 8}, latest_when_none=True)


@pytest.mark.parametrize(("text", "ms"), [("15m", 900_000), ("30S", 30_000), ("7", 7), ("2h", 7_200_000), ("500ms", 500)])
def test_delays_are_written_as_spark_writes_times(text: str, ms: int) -> None:
    assert read_options({**BASE, "maxTriggerDelay": text}, streaming=True).max_trigger_delay_ms == ms


def test_the_rest_of_the_defaults_is_the_connectors() -> None:
    options = _batch()
    assert (options.poll_timeout_ms, options.fetch_offset_retries, options.fetch_offset_interval_ms) == (120_000, 3, 1000)
    assert (options.max_trigger_delay_ms, options.min_partitions, options.max_records_per_partition) == (900_000, None, None)
    assert _batch(**{"fetchOffset.retryIntervalMs": "0"}).fetch_offset_interval_ms == 0


def test_a_query_has_a_group_of_its_own_unless_it_is_given_one() -> None:
    first, second = (_batch(groupIdPrefix="spark").client["group.id"] for _ in range(2))
    assert first.startswith("spark-")
    assert first != second
    assert _batch(groupIdPrefix="spark", **{"kafka.group.id": "mine"}).client["group.id"] == "mine"
    assert "group.id" not in _batch().client


@settings(max_examples=200, derandomize=True)
@given(
    st.lists(st.integers(1, 5000), min_size=1, max_size=8),
    st.none() | st.integers(1, 60),
    st.none() | st.integers(1, 700),
)
def test_tasks_cover_every_offset_once(sizes: list[int], fewest: int | None, most: int | None) -> None:
    ranges = [OffsetRange(TopicPartition("t", number), number * 10, number * 10 + size) for number, size in enumerate(sizes)]
    pieces = divided(ranges, fewest, most)
    for number, whole in enumerate(ranges):
        mine = [piece for piece in pieces if piece.topic_partition.partition == number]
        assert [(mine[0].start, mine[-1].end)] == [(whole.start, whole.end)]
        assert all(before.end == after.start for before, after in itertools.pairwise(mine))
        lengths = [piece.end - piece.start for piece in mine]
        assert min(lengths) >= 1
        if most is not None:
            assert max(lengths) <= most
    if most is None and (fewest is None or fewest <= len(sizes)):
        assert pieces == ranges
    if fewest is not None and most is None:  # As with the connector, pieces of `most` may all be too small to be divided again.
        assert len(pieces) >= min(fewest, sum(sizes)) - len(sizes), "nearly as many as were asked for"
        assert len(pieces) <= max(fewest, len(sizes)) + len(sizes)


def test_small_ranges_stay_whole_and_large_ones_are_cut() -> None:
    assert divided([OffsetRange(A, 0, 90), OffsetRange(B, 5, 15)], 4, None) == [
        OffsetRange(A, 0, 30),
        OffsetRange(A, 30, 60),
        OffsetRange(A, 60, 90),
        OffsetRange(B, 5, 15),
    ]


def test_no_task_is_empty_and_none_has_too_much() -> None:
    assert divided([OffsetRange(A, 7, 9)], 5, None) == [OffsetRange(A, 7, 8), OffsetRange(A, 8, 9)]
    assert [each.end - each.start for each in divided([OffsetRange(A, 0, 100), OffsetRange(B, 0, 11)], 13, 10)][-2:] == [5, 6]


def test_writing_takes_topic_and_client_keys() -> None:
    assert write_options({"kafka.bootstrap.servers": "h:1", "topic": " t "}, streaming=False).topic == "t"
    assert write_options({"kafka.bootstrap.servers": "h:1", "topic": "t", "kafka.acks": "1"}, streaming=False).client["acks"] == "1"
    with pytest.raises(ConfigError, match=r"Option kafka.partitioner.class is not supported: the column partition"):
        write_options({"kafka.bootstrap.servers": "h:1", "kafka.partitioner.class": "a.b.C"}, streaming=False)
    with pytest.raises(ConfigError, match="subscribe"):
        write_options(BASE, streaming=False)


_SINK = {"kafka.bootstrap.servers": "h:1", "topic": "t"}
_ONCE = {**_SINK, "exactlyOnce": "true"}


def test_writing_exactly_once_takes_names() -> None:
    stream = write_options({**_ONCE, "txnAppId": "a"}, streaming=True)
    assert (stream.exactly_once, stream.app_id) == (True, "a")
    assert write_options(_ONCE, streaming=True).app_id is None
    batch = write_options({**_ONCE, "txnAppId": "a", "txnVersion": "7"}, streaming=False)
    assert (batch.exactly_once, batch.app_id, batch.version) == (True, "a", 7)
    assert not write_options({**_SINK, "exactlyOnce": "false"}, streaming=True).exactly_once


@pytest.mark.parametrize(
    ("streaming", "given", "said"),
    [
        (False, _ONCE, "exactlyOnce needs the options txnAppId, .* and txnVersion"),
        (False, {**_ONCE, "txnAppId": "a"}, "exactlyOnce needs"),
        (False, {**_ONCE, "txnVersion": "1"}, "exactlyOnce needs"),
        (False, {**_ONCE, "txnAppId": "a", "txnVersion": "-1"}, "txnVersion must be a number of at least 0"),
        (True, {**_ONCE, "txnVersion": "1"}, "txnVersion is only for batches"),
        (True, {**_ONCE, "txnAppId": " "}, "txnAppId must not be empty or contain /"),
        (True, {**_ONCE, "txnAppId": "a/b"}, "txnAppId must not be empty or contain /"),
        (True, {**_ONCE, "exactlyOnce": "yes"}, "exactlyOnce must be true or false"),
        (True, {**_SINK, "txnAppId": "a"}, "txnAppId has an effect only with exactlyOnce"),
        (False, {**_SINK, "txnVersion": "1"}, "txnVersion has an effect only with exactlyOnce"),
        (True, {**_SINK, "kafka.transaction.timeout.ms": "1"}, "kafka.transaction.timeout.ms has an effect only with exactlyOnce"),
        (True, {**_ONCE, "kafka.transactional.id": "x"}, "kafka.transactional.id is not supported"),
        (True, {**_SINK, "kafka.transactional.id": "x"}, "kafka.transactional.id is not supported"),
        (True, {**_ONCE, "kafka.acks": "1"}, "needs acks=all"),
        (
            True,
            {**_ONCE, "kafka.transaction.two.phase.commit.enable": "true", "kafka.transaction.timeout.ms": "5"},
            "transaction.timeout.ms has no effect with",
        ),
    ],
)
def test_names_of_what_writes_exactly_once_are_checked(streaming: bool, given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        write_options(given, streaming=streaming)


def test_offsets_given_for_other_partitions_are_refused() -> None:
    with pytest.raises(ValueError, match="omits t-1"):
        resolve("startingOffsets", {A: 1}, {A: 0, B: 0}, {A: 5, B: 5})
    with pytest.raises(ValueError, match="names t-1, which are not read"):
        resolve("startingOffsets", {A: 1, B: 1}, {A: 0}, {A: 5})
    assert resolve("startingOffsets", {A: -2, B: -1}, {A: 1, B: 0}, {A: 5, B: 6}) == {A: 1, B: 6}


def test_lost_records_are_an_error_or_left_out() -> None:
    wanted = [OffsetRange(A, 3, 9)]
    with pytest.raises(DataLoss, match="no longer in the log"):
        within_log(wanted, {A: 5}, {A: 9}, fail_on_data_loss=True)
    with pytest.raises(DataLoss, match="ends at 7"):
        within_log(wanted, {A: 0}, {A: 7}, fail_on_data_loss=True)
    with pytest.raises(DataLoss, match="ends at 8"):
        within_log(wanted, {A: 0}, {A: 8}, fail_on_data_loss=True)
    assert within_log(wanted, {A: 5}, {A: 7}, fail_on_data_loss=False) == [OffsetRange(A, 5, 7)]
    assert within_log(wanted, {A: 9}, {A: 9}, fail_on_data_loss=False) == []


@settings(max_examples=80, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=8), st.integers(1, 1500))
def test_a_limit_is_shared_fairly_and_never_stalls(sizes: list[tuple[int, int]], limit: int) -> None:
    start = {TopicPartition("t", number): first for number, (first, _) in enumerate(sizes)}
    end = {TopicPartition("t", number): first + size for number, (first, size) in enumerate(sizes)}
    chosen = limited(start, end, limit)
    rows = sum(chosen[partition] - start[partition] for partition in chosen)
    waiting = sum(1 for _, size in sizes if size)
    assert all(start[partition] <= chosen[partition] <= end[partition] for partition in chosen)
    assert rows <= max(limit, waiting) + waiting
    assert rows > 0 or waiting == 0
    if sum(size for _, size in sizes) <= limit:
        assert all(end[partition] - chosen[partition] <= 1 for partition in end)


def test_micro_batches_end_where_the_connectors_do() -> None:
    # 29 / 100 * 100 is less than 29 in floating point.
    assert limited({A: 0, B: 0}, {A: 29, B: 71}, 100) == {A: 28, B: 71}
    assert limited({A: 0, B: 0}, {A: 3, B: 1000}, 100) == {A: 1, B: 99}
    assert limited({A: 5, B: 0}, {A: 4, B: 10, TopicPartition("new", 0): 7}, 4) == {A: 4, B: 4, TopicPartition("new", 0): 7}


def test_pieces_are_the_connectors() -> None:
    assert [each.end - each.start for each in divided([OffsetRange(A, 0, 7)], 5, None)] == [1, 1, 1, 2, 2]
    # 25 of 100 offsets for 10 tasks: two and a half pieces, which count as three.
    pieces = divided([OffsetRange(A, 0, 25), OffsetRange(B, 0, 75)], 10, None)
    assert [each.end - each.start for each in pieces] == [8, 8, 9, 9, 9, 9, 9, 9, 10, 10, 10]


@pytest.mark.parametrize("limit", ["0", "-1", "many"])
def test_a_limit_lets_something_through(limit: str) -> None:
    with pytest.raises(ConfigError, match="maxOffsetsPerTrigger must be a number of at least 1"):
        read_options({**BASE, "maxOffsetsPerTrigger": limit}, streaming=True)


def test_stream_offsets_have_the_connectors_form() -> None:
    assert to_stream_offset({B: 2, A: 1}) == {"t": {"0": 1, "1": 2}}
    assert from_stream_offset({"t": {"0": 1, "1": 2}}) == {A: 1, B: 2}
    assert ids_of({"t": {"0": 1, "1": 2}}) == {}


def test_stream_offsets_have_the_ids_of_their_topics() -> None:
    told = to_stream_offset({B: 2, A: 1}, {"t": "one", "other": "two"})
    assert told == {"t": {"0": 1, "1": 2}, "@topicIds": {"t": "one"}}
    assert list(told) == ["t", "@topicIds"]
    assert from_stream_offset(told) == {A: 1, B: 2}
    assert ids_of(told) == {"t": "one"}
    assert to_stream_offset({A: 1}, {}) == {"t": {"0": 1}}


def test_a_topic_with_another_id_was_made_again() -> None:
    said = made_again({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "9", "d": "4"})
    assert said == {"b": "topic b was deleted and created again: its id was 2, and now is 9"}


@pytest.mark.parametrize(
    ("text", "version"),
    [('openjdk version "17.0.15" 2025', 17), ('java version "1.8.0_392"', 8), ('openjdk version "21-ea"', 21), ("?", 0)],
)
def test_java_versions_are_understood(text: str, version: int) -> None:
    assert major_version(text) == version


@pytest.mark.parametrize("pattern", ["t[ab]u", "[]a]", r"[a\[b]", r"\[a[b]", "(a|b)*[^]c]"])
def test_a_set_is_one_in_python_and_in_java(pattern: str) -> None:
    assert read_options({**NOWHERE, "subscribePattern": f" {pattern} "}, streaming=False).pattern == pattern


def test_numbers_may_have_a_sign() -> None:
    assert _batch(minPartitions="+4").min_partitions == 4
    assert _batch(startingTimestamp=" +4 ").starting == TimeSpec(4, False)


def test_a_batch_does_not_begin_behind_its_end() -> None:
    in_order({A: 5, B: 7}, {A: 5, B: 8})
    with pytest.raises(ValueError, match="t-1: the starting offset 9 is behind the ending offset 8; change the options startingOffsets"):
        in_order({A: 5, B: 9}, {A: 5, B: 8})
