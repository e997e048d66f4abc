"""`odradek perf`: against an embedded broker, and the meter by itself."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

import pytest

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.cli.perf import perf_consume
from odradek.cli.perf.perf import name_arguments, repeat_options
from odradek.cli.perf.perf_consume import Joining, Reading, Span, span_line, span_row
from odradek.cli.perf.perf_latency import check
from odradek.cli.perf.perf_options import metric_lines, metric_values
from odradek.cli.perf.perf_produce import Meter, file_payloads, random_payloads, results, total_line, window_line
from odradek.cli.shared.measuring import Window
from odradek.client import Admin, Consumer, NewTopic
from odradek.client.metrics import MetricName
from odradek.client.types import ConsumerRecord
from tests.cli.conftest import Command
from tests.cli.support import running

WINDOW = r"(\d+) records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, [\d.]+ ms max latency\."
TOTAL = (
    r"(\d+)( steady state)? records sent, \d+\.\d{6} records/sec \(\d+\.\d\d MB/sec\), \d+\.\d\d ms avg latency, \d+\.\d\d ms max latency, "
    r"\d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
)


def create(bootstrap: str, *topics: str, partitions: int = 1, **config: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, partitions, 1, configs=config) for topic in topics])


def values(bootstrap: str, topic: str, isolation_level: str = "read_uncommitted") -> list[bytes]:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level=isolation_level) as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        found: list[ConsumerRecord] = []
        while any(consumer.position(each) < end for each, end in ends.items()):
            found += consumer.poll(500)
    return [each.value for each in found]


# -- produce ------------------------------------------------------------------------------------------------------------------------------


def test_every_record_is_written_and_counted(bootstrap: str, command: Command) -> None:
    create(bootstrap, "perf-all", partitions=3)
    answer = command("perf", "produce", "-t", "perf-all", "-n", "2345", "--record-size", "10", "-J", "-b", bootstrap)
    assert (answer.status, answer.err) == (0, "")
    (row,) = json.loads(answer.out)
    assert (row["part"], row["records"]) == ("all", 2345)
    assert 0 < row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"] <= row["p99.9_ms"] <= row["max_ms"]
    assert row["mb_per_second"] == pytest.approx(row["records_per_second"] * 10 / 1_048_576, abs=0.01)
    written = values(bootstrap, "perf-all")
    assert len(written) == 2345
    assert all(re.fullmatch(rb"[A-Z]{10}", value) for value in written)


def test_the_script_prints_kafkas_lines(bootstrap: str, command: Command) -> None:
    create(bootstrap, "perf-lines")
    words = ["--topic", "perf-lines", "--num-records", "300", "--throughput", "600", "--record-size", "10", "--reporting-interval", "100"]
    answer = command(
        "kafka-producer-perf-test.sh", *words, "--warmup-records", "100", "--producer-props", f"bootstrap.servers={bootstrap}", "acks=1"
    )
    assert (answer.status, answer.err) == (0, "")
    warmup, *windows, everything, steady = answer.out.splitlines()
    assert warmup == "Warmup first 100 records. Steady state results will print after the complete test summary."
    assert windows.count("In steady state.") == 1
    position = windows.index("In steady state.")
    counts = [int(found[1]) for line in windows if (found := re.fullmatch(WINDOW, line))]
    assert len(counts) == len(windows) - 1
    assert 1 <= position < len(windows) - 1
    assert sum(counts[:position]) <= 100
    assert sum(counts[position:]) <= 200
    assert re.fullmatch(TOTAL, everything).groups() == ("300", None)  # type: ignore[union-attr]
    assert re.fullmatch(TOTAL, steady).groups() == ("200", " steady state")  # type: ignore[union-attr]


def test_the_pace_is_kept(bootstrap: str, command: Command) -> None:
    create(bootstrap, "perf-pace")
    answer = command("perf", "produce", "-t", "perf-pace", "-n", "101", "--throughput", "200", "--record-size", "1", "-J", "-b", bootstrap)
    (row,) = json.loads(answer.out)
    assert row["seconds"] >= 0.5


def test_windows_are_told_on_standard_error_when_asked_for(bootstrap: str, command: Command) -> None:
    create(bootstrap, "perf-windows")
    words = ["-n", "200", "--throughput", "1000", "--payload-monotonic", "--reporting-interval", "50", "-J", "-b", bootstrap]
    answer = command("perf", "produce", "-t", "perf-windows", *words)
    assert all(re.fullmatch(WINDOW, line) for line in answer.err.splitlines())
    assert len(answer.err.splitlines()) >= 2
    assert json.loads(answer.out)[0]["records"] == 200
    assert values(bootstrap, "perf-windows") == [b"%d" % number for number in range(200)]


def test_transactions_are_committed_one_after_the_other(bootstrap: str, command: Command) -> None:
    create(bootstrap, "perf-transactions")
    words = ["-n", "150", "--throughput", "500", "--payload-monotonic", "--transactional-id", "perf-writer", "-b", bootstrap]
    answer = command("perf", "produce", "-t", "perf-transactions", *words, "--transaction-duration-ms", "100", "-J")
    assert answer.status == 0
    assert json.loads(answer.out)[0]["records"] == 150
    assert len(values(bootstrap, "perf-transactions", "read_committed")) == 150
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        where = TopicPartition("perf-transactions", 0)
        # Each commit leaves a marker.
        assert 2 <= consumer.end_offsets([where])[where] - 150 <= 5


def test_records_that_are_refused_make_the_status_one(bootstrap: str, command: Command) -> None:
    create(bootstrap, "perf-small", **{"max.message.bytes": "100"})
    words = ["-n", "20", "--record-size", "200", "-J", "-b", bootstrap]
    answer = command("perf", "produce", "-t", "perf-small", *words)
    assert answer.status == 1
    assert re.fullmatch(r"odradek perf: 20 of 20 records were not written; the first error is MESSAGE_TOO_LARGE[^\n]*\n", answer.err)
    assert json.loads(answer.out)[0]["records"] == 0


def test_metrics_are_shown_when_asked_for(bootstrap: str, command: Command) -> None:
    create(bootstrap, "perf-metrics")
    words = ["perf", "produce", "-t", "perf-metrics", "-n", "10", "--record-size", "1", "--print-metrics", "-b", bootstrap]
    name = "producer-metrics:outgoing-byte-total:{client-id=perf-producer-client}"
    (row,) = json.loads(command(*words, "-J").out)
    assert row["metrics"][name] > 0
    lines = command(*words).out.splitlines()
    assert lines[2] == ""
    assert lines[3].split() == ["Metric", "Name", "Value"]
    assert any(re.fullmatch(rf"{re.escape(name)} +: \d+\.\d{{3}}", line) for line in lines[4:])


def test_metrics_without_a_value_are_none_in_json_and_nan_in_lines() -> None:
    values = {
        MetricName(name, "g", (("a", "b"), ("c", "d"))): value
        for name, value in zip("wxyz", (1.5, math.nan, math.inf, -math.inf), strict=True)
    }
    assert metric_values(values) == {"g:w:{a=b, c=d}": 1.5, "g:x:{a=b, c=d}": None, "g:y:{a=b, c=d}": None, "g:z:{a=b, c=d}": None}
    assert [line.split(" : ")[1] for line in metric_lines(values)[1:]] == ["1.500", "NaN", "Infinity", "-Infinity"]


def test_ctrl_c_shows_what_was_measured(bootstrap: str) -> None:
    create(bootstrap, "perf-ctrl-c")
    words = ["-n", "1000000", "--throughput", "100", "--record-size", "1", "--reporting-interval", "100", "-o", "kafka", "-b", bootstrap]
    with running("perf", "produce", "-t", "perf-ctrl-c", *words) as process:
        assert process.stdout is not None
        assert re.match(WINDOW.encode(), process.stdout.readline())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err.strip()) == (130, b"")
    assert re.fullmatch(TOTAL, out.decode().splitlines()[-1])


def test_payloads_of_letters_do_not_repeat_soon() -> None:
    make, other = random_payloads(1000), random_payloads(1000)
    every = [value for first in range(0, 9000, 60) for value in make(first, 60)]
    assert {len(each) for each in every} == {1000}
    assert every == [value for first in range(0, 9000, 45) for value in other(first, 45)]
    assert len(set(every)) == 9000
    assert len(make(10**12, 1)[0]) == 1000
    assert [len(each) for each in random_payloads(5_000_000)(3, 1)] == [5_000_000]


@pytest.mark.parametrize(
    ("text", "delimiter", "found"),
    [
        ("a\nb\n", r"\n", {b"a", b"b"}),
        ("\na\n\nb", r"\n", {b"a", b"", b"b"}),
        ("a1b22ü", r"\d", {b"a", b"b", b"", "ü".encode()}),
        ("one", r"\n", {b"one"}),
        ("axb\nc", r"(x)|\n", {b"a", b"b", b"c"}),
    ],
)
def test_payloads_of_a_file(text: str, delimiter: str, found: set[bytes], tmp_path: Path) -> None:
    path = tmp_path / "payloads"
    path.write_text(text)
    assert set(file_payloads(path, delimiter)(0, 200)) == found
    assert file_payloads(path, delimiter)(0, 50) == file_payloads(path, delimiter)(7, 50)


class Acknowledgement:
    """A future that is told when the test says so."""

    def __init__(self, record_count: int, error: Exception | None = None) -> None:
        self.record_count = record_count
        self._error = error

    def add_done_callback(self, callback: object) -> None:
        self._callback = callback

    def result(self, _: float) -> None:
        if self._error is not None:
            raise self._error

    def tell(self) -> None:
        self._callback(self)  # type: ignore[operator]


def test_the_meter_counts_each_run_once_and_in_its_part() -> None:
    now = [10.0]
    windows: list[tuple[Window, bool]] = []
    meter = Meter(5, 1.0, lambda *told: windows.append(told), lambda: now[0])
    assert meter.begin(100) == (5, 10.0)
    first = Acknowledgement(5)
    meter.count_sent(10.0, [b"ab"] * 5, [first])  # type: ignore[list-item]
    now[0] = 11.0
    assert meter.begin(100) == (100, 11.0)
    second, third = Acknowledgement(3), Acknowledgement(1, KafkaError(ErrorCode.MESSAGE_TOO_LARGE))
    meter.count_sent(11.0, [b"a", b"bc", b"d", b"x"], [second, third])  # type: ignore[list-item]
    now[0] = 11.5
    for each in (second, first, third):
        each.tell()
    meter.take()
    assert (meter.sent, meter.failed, meter.end_s) == (9, 1, 11.5)
    assert str(meter.error) == "MESSAGE_TOO_LARGE"
    everything, steady = results(meter)
    assert everything[:4] == ("all", 8, 14, 1.5)
    assert (everything.highest, everything.average) == (1_500_000, (5 * 1_500_000 + 3 * 500_000) / 8)
    assert steady[:4] == ("steady", 3, 4, 0.5)
    assert (steady.highest, steady.percentiles) == (500_000, (500_000,) * 4)
    assert windows == []
    now[0] = 13.0
    last = Acknowledgement(1)
    meter.count_sent(12.0, [b"zz"], [last])  # type: ignore[list-item]
    last.tell()
    meter.take()
    assert windows == [(Window(0, 2.0, 4, 6, 2_500_000, 1_000_000), True)]


def test_lines_are_kafkas_to_the_letter() -> None:
    meter = Meter(0, 60.0, lambda *_: None, lambda: 0.0)
    meter.all.record(1_999, 3, 3 * 1_048_576, 0.0)
    meter.end_s = 2.0
    (result,) = results(meter)
    assert total_line(result) == (
        "3 records sent, 1.500000 records/sec (1.50 MB/sec), 2.00 ms avg latency, 1.00 ms max latency, 1 ms 50th, 1 ms 95th, 1 ms 99th, "
        "1 ms 99.9th."
    )
    assert total_line(result._replace(part="steady")).startswith("3 steady state records sent, ")
    assert window_line(Window(0, 0.5, 4, 1_048_576, 9_000, 3_500)) == (
        "4 records sent, 8.0 records/sec (2.00 MB/sec), 2.2 ms avg latency, 3.0 ms max latency."
    )


# -- consume ------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filled(bootstrap: str) -> str:
    """A topic with 700 records of three bytes with keys of two."""
    from odradek.client import Producer

    create(bootstrap, "perf-filled", partitions=2)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(700):
            producer.send("perf-filled", b"abc" if number else None, key=b"kk", partition=number % 2)
    return "perf-filled"


@pytest.mark.parametrize("what", [["-t", "perf-filled"], ["--include", "perf-fil.*"]])
def test_reading_ends_after_as_many_as_were_asked_for(bootstrap: str, filled: str, command: Command, what: list[str]) -> None:
    answer = command("perf", "consume", *what, "-n", "601", "-J", "-b", bootstrap)
    assert (answer.status, answer.err) == (0, "")
    (row,) = json.loads(answer.out)
    assert row["records"] == 601
    assert row["mb"] == pytest.approx(601 * 5 / 1_048_576, abs=1e-4)
    assert abs(row["end_time"] - row["start_time"] - row["rebalance_ms"] - row["fetch_ms"]) <= 2
    assert row["end_time"] <= time.time() * 1000


def test_a_group_goes_on_where_it_was(bootstrap: str, filled: str, command: Command) -> None:
    words = ("perf", "consume", "-t", filled, "-G", "perf-group", "-J", "-b", bootstrap)
    assert command(*words, "-n", "500").status == 0
    rest = command(*words, "-n", "500", "--timeout", "300")
    assert (rest.status, json.loads(rest.out)[0]["records"]) == (1, 200)
    assert rest.err == "odradek perf: 200 of 500 records were read, then no record came for 300 ms; use a longer --timeout\n"
    assert command("perf", "consume", "-t", filled, "--from-latest", "-n", "1", "--timeout", "300", "-b", bootstrap).status == 1


def test_the_script_prints_kafkas_columns(bootstrap: str, filled: str, command: Command) -> None:
    words = ["kafka-consumer-perf-test.sh", "--bootstrap-server", bootstrap, "--topic", filled]
    tail = "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
    header, line = command(*words, "--messages", "700").out.splitlines()
    assert header == f"start.time, end.time, {tail}"
    moment = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"
    numbers = r"\d+\.\d{4}, \d+\.\d{4}, (\d+), \d+\.\d{4}, \d+, \d+, \d+\.\d{4}, \d+\.\d{4}"
    assert re.fullmatch(f"{moment}, {moment}, {numbers}", line)[1] == "700"  # type: ignore[index]
    header, *lines, warning = command(
        *words, "--num-records", "701", "--show-detailed-stats", "--reporting-interval", "1", "--timeout", "300"
    ).out.splitlines()
    assert header == f"time, threadId, {tail}"
    sums = [int(found[1]) for each in lines if (found := re.fullmatch(f"{moment}, 0, {numbers}", each))]
    assert sums == sorted(sums)
    assert sums
    assert len(sums) == len(lines)
    assert warning == (
        "WARNING: Exiting before consuming the expected number of records: timeout (300 ms) exceeded. "
        "You can use the --timeout option to increase the timeout."
    )
    (line,) = command(*words, "--num-records", "5", "--hide-header", "--date-format", "HH'h'").out.splitlines()
    assert re.match(r"\d\dh, \d\dh, ", line)


def test_detailed_figures_of_our_own_end_with_all(bootstrap: str, filled: str, command: Command) -> None:
    words = ["perf", "consume", "-t", filled, "-n", "700", "--show-detailed-stats", "--reporting-interval", "1", "-b", bootstrap]
    answer = command(*words, "-J", "-X", "max.poll.records=5")
    *windows, everything = json.loads(answer.out)
    assert everything["records"] == 700
    # The first records come milliseconds after the start.
    assert len(windows) >= 1
    assert sum(row["records"] for row in windows) <= 700
    assert len(answer.err.splitlines()) == len(windows)
    assert re.match(r"\d+ records read, [\d.]+ records/sec \([\d.]+ MB/sec\)\n", answer.err)


def test_ctrl_c_shows_what_was_read(bootstrap: str, filled: str) -> None:
    words = [
        "-t",
        filled,
        "-n",
        "701",
        "--timeout",
        "60000",
        "--reporting-interval",
        "1",
        "-J",
        "-X",
        "max.poll.records=5",
        "-b",
        bootstrap,
    ]
    with running("perf", "consume", *words) as process:
        assert process.stderr is not None
        assert re.match(rb"\d+ records read, ", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert all(re.match(rb"\d+ records read, ", line) for line in err.splitlines() if line)
    assert 0 < json.loads(out)[0]["records"] <= 700


class Slow:
    """A consumer that reads a record in a second; also the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.left = 5

    def monotonic(self) -> float:
        return self.now

    def poll(self, timeout_ms: int, max_records: int) -> list[ConsumerRecord]:
        self.now += 1.0
        self.left -= 1
        return [ConsumerRecord("t", 0, 0, 0, 0, None, b"v", ())] if self.left >= 0 else []


