"""`odradek consume -o`: what a range says, where it starts and ends in a partition, and that reading comes to the end of it."""

from __future__ import annotations

import time
from types import SimpleNamespace

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.ids import TopicPartition
from odradek.cli.records.ranges import BEGINNING, END, Log, Position, Range, end_in, parse_range, start_in
from odradek.cli.records.seeking import Ends, EndsOfMember
from odradek.client import Admin, NewTopic, Producer
from odradek.testing.kit.embedded import EmbeddedBroker
from tests.cli.conftest import Command

NOW = 1_700_000_000_000
DAY = 1_699_920_000_000  # 2023-11-14, UTC


def at(number: int) -> Position:
    return Position("time", number)


def offset(number: int) -> Position:
    return Position("offset", number)


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        # kcat
        ("beginning", Range(BEGINNING)),
        ("end", Range(END)),
        ("5", Range(offset(5))),
        ("-5", Range(Position("before", 5))),
        ("s@5", Range(at(5))),
        ("s@1700000000", Range(at(1_700_000_000))),
        ("e@5", Range(BEGINNING, at(5))),
        ("s@5 e@9", Range(at(5), at(9))),
        ("e@9 s@5", Range(at(5), at(9))),
        ("s@5 e@5", Range(at(5), at(5))),
        ("5 e@9", Range(offset(5), at(9))),
        ("s@5 e@1m", Range(at(5), at(60_005))),
        ("s@-1h e@2023-11-15", Range(at(NOW - 3_600_000), at(DAY + 86_400_000))),
        # Kafka's scripts
        ("earliest", Range(BEGINNING)),
        ("latest", Range(END)),
        # rpk
        ("start", Range(BEGINNING)),
        ("oldest", Range(BEGINNING)),
        ("newest", Range(END)),
        ("+5", Range(Position("after", 5))),
        ("5:", Range(offset(5))),
        (":5", Range(BEGINNING, offset(5))),
        (":end", Range(BEGINNING, END)),
        ("10:20", Range(offset(10), offset(20))),
        ("10:10", Range(offset(10), offset(10))),
        ("10:end", Range(offset(10), END)),
        ("+2:-3", Range(Position("after", 2), Position("before", 3))),
        ("-10:+5", Range(Position("before", 10), Position("after", 5))),
        ("beginning:end", Range(BEGINNING, END)),
        ("@1700000000000", Range(at(NOW))),
        ("@1700000000", Range(at(NOW))),
        ("@1700000000:1700000001000", Range(at(NOW), at(NOW + 1000))),
        ("@2023-11-14", Range(at(DAY))),
        ("@2023-11-14:", Range(at(DAY))),
        ("@2023-11-14T22:13:20", Range(at(NOW))),
        ("@2023-11-14T22:13", Range(at(NOW - 20_000))),
        ("@2023-11-14T22:13:20Z", Range(at(NOW))),
        ("@2023-11-14T23:13:20+01:00", Range(at(NOW))),
        ("@2023-11-14T22:13:20.250Z", Range(at(NOW + 250))),
        ("@2023-11-14:1d", Range(at(DAY), at(DAY + 86_400_000))),
        ("@2023-11-14T22:13:10m", Range(at(NOW - 20_000), at(NOW + 580_000))),
        ("@2023-11-14T22:13:20+01:00:2h", Range(at(NOW - 3_600_000), at(NOW + 3_600_000))),
        ("@2023-11-14:2023-11-14T22:13:20", Range(at(DAY), at(NOW))),
        ("@2023-11-14:@2023-11-15", Range(at(DAY), at(DAY + 86_400_000))),
        ("@-2h", Range(at(NOW - 7_200_000))),
        ("@-2h:-1h", Range(at(NOW - 7_200_000), at(NOW - 3_600_000))),
        ("@-2h:1h", Range(at(NOW - 7_200_000), at(NOW - 3_600_000))),
        ("@-1d12h:end", Range(at(NOW - 129_600_000), END)),
        ("@-1.5h", Range(at(NOW - 5_400_000))),
        ("@-500ms", Range(at(NOW - 500))),
        ("@-1w:", Range(at(NOW - 604_800_000))),
        ("@:-1h", Range(BEGINNING, at(NOW - 3_600_000))),
        ("10:@-1h", Range(offset(10), at(NOW - 3_600_000))),
        # before there was anything: a negative time means another thing to a broker
        ("@1969-12-31T23:59:59.999", Range(at(0))),
        ("@-99999999999999d", Range(at(0))),
        ("@2023-11-14:99999999999999999999w", Range(at(DAY), at((1 << 63) - 1))),
    ],
)
def test_what_is_typed_is_a_range(typed: str, wanted: Range) -> None:
    assert parse_range(typed.split(), Position("before", 77), NOW) == wanted


