"""Options are the connector's, and none is accepted and ignored; offsets are shared and checked as the connector does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.errors import ConfigError
from odradek.base.ids import TopicPartition
from odradek.spark.environment import major_version
from odradek.spark.options import EARLIEST, LATEST, NOT_SERVED_YET, read_options, write_options
from odradek.spark.ranges import DataLoss, OffsetRange, from_stream_offset, limited, resolve, to_stream_offset, within_log

BASE = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_defaults_are_those_of_the_connector() -> None:
    batch, stream = read_options(BASE, streaming=False), read_options(BASE, streaming=True)
    assert (batch.starting, batch.ending, batch.fail_on_data_loss, batch.include_headers) == (EARLIEST, LATEST, True, False)
    assert stream.starting == LATEST


def test_names_ignore_case() -> None:
    options = read_options({**BASE, "STARTINGOFFSETS": '{"t":{"0":5,"1":-2}}', "failondataloss": "FALSE"}, streaming=False)
    assert options.starting == {A: 5, B: EARLIEST}
    assert not options.fail_on_data_loss


def test_a_topic_that_is_named_twice_is_read_once() -> None:
    assert read_options({**BASE, "subscribe": "t, u,t,"}, streaming=False).subscribe == ("t", "u")
    assigned = {name: value for name, value in BASE.items() if name != "subscribe"} | {"assign": '{"t":[1,0,1]}'}
    assert read_options(assigned, streaming=False).assign == (A, B)


@pytest.mark.parametrize("name", NOT_SERVED_YET)
def test_what_is_not_served_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        read_options({**BASE, name: "1"}, streaming=True)


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
        ({**BASE, "maxOffsetsPerTrigger": "5"}, "is for streams"),
        ({**BASE, "topic": "t"}, "no meaning when reading"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_options(options, streaming=False)


def test_writing_takes_topic_and_client_keys() -> None:
    assert write_options({"kafka.bootstrap.servers": "h:1", "topic": "t", "kafka.acks": "1"}).client["acks"] == "1"
    with pytest.raises(ConfigError, match="subscribe"):
        write_options(BASE)


def test_offsets_given_for_other_partitions_are_refused() -> None:
    with pytest.raises(ValueError, match="leaves out t-1"):
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
        assert chosen == end


@pytest.mark.parametrize("limit", ["0", "-1", "many"])
def test_a_limit_lets_something_through(limit: str) -> None:
    with pytest.raises(ConfigError, match="maxOffsetsPerTrigger must be a number of at least 1"):
        read_options({**BASE, "maxOffsetsPerTrigger": limit}, streaming=True)


def test_stream_offsets_have_the_connectors_form() -> None:
    assert to_stream_offset({B: 2, A: 1}) == {"t": {"0": 1, "1": 2}}
    assert from_stream_offset({"t": {"0": 1, "1": 2}}) == {A: 1, B: 2}


@pytest.mark.parametrize(
    ("text", "version"),
    [('openjdk version "17.0.15" 2025', 17), ('java version "1.8.0_392"', 8), ('openjdk version "21-ea"', 21), ("?", 0)],
)
def test_java_versions_are_understood(text: str, version: int) -> None:
    assert major_version(text) == version