def test_patience_is_for_the_next_record(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    monkeypatch.setattr(perf_consume, "time", slow)
    reading = Reading(slow.monotonic, 100.0, lambda *_: None)
    perf_consume.read(slow, reading, 9, 500, 2.5)  # type: ignore[arg-type]
    assert (reading.records, slow.now) == (5, 8.0)


def test_printing_takes_none_of_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    monkeypatch.setattr(perf_consume, "time", slow)

    def print_slowly(*_: object) -> None:
        slow.now += 3.0

    reading = Reading(slow.monotonic, 1.0, print_slowly)
    perf_consume.read(slow, reading, 9, 500, 2.5)  # type: ignore[arg-type]
    assert reading.records == 5


class Interrupted:
    """A consumer at whose first poll somebody presses Ctrl-C."""

    closed: ClassVar[list[int]] = []

    def __init__(self, _: object) -> None: ...

    def __enter__(self) -> Interrupted:
        return self

    def __exit__(self, *_: object) -> None: ...

    def subscribe(self, *_: object) -> None: ...

    def poll(self, *_: object) -> list[ConsumerRecord]:
        raise KeyboardInterrupt

    def close(self, timeout_ms: int = 30_000) -> None:
        self.closed.append(timeout_ms)


def test_ctrl_c_does_not_wait_for_a_broker_that_is_silent(bootstrap: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_consume, "Consumer", Interrupted)
    assert command("perf", "consume", "-t", "there", "-n", "1", "-J", "-b", bootstrap).status == 130
    assert Interrupted.closed == [1000]


def test_time_without_partitions_is_that_of_rebalances() -> None:
    now = [5.0]
    joining = Joining(lambda: now[0])
    a, b = TopicPartition("t", 0), TopicPartition("t", 1)
    now[0] = 7.0
    joining.on_partitions_assigned([a])
    now[0] = 8.0
    joining.on_partitions_assigned([b])
    joining.on_partitions_revoked([a])
    now[0] = 9.0
    joining.on_partitions_assigned([a])
    assert joining.total_s == 2.0
    joining.on_partitions_lost([a, b])
    now[0] = 12.5
    joining.on_partitions_assigned([])
    assert joining.total_s == 5.5
    now[0] = 13.0
    joining.on_partitions_assigned([])
    now[0] = 13.5
    joining.on_partitions_revoked([])
    now[0] = 14.0
    joining.on_partitions_assigned([b])
    assert joining.total_s == 7.0, "each second without partitions counts once"


def test_intervals_have_their_own_figures() -> None:
    now = [100.0]
    told: list[tuple[Span, Span]] = []
    reading = Reading(lambda: now[0], 1.0, lambda *spans: told.append(spans))
    record = ConsumerRecord("t", 0, 0, 0, 0, b"k", b"1234", ())
    reading.joining.total_s = 0.25
    now[0] = 100.5
    reading.take([record])
    now[0] = 101.5
    reading.take([record, record._replace(key=None, value=None)])
    assert told == [(Span(100.0, 101.5, 10, 3, 0.25), Span(100.0, 101.5, 10, 3, 0.25))]
    now[0] = 102.5
    reading.take([record])
    assert told[1] == (Span(101.5, 102.5, 5, 1, 0.0), Span(100.0, 102.5, 15, 4, 0.25))
    assert span_line(*_beside(told[1])) == "x, 0.0000, 0.0000, 4, 1.0000, 0, 1000, 0.0000, 1.0000"


def _beside(told: tuple[Span, Span]) -> tuple[Span, str, Span]:
    return told[0], "x", told[1]


def test_a_span_that_is_all_rebalance_has_no_rate_of_fetching() -> None:
    span = Span(1.0, 2.0, 10, 1, 1.5)
    row = span_row(span, 1, 2)
    assert (row["fetch_mb_per_second"], row["fetch_records_per_second"], row["fetch_ms"]) == (None, None, -500)
    assert span_line(span, "x", span).endswith(", 1500, -500, 0.0000, 0.0000")


# -- latency ------------------------------------------------------------------------------------------------------------------------------


def test_latency_from_end_to_end(bootstrap: str, command: Command) -> None:
    sizes = ["--record-size", "7", "--record-key-size", "3", "--num-headers", "2", "--record-header-key-size", "4"]
    answer = command("perf", "latency", "-t", "perf-new", "-n", "20", *sizes, "--record-header-size", "-1", "-J", "-b", bootstrap)
    assert (answer.status, answer.err) == (0, "odradek perf: created topic perf-new with 1 partition\n")
    (row,) = json.loads(answer.out)
    assert row["records"] == 20
    assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["p99.9_ms"] <= row["max_ms"]
    assert 0 < row["average_ms"] <= row["max_ms"]
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([("perf-new", 0)])
        record = consumer.poll(5000)[0]
    assert (len(record.key), len(record.value)) == (3, 7)
    assert [(len(name), value) for name, value in record.headers] == [(4, None), (4, None)]


def test_the_script_of_latency_takes_words_without_names(bootstrap: str, command: Command) -> None:
    answer = command("kafka-e2e-latency.sh", bootstrap, "perf-old", "1001", "all", "5")
    first, *progress, average, percentiles = answer.out.splitlines()
    assert first == 'Topic "perf-old" does not exist. Will create topic with 1 partition(s) and replication factor = 1'
    assert [line.split("\t")[0] for line in progress] == ["0", "1000"]
    assert re.fullmatch(r"Avg latency: \d+\.\d{4} ms", average)
    assert re.fullmatch(r"Percentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+", percentiles)


def test_another_record_than_the_one_written_ends_it() -> None:
    record = ConsumerRecord("t", 0, 0, 0, 0, None, b"v", (("h", None),))
    check([record], None, b"v", [("h", None)])
    for found, problem in (
        ([], "no record was read within 60000 ms"),
        ([record, record], "2 records were read instead of the written record"),
        ([record._replace(key=b"")], "another record was read"),
        ([record._replace(value=b"w")], "another record was read"),
        ([record._replace(headers=())], "another record was read"),
    ):
        with pytest.raises(OdradekError, match=problem):
            check(found, None, b"v", [("h", None)])


# -- command lines ------------------------------------------------------------------------------------------------------------------------


def test_options_with_several_values_are_taken_apart() -> None:
    assert repeat_options(
        ["produce", "--producer-props", "a=1", "b=2", "--topic", "x=y", "--command-property", "c=3", "--print-metrics", "d=4"]
    ) == [
        *("produce", "--producer-props", "a=1", "--producer-props", "b=2", "--topic", "x=y", "--command-property", "c=3"),
        *("--print-metrics", "d=4"),
    ]


def test_words_without_names_are_those_of_the_script_only() -> None:
    first = ["latency", "-o", "kafka"]
    assert name_arguments([*first, "h:1", "t", "5", "1", "9", "file"])[3:] == [
        *("--bootstrap-server", "h:1", "--topic", "t", "--num-records", "5", "--producer-acks", "1", "--record-size", "9"),
        *("--command-config", "file"),
    ]
    for same in ([*first, "h:1", "t", "5"], [*first, "--topic", "t", "-n", "5", "-b"], ["latency", "a", "b", "c", "d", "e"]):
        assert name_arguments(same) == same


def test_a_broker_on_the_command_line_goes_before_one_among_the_settings(bootstrap: str, command: Command) -> None:
    create(bootstrap, "perf-where")
    words = ["perf", "produce", "-t", "perf-where", "-n", "1", "--record-size", "1"]
    assert command(*words, "-X", "bootstrap.servers=127.0.0.1:1", "-b", bootstrap).status == 0
    assert command(*words, "-X", f"bootstrap.servers={bootstrap}").status == 0


def test_a_broker_that_is_not_there_is_told_soon() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "odradek.cli.main", "perf", "produce", "-t", "t", "-n", "1", "--record-size", "1", "-b", "127.0.0.1:1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"odradek perf: [^\n]*Start a broker with `odradek start`, or name another one with -b HOST:PORT\n", done.stderr)