def test_without_a_word_it_is_the_default() -> None:
    assert parse_range([], END, NOW) == Range(END)
    assert parse_range([":7"], END, NOW) == Range(BEGINNING, offset(7)), "what has an end has records before it"


@pytest.mark.parametrize(
    ("typed", "wrong"),
    [
        ("middle", "-o middle: expected beginning, end, N, +N, -N, @TIME, or a range"),
        ("", "-o : expected"),
        (":", "-o :: expected"),
        ("+", "-o +: expected"),
        ("--5", "-o --5: expected"),
        ("1:2:3", "-o 1:2:3: expected"),
        ("٣", "-o ٣: expected"),
        ("1" * 19, "expected"),
        ("10:middle", "-o 10:middle: expected"),
        ("20:10", "-o 20:10: the range ends before it starts"),
        ("-5:-10", "-o -5:-10: the range ends before it starts"),
        ("@-1h:-2h", "-o @-1h:-2h: the range ends before it starts"),
        ("s@9 e@5", "-o s@9 -o e@5: the range ends before it starts"),
        ("end:10", "-o end:10: the range starts at the end, so it is always empty"),
        ("end e@5", "-o end -o e@5: the range starts at the end, so it is always empty"),
        ("10:start", "-o 10:start: a range cannot end at the start"),
        ("1 2", "-o 2: another -o gives the start already"),
        ("s@1 s@2", "-o s@2: another -o gives the start already"),
        ("e@1 e@2", "-o e@2: another -o gives the end already"),
        ("1:5 :6", "-o :6: another -o gives the end already"),
        ("stored", "-o stored: to read from the committed offsets of a group, use -G GROUP"),
        ("@", "-o @: expected a time such as 2023-11-14,"),
        ("@:", "-o @:: expected a time such as"),
        ("@noon", "-o @noon: expected a time such as"),
        ("@123", "13 digits (milliseconds)"),
        ("s@noon", "milliseconds since 1970"),
        ("@2023-13-14", "-o @2023-13-14: expected a time such as"),
        ("@2023-11-14:soon", "-o @2023-11-14:soon: expected a time such as"),
        ("@2h", "-o @2h: the range starts in the future; for a time in the past write -2h"),
        ("@:1h", "-o @:1h: an end such as 1h counts from the start, which must be a time"),
        ("5:@1h", "-o 5:@1h: an end such as 1h counts from the start"),
        ("@-2x", "-o @-2x: expected a time such as"),
    ],
)
def test_what_is_no_range_is_told(typed: str, wrong: str) -> None:
    with pytest.raises(click.UsageError) as told:
        parse_range(typed.split() or [""], BEGINNING, NOW)
    assert wrong in told.value.format_message()
    assert "\n" not in told.value.format_message()


LOG = Log(10, 30, 15, 25)


@pytest.mark.parametrize(
    ("typed", "log", "start", "end"),
    [
        (":end", LOG, 10, 30),
        (":20", LOG, 10, 20),
        (":99", LOG, 10, 30),
        (":5", LOG, 10, 10),
        ("12:20", LOG, 12, 20),
        ("5:20", LOG, 10, 20),
        ("40:50", LOG, 30, 30),
        ("+3:-4", LOG, 13, 26),
        ("+99:end", LOG, 30, 30),
        ("-99:end", LOG, 10, 30),
        ("-3:+2", LOG, 27, 29),
        ("-5:-5", LOG, 25, 25),
        ("5:+2", LOG, 10, 12),
        ("@-2h:-1h", LOG, 15, 25),
        ("@-2h:-1h", Log(10, 30, 15, None), 15, 30),
        ("@-2h:-1h", Log(10, 30, None, None), 30, 30),
        ("@-2h:end", LOG, 15, 30),
        ("@-2h:-1h", Log(10, 30, 15, 33), 15, 30),
        ("+0:@-1h", Log(10, 10), 10, 10),
    ],
)
def test_a_range_lies_within_what_a_partition_has(typed: str, log: Log, start: int, end: int) -> None:
    wanted = parse_range([typed], BEGINNING, NOW)
    assert wanted.end is not None
    assert start_in(wanted.start, log) == start
    assert end_in(wanted.end, start, log) == end


positions = st.builds(Position, st.sampled_from(["beginning", "end", "offset", "after", "before", "time"]), st.integers(0, 60))


@given(positions, positions, st.integers(0, 40), st.integers(0, 40), st.integers(0, 60) | st.none(), st.integers(0, 60) | st.none())
def test_a_range_never_waits_for_what_is_not_there(
    start: Position, end: Position, first: int, size: int, start_time: int | None, end_time: int | None
) -> None:
    log = Log(first, first + size, start_time, end_time)
    found = start_in(start, log)
    assert start.kind == "time" or first <= found <= log.last
    assert found <= end_in(end, found, log) <= max(log.last, found)


# -- reading ------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    """A topic with records 0 to 9 in partition 0, 0 to 3 in partition 1, and nothing in partition 2; a minute lies between two records."""
    with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as producer:
        admin.create_topics([NewTopic("ranges", 3, 1)])
        for partition, count in ((0, 10), (1, 4)):
            for number in range(count):
                producer.send("ranges", b"%d.%d" % (partition, number), partition=partition, timestamp=DAY + 60_000 * number)
    return "ranges"


@pytest.mark.parametrize(
    ("typed", "first", "second"),
    [
        ("-o 2:5", [2, 3, 4], [2, 3]),
        ("-o :end", range(10), range(4)),
        ("-o :3", range(3), range(3)),
        ("-o 5:5", [], []),
        ("-o +8:end", [8, 9], []),
        ("-o -3:-1", [7, 8], [1, 2]),
        ("-o +1:+2", [1, 2], [1, 2]),
        ("-o @2023-11-14T00:02:00:2m", [2, 3], [2, 3]),
        ("-o @2023-11-14T01:02:00+01:00:2m", [2, 3], [2, 3]),
        (f"-o s@{DAY + 120_000} -o e@{DAY + 180_001}", [2, 3], [2, 3]),
        (f"-o e@{DAY + 120_000}", [0, 1], [0, 1]),
        ("-o @2023-11-15:1d", [], []),
        ("-o @2023-11-14:end", range(10), range(4)),
        ("-o 2:@2023-11-14T00:03:00", [2], [2]),
        ("-o 0:5 -p 1", [], range(4)),
        ("-o +6", range(6, 10), []),
        ("-o 0:9 -e", range(9), range(4)),
    ],
)
def test_a_range_is_read_and_no_more(typed: str, first: list[int], second: list[int], topic: str, bootstrap: str, command: Command) -> None:
    more = ("-e",) if ":" not in typed and "e@" not in typed else ()
    answer = command("consume", "-t", topic, *typed.split(), *more, "-q", "-b", bootstrap)
    assert (answer.status, answer.err) == (0, "")
    assert sorted(answer.out.split()) == [*(f"0.{number}" for number in first), *(f"1.{number}" for number in second)]


def test_a_count_goes_with_a_range(topic: str, bootstrap: str, command: Command) -> None:
    at_ = ("-t", topic, "-p", "0", "-b", bootstrap)
    assert command("consume", "-o", "2:8", "-c", "3", *at_).out.split() == ["0.2", "0.3", "0.4"]
    assert command("consume", "-o", "2:4", "-c", "3", *at_).out.split() == ["0.2", "0.3"], "the end comes first"
    assert command("consume", "-o", "2:4", "-X", "max.poll.records=1", *at_).out.split() == ["0.2", "0.3"]


def test_a_start_that_is_not_there_is_told_for_ranges_too(topic: str, bootstrap: str, command: Command) -> None:
    answer = command("consume", "-t", topic, "-p", "1", "-o", "7:9", "-b", bootstrap)
    assert answer == (0, "", "odradek consume: ranges-1 has offsets 0 to 3: reading from 4 instead of 7\n")


def test_a_range_that_ends_among_control_records_and_aborted_ones_ends(bootstrap: str, command: Command) -> None:
    """Offsets 0 to 2 are committed, 3 is their marker, 4 to 5 are aborted, 6 is their marker: there are no records from 3 on."""
    with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap, transactional_id="ranges") as producer:
        admin.create_topics([NewTopic("ranges-of-transactions", 1, 1)])
        with producer.transaction():
            for number in range(3):
                producer.send("ranges-of-transactions", b"%d" % number)
        producer.begin_transaction()
        for _ in range(2):
            producer.send("ranges-of-transactions", b"aborted")
        producer.flush()
        producer.abort_transaction()
    read = ("consume", "-t", "ranges-of-transactions", "--isolation-level", "read_committed", "-b", bootstrap)
    for end in ("4", "5", "6", "end", "99"):
        assert command(*read, "-o", f":{end}") == (0, "0\n1\n2\n", ""), end
    assert command(*read, "-o", "3:4") == (0, "", "")
    assert command(*read, "-o", "4:6") == (0, "", "")
    assert command(*read, "-o", "-1:end") == (0, "", "")


def test_a_range_that_ends_among_what_was_compacted_away_ends(command: Command) -> None:
    """The keys of offsets 1 to 8 come again in a later segment."""
    cleaner = {"log.cleaner.backoff.ms": "50", "log.cleaner.min.cleanable.ratio": "0.01"}
    with (
        EmbeddedBroker(cleaner) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        admin.create_topics([NewTopic("compacted", 1, 1, configs={"cleanup.policy": "compact", "segment.ms": "1000"})])
        start = time.time_ns() // 1_000_000 - 100_000
        for number in range(10):
            producer.send("compacted", b"%d" % number, key=b"last" if 0 < number < 9 else b"%d" % number, timestamp=start)
        producer.send("compacted", b"10", key=b"last", timestamp=start + 50_000).result(10)
        producer.send("compacted", b"11", key=b"open", timestamp=start + 99_000).result(10)
        whole = ("consume", "-t", "compacted", "-e", "-f", "%o ", "-b", broker.bootstrap_servers)
        deadline = time.monotonic() + 60
        while command(*whole).out != "0 9 10 11 ":
            assert time.monotonic() < deadline, command(*whole)
        for typed, found in ((":5", "0 "), ("3:6", ""), ("3:10", "9 "), ("8:11", "9 10 "), ("+1:-3", "")):
            assert command(*whole[:3], "-o", typed, *whole[4:]) == (0, found, ""), typed


class Positions:
    """A consumer whose positions are set by the test."""

    def __init__(self) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.paused: list[TopicPartition] = []

    def position(self, partition: TopicPartition) -> int:
        return self.positions[partition]

    def pause(self, *partitions: TopicPartition) -> None:
        self.paused += partitions


def test_a_partition_that_is_read_is_not_fetched_any_more() -> None:
    consumer, a, b = Positions(), TopicPartition("t", 0), TopicPartition("t", 1)
    ends = Ends(consumer, {a: 5, b: 7})  # type: ignore[arg-type]
    consumer.positions = {a: 4, b: 0}
    assert not ends.reached()
    assert consumer.paused == []
    consumer.positions = {a: 9, b: 6}  # beyond a gap
    assert not ends.reached()
    assert consumer.paused == [a]
    consumer.positions = {a: 9, b: 7}
    assert ends.reached()
    assert consumer.paused == [a, b]


class Member:
    """A member of a group whose partitions come and go, and whose ends grow."""

    def __init__(self) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.state = "stable"

    def assignment(self) -> set[TopicPartition]:
        return set(self.positions)

    def position(self, partition: TopicPartition) -> int:
        return self.positions[partition]

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: self.ends[each] for each in partitions}

    def health(self) -> object:
        return SimpleNamespace(state=self.state)


def test_a_member_reads_to_where_a_partition_ended_when_it_got_it() -> None:
    member, a, b = Member(), TopicPartition("t", 0), TopicPartition("t", 1)
    ends = EndsOfMember(member)  # type: ignore[arg-type]
    member.ends = {a: 5, b: 3}
    member.positions = {a: 4}
    assert not ends.reached()
    member.ends[a] = 9
    member.positions = {a: 5}
    assert ends.reached(), "what came since then is not waited for"
    member.positions = {a: 5, b: 0}
    assert not ends.reached(), "one that came later counts as well"
    member.positions = {a: 5, b: 3}
    assert ends.reached()


def test_a_member_that_gets_nothing_ends_after_a_while_that_begins_again_with_each_partition() -> None:
    member, a = Member(), TopicPartition("t", 0)
    ends = EndsOfMember(member)  # type: ignore[arg-type]
    member.ends = {a: 5}
    for _ in range(3):
        member.positions = {}
        assert not any(ends.reached() for _ in range(19))
        member.state = "joining"
        assert not ends.reached()
        member.state = "stable"
        assert not any(ends.reached() for _ in range(19))
        member.positions = {a: 0}
        assert not ends.reached()
    member.positions = {}
    assert [ends.reached() for _ in range(20)] == [False] * 19 + [True]


def test_an_offset_that_is_not_there_moves_to_the_nearest_and_says_so(bootstrap: str, command: Command) -> None:
    at = ("-b", bootstrap)
    assert command("produce", "-t", "only", *at, stdin=b"a\nb\nc\n") == (0, "", "")
    assert command("consume", "-t", "only", "-o", "1", "-e", *at) == (0, "b\nc\n", "")
    remark = "odradek consume: only-0 has offsets 0 to 2: reading from 3 instead of 99\n"
    assert command("consume", "-t", "only", "-o", "99", "-e", *at) == (0, "", remark)
    assert command("consume", "-t", "only", "-o", "99", "-e", "-q", *at) == (0, "", "")
    assert command("consume", "-t", "only", "-o", "-99", "-c", "2", *at) == (0, "a\nb\n", "")
    remark = "odradek consume: dotted.name-0 is empty: reading from 0 instead of 5\n"
    assert command("consume", "-t", "dotted.name", "-o", "5", "-e", *at) == (0, "", remark)
