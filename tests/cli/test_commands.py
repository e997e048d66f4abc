"""What the commands do when they are used as they should be."""

from __future__ import annotations

import io
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import IO, cast

import pytest

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.cli.node import start
from odradek.cli.node.server_properties import load_server_properties
from odradek.cli.records import consume, produce
from odradek.cli.records.record_formats import template_formatter
from odradek.cli.records.record_json import json_line
from odradek.cli.records.record_lines import Shape, record_chunks
from odradek.cli.records.sending import Sending, Sink
from odradek.cli.shared.client_command import unescape
from odradek.cli.shared.progress import Meter
from odradek.client import Admin, Consumer, NewTopic, Producer
from odradek.client.types import ConsumerRecord
from odradek.config.broker import BrokerConfig
from odradek.network.acceptor import BoundListener, Listener
from odradek.storage.scrub import Finding
from tests.cli.conftest import Command
from tests.cli.mistakes import NODE


@pytest.fixture
def topic(bootstrap: str, own_name: str) -> str:
    """A topic of two partitions for one test."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(own_name, 2, 1)])
    return own_name


def records_of(bootstrap: str, topic: str, partition: int) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values."""
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        where = TopicPartition(topic, partition)
        consumer.assign([where])
        end = consumer.end_offsets([where])[where]
        found: list[tuple[bytes | None, bytes | None]] = []
        while consumer.position(where) < end:
            found += [(record.key, record.value) for record in consumer.poll(1000)]
    return found


# -- consume ------------------------------------------------------------------------------------------------------------------------------


def test_the_end_is_that_of_every_partition(bootstrap: str, topic: str, command: Command) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(3000):
            producer.send(topic, b"%d" % number, partition=1)
    for options in ((), ("-X", "max.poll.records=100")):
        answer = command("consume", "-t", topic, "-e", *options, "-b", bootstrap)
        assert (answer.status, len(answer.out.splitlines())) == (0, 3000)


def test_the_end_is_that_of_the_beginning(bootstrap: str, topic: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after the command has begun is not shown, however it comes."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"before", partition=0).result(10)
        ends_before = Consumer.end_offsets

        def end_offsets(consumer: Consumer, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
            found = ends_before(consumer, partitions)
            producer.send(topic, b"after", partition=0).result(10)
            return found

        monkeypatch.setattr(Consumer, "end_offsets", end_offsets)
        assert command("consume", "-t", topic, "-e", "-b", bootstrap) == (0, "before\n", "")


def test_a_tail_is_counted_from_the_end_of_each_partition(bootstrap: str, topic: str, command: Command) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_many(topic, [b"a0", b"a1", b"a2"], partition=0)
        producer.send_many(topic, [b"b0"], partition=1)
    answer = command("consume", "-t", topic, "-o", "-2", "-e", "-b", bootstrap)
    assert (answer.status, sorted(answer.out.split())) == (0, ["a1", "a2", "b0"])


def test_a_time_leads_to_the_first_record_that_is_not_before_it(bootstrap: str, topic: str, command: Command) -> None:
    now = time.time_ns() // 1_000_000
    with Producer(bootstrap_servers=bootstrap) as producer:
        for partition, times in ((0, (now - 2000, now - 1000)), (1, (now - 2000,))):
            for each in times:
                producer.send(topic, b"%d-%d" % (partition, now - each), partition=partition, timestamp=each)
    at = ("-e", "-b", bootstrap)
    assert command("consume", "-t", topic, "-o", f"s@{now - 1500}", *at) == (0, "0-1000\n", "")
    assert command("consume", "-t", topic, "-o", f"s@{now - 1000}", *at) == (0, "0-1000\n", "")
    assert command("consume", "-t", topic, "-o", f"s@{now}", *at) == (0, "", "")


def test_a_count_is_of_records(bootstrap: str, topic: str, command: Command) -> None:
    lines = b"".join(b"%d\n" % number for number in range(30))
    at = ("-t", topic, "-b", bootstrap)
    assert command("produce", "-p", "0", "-c", "20", *at, stdin=lines).status == 0
    assert command("consume", "-p", "0", "-c", "7", *at) == (0, "".join(f"{number}\n" for number in range(7)), "")
    assert len(command("consume", "-p", "0", "-c", "15", "-X", "max.poll.records=4", *at).out.splitlines()) == 15
    assert len(command("consume", "-e", *at).out.splitlines()) == 20


def test_a_partition_holds_for_plain_and_keyed_records(bootstrap: str, topic: str, command: Command) -> None:
    for partition in ("0", "1"):
        at = ("-t", topic, "-p", partition, "-b", bootstrap)
        assert command("produce", *at, stdin=b"plain-%b\n" % partition.encode()).status == 0
        assert command("produce", "-k", "the-key", *at, stdin=b"keyed\n").status == 0
        assert command("produce", "-H", "a=b", *at, stdin=b"with headers\n").status == 0
    for partition in ("0", "1"):
        answer = command("consume", "-t", topic, "-p", partition, "-e", "-b", bootstrap)
        assert answer.out == f"plain-{partition}\nkeyed\nwith headers\n"


RECORD = ConsumerRecord(
    topic="t",
    partition=3,
    offset=7,
    timestamp=11,
    timestamp_type=0,
    key=None,
    value="Grüße".encode(),
    headers=(("h", b"1"), ("none", None)),
)


def test_json_keeps_null_apart_from_empty() -> None:
    shown = json.loads(json_line(RECORD))
    assert shown == {
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "tstype": "create",
        "ts": 11,
        "headers": ["h", "1", "none", None],
        "key": None,
        "payload": "Grüße",
    }
    shown = json.loads(json_line(RECORD._replace(key=b"", value=None, timestamp_type=1, headers=())))
    assert (shown["key"], shown["payload"], shown["tstype"], "headers" in shown) == ("", None, "logappend", False)
    assert json.loads(json_line(RECORD._replace(value=b"\xff")))["payload"] == "/w=="


def test_a_format_prints_each_part() -> None:
    render = template_formatter(unescape("%t/%p/%o/%T [%k|%K] [%s|%S] %h 100%%\\n"))
    assert render(RECORD) == "t/3/7/11 [|-1] [Grüße|7] h=1,none=NULL 100%\n".encode()
    assert template_formatter(b"%%s")(RECORD) == b"%s"
    assert template_formatter(b"%%%s")(RECORD) == "%Grüße".encode()
    assert template_formatter(b"\xff\xfe%%%%")(RECORD) == b"\xff\xfe%%"


def test_escapes_stand_for_bytes() -> None:
    assert unescape("a\\tb\\n\\x00\\x41B\\\\n\\0") == b"a\tb\n\x00AB\\n\x00"
    assert unescape("\\q \\x4 \\xzz \\") == b"\\q \\x4 \\xzz \\"
    assert unescape("ü") == "ü".encode()
    assert unescape(os.fsdecode(b"a\xff\\n")) == b"a\xff\n"


# -- produce ------------------------------------------------------------------------------------------------------------------------------


class Dribble(io.RawIOBase):
    """A stream that gives a few bytes at a time."""

    def __init__(self, content: bytes, size: int) -> None:
        self._content = content
        self._size = size

    def read1(self, _: int) -> bytes:
        block, self._content = self._content[: self._size], self._content[self._size :]
        return block


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("delimiter", [b"\n", b"\r\n", b"--=--"])
def test_a_delimiter_separates_wherever_it_lies(size: int, delimiter: bytes) -> None:
    records = [b"one", b"", b"-", b"--", b"four\n"[:4]]
    stream = cast("IO[bytes]", Dribble(delimiter.join(records), size))
    assert list(chain.from_iterable(record_chunks(stream, delimiter))) == records
    stream = cast("IO[bytes]", Dribble(delimiter.join([*records, b""]), size))
    assert list(chain.from_iterable(record_chunks(stream, delimiter))) == records


def test_what_is_refused_among_thousands_ends_it_with_1(bootstrap: str, topic: str, command: Command, tmp_path: Path) -> None:
    """The first record is refused, and has been looked at long before the last one."""
    lines = tmp_path / "lines"
    lines.write_bytes(b"x" * 2_000_000 + b"\n" + b"short\n" * 3000)
    for options in ((), ("-k", "key")):
        answer = command("produce", "-t", topic, "-p", "0", "-l", str(lines), *options, "-b", bootstrap)
        assert (answer.status, answer.out) == (1, "")
        assert answer.err.startswith("odradek produce: MESSAGE_TOO_LARGE")


class LateRefusal:
    """A future that is not done when it is looked at first, and has failed by the second look."""

    looks = 0

    def done(self) -> bool:
        self.looks += 1
        return self.looks > 1

    def result(self) -> None:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "too large")


def test_what_is_refused_between_two_looks_is_not_forgotten(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    class LateProducer:
        def __init__(self, _: object) -> None:
            return

        def __enter__(self) -> LateProducer:
            return self

        def __exit__(self, *_: object) -> None:
            return

        def send_many(self, _: str, records: list[bytes], *, partition: int | None) -> list[LateRefusal]:
            return [LateRefusal() for _ in records]

        def flush(self) -> None:
            return

    monkeypatch.setattr(produce, "Producer", LateProducer)
    monkeypatch.setattr(produce, "_remark_on_new_topic", lambda *_: None)
    answer = command("produce", "-t", "any", stdin=b"a line\n" * 1000)
    assert (answer.status, answer.err.split(";")[0]) == (1, "odradek produce: MESSAGE_TOO_LARGE: too large")


def test_what_waits_is_looked_at_a_few_times_however_much_it_is() -> None:
    looks = 0

    class Waiting:
        def done(self) -> bool:
            nonlocal looks
            looks += 1
            return False

        def result(self) -> None: ...

    class Slow:
        def send(self, *_: object, **__: object) -> Waiting:
            return Waiting()

        def flush(self) -> None: ...

    def records() -> Iterator[list[bytes]]:
        for _ in range(5_000):
            yield [b"v"]

    sink = Sink(Slow(), "t", None, Shape(None, b"k", [], empty_is_null=False), Sending(), Meter())  # type: ignore[arg-type]
    sink.write(records())
    assert 1_000 <= looks <= 10_000
    sink.finish()


@pytest.mark.parametrize("option", [(), ("-l",)])
def test_with_a_file_missing_none_is_written(
    option: tuple[str, ...], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(_: object) -> None:
        raise AssertionError("it began to write")

    monkeypatch.setattr(produce, "Producer", connect)
    (tmp_path / "there").write_bytes(b"a record")
    files = [word for name in ("there", "missing") for word in (*option, f"{tmp_path}/{name}")]
    assert command("produce", "-t", "any", *files) == (1, "", f"odradek produce: {tmp_path}/missing: No such file or directory\n")


@pytest.mark.parametrize("option", [(), ("-l",)])
def test_a_pipe_is_opened_once(
    option: tuple[str, ...], bootstrap: str, topic: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def connect(_: object) -> None:
        raise OdradekError("it begins to write")

    opened: list[Path] = []
    with monkeypatch.context() as patch:
        patch.setattr(produce, "Producer", connect)
        patch.setattr(Path, "open", lambda path, *_, **__: opened.append(path) or io.BytesIO())
        assert command("produce", "-t", topic, "-q", *option, str(pipe)).err == "odradek produce: it begins to write\n"
    assert pipe not in opened, "its writer loses what it writes to a reader that goes away"
    writer = threading.Thread(target=pipe.write_bytes, args=(b"a\n",))
    writer.start()
    assert command("produce", "-t", topic, "-p", "0", *option, str(pipe), "-b", bootstrap) == (0, "", "")
    writer.join()
    assert records_of(bootstrap, topic, 0) == [(None, b"a" if option else b"a\n")]


def test_bytes_that_are_not_utf8_are_written_as_they_were_typed(bootstrap: str, topic: str, command: Command) -> None:
    odd = os.fsdecode(b"\xff")
    assert command("produce", "-t", topic, "-p", "0", "-k", odd, "-H", f"h={odd}", "-b", bootstrap, stdin=b"v\n") == (0, "", "")
    at = ("consume", "-t", topic, "-p", "0", "-e", "-b", bootstrap)
    record = json.loads(command(*at, "-J").out)
    assert (record["key"], record["headers"], record["base64"]) == ("/w==", ["h", "/w=="], ["headers[1]", "key"])
    keyed = ("produce", "-t", topic, "-p", "1", "-b", bootstrap)
    properties = ("--reader-property", "parse.key=true", "--reader-property", f"key.separator={odd}")
    assert command(*keyed, *properties, stdin=b"k\xffv\n") == (0, "", "")
    assert records_of(bootstrap, topic, 1) == [(b"k", b"v")]


@pytest.mark.parametrize("words", [("-D", "{}"), ("-K", "{}"), ("-f", "%s{}"), ("--formatter-property", "line.separator={}")])
def test_bytes_that_are_not_utf8_are_printed_as_they_were_typed(
    words: tuple[str, str], bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.delenv("ODRADEK_PROFILE", raising=False)
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"v", key=b"k", partition=0)
    option, text = words
    capsysbinary.readouterr()
    assert consume.main(["-t", topic, "-e", option, text.format(os.fsdecode(b"\xff")), "-q", "-b", bootstrap]) == 0
    assert capsysbinary.readouterr().out == (b"k\xffv\n" if option == "-K" else b"v\xff")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("produce", "-t", "{}"), 2, "-t \\udcff: this value is not valid UTF-8; see `odradek produce --help`"),
        (("produce", "-t", "there", "-H", "{}=1"), 2, "-H \\udcff: this value is not valid UTF-8; see `odradek produce --help`"),
        (("consume", "-t", "there", "-X", "client.id={}"), 1, "\\udcff is not valid UTF-8"),
        (("profile", "create", "odd", "-X", "client.id={}"), 1, "client.id=\\udcff\\n is not valid UTF-8"),
    ],
)
def test_names_and_settings_have_to_be_utf8(
    words: tuple[str, ...], status: int, said: str, bootstrap: str, command: Command, tmp_path: Path
) -> None:
    at = ("-b", bootstrap) if words[0] != "profile" else ()
    answer = command(*(word.format(os.fsdecode(b"\xff")) for word in words), *at, stdin=b"v\n")
    assert answer == (status, "", f"odradek {words[0]}: {said}\n")
    assert not list(tmp_path.rglob("*odd*"))


def test_a_member_begins_where_its_settings_say_unless_told_otherwise(bootstrap: str, topic: str, command: Command) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"old", partition=0)
    at = ("consume", "-t", topic, "-e", "-b", bootstrap)
    assert command(*at, "-G", f"{topic}-a", "-X", "auto.offset.reset=latest").out == ""
    assert command(*at, "-G", f"{topic}-b", "-o", "beginning", "-X", "auto.offset.reset=earliest").out == "old\n"
    assert command(*at, "-G", f"{topic}-c", "-X", "enable.auto.commit=false").out == "old\n"


def test_files_are_records_or_lines(bootstrap: str, topic: str, command: Command, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(f"{name}1\n{name}2".encode())
    at = ("-t", topic, "-b", bootstrap)
    assert command("produce", "-p", "0", f"{tmp_path}/a", f"{tmp_path}/b", *at).status == 0
    assert command("produce", "-p", "1", "-l", f"{tmp_path}/a", "-l", f"{tmp_path}/b", *at).status == 0
    assert records_of(bootstrap, topic, 0) == [(None, b"a1\na2"), (None, b"b1\nb2")]
    assert records_of(bootstrap, topic, 1) == [(None, b"a1"), (None, b"a2"), (None, b"b1"), (None, b"b2")]


def test_empty_is_null_where_it_is_asked_for(bootstrap: str, topic: str, command: Command) -> None:
    for options in (("-Z",), ()):
        assert command("produce", "-t", topic, "-p", "0", "-K", ":", *options, "-b", bootstrap, stdin=b":v\nk:\n").status == 0
        assert command("produce", "-t", topic, "-p", "1", *options, "-b", bootstrap, stdin=b"a\n\n").status == 0
    assert records_of(bootstrap, topic, 0) == [(None, b"v"), (b"k", None), (b"", b"v"), (b"k", b"")]
    assert records_of(bootstrap, topic, 1) == [(None, b"a"), (None, None), (None, b"a"), (None, b"")]


# -- topics and features ------------------------------------------------------------------------------------------------------------------


def test_the_default_of_the_broker_is_taken(bootstrap: str, command: Command) -> None:
    assert command("topics", "create", "by-default", "-b", bootstrap).out == "Created topic by-default (2 partitions).\n"
    assert command("topics", "create", "by-choice", "-p", "3", "-c", "retention.ms=5", "-b", bootstrap).status == 0
    (shown,) = json.loads(command("topics", "describe", "by-choice", "-J", "-b", bootstrap).out)
    assert (shown["topic"], len(shown["partitions"]), shown["configs"]) == ("by-choice", 3, {"retention.ms": "5"})
    first = shown["partitions"][0]
    assert [first[name] for name in ("partition", "leader", "leader_epoch", "replicas", "isr")] == [0, 1, 0, [1], [1]]


def test_validate_only_changes_nothing(bootstrap: str, topic: str, command: Command) -> None:
    at = ("--validate-only", "-b", bootstrap)
    assert command("topics", "create", "never", *at).out.startswith("Would create topic never")
    assert "never" not in command("topics", "list", "-b", bootstrap).out
    assert command("topics", "config", topic, "-s", "retention.ms=7", *at).out == f"Would change topic {topic}.\n"
    assert command("topics", "config", topic, "-b", bootstrap).out == ""
    before = command("features", "describe", "-b", bootstrap).out
    assert command("features", "downgrade", "transaction.version=1", *at).out == "Would downgrade transaction.version to 1.\n"
    assert command("features", "describe", "-b", bootstrap).out == before


def test_lists_are_of_names(bootstrap: str, topic: str, command: Command) -> None:
    names = command("topics", "list", "-b", bootstrap).out.split()
    assert topic in names
    assert names == sorted(names)
    assert json.loads(command("topics", "list", "-J", "-b", bootstrap).out) == names


# -- start and storage --------------------------------------------------------------------------------------------------------------------


def test_an_override_goes_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("\ufeff" + NODE + "num.partitions=1\n")
    assert load_server_properties(str(file)).num_partitions == 1
    assert load_server_properties(str(file), {"num.partitions": "3"}).num_partitions == 3


def test_an_override_is_blamed_and_not_its_line_in_the_file(tmp_path: Path, command: Command) -> None:
    file = tmp_path / "server.properties"
    file.write_text(NODE + "num.partitions=1\n")
    answer = command("start", str(file), "--override", "num.partitions=many")
    assert answer.err == "odradek start: --override: Invalid value many for configuration num.partitions: Not a number of type INT\n"


def test_a_value_that_looks_like_a_key_is_not_blamed(tmp_path: Path, command: Command) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.rack=somewhere\n" + NODE + "num.partitions=broker.rack\n")
    answer = command("start", str(file))
    assert answer.err.startswith(f"odradek start: {file}:8: Invalid value broker.rack for configuration num.partitions")


def test_a_key_is_blamed_by_its_whole_name(tmp_path: Path, command: Command) -> None:
    """log.dirs and log.dir, log.roll.ms and log.roll.ms.x: one is the beginning of the other."""
    file = tmp_path / "server.properties"
    file.write_text("log.dir=/tmp\n" + NODE.replace("log.dirs=@/data", "log.dirs=/a,,/b"))
    assert command("start", str(file)).err.startswith(f"odradek start: {file}:7: Configuration 'log.dirs' values must not be empty")


@pytest.mark.parametrize(
    ("overrides", "listeners"),
    [
        ((), ["PLAINTEXT://localhost:9092", "CONTROLLER://localhost:9093"]),
        (("listeners=PLAINTEXT://:1234",), ["PLAINTEXT://:1234", "CONTROLLER://127.0.0.1:0"]),
        (("listeners=PLAINTEXT://:1,CONTROLLER://:2",), ["PLAINTEXT://:1", "CONTROLLER://:2"]),
        (
            (
                "listeners=PLAINTEXT://:1,C://:2",
                "controller.listener.names=C",
                "listener.security.protocol.map=C:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            ),
            ["PLAINTEXT://:1", "C://:2"],
        ),
    ],
)
def test_a_listener_for_the_controller_is_added_where_there_is_none(overrides: tuple[str, ...], listeners: list[str]) -> None:
    arguments = [word for override in overrides for word in ("--override", override)]
    assert [str(each) for each in start.load(start.parse(arguments)).listeners] == listeners


@pytest.mark.parametrize(
    ("arguments", "listener"),
    [
        ("--port 9192", "PLAINTEXT://localhost:9192"),
        ("--port=0", "PLAINTEXT://localhost:0"),
        ("--host 127.0.0.1", "PLAINTEXT://127.0.0.1:9092"),
        ("--host ::1 --port 1", "PLAINTEXT://[::1]:1"),
        ("--host [::1]", "PLAINTEXT://[::1]:9092"),
        ("--host 0.0.0.0 --port 9192", "PLAINTEXT://:9192"),
        ("--host ::", "PLAINTEXT://:9092"),
    ],
)
def test_host_and_port_say_where_clients_are_served(arguments: str, listener: str) -> None:
    listeners = [str(each) for each in start.load(start.parse(arguments.split())).listeners]
    assert listeners == [listener, "CONTROLLER://127.0.0.1:0"]


@pytest.mark.parametrize(
    ("host", "shown", "address"),
    [
        ("localhost", "localhost", "localhost:4711"),
        ("", "0.0.0.0", "localhost:4711"),
        ("0.0.0.0", "0.0.0.0", "localhost:4711"),
        ("10.1.2.3", "10.1.2.3", "10.1.2.3:4711"),
        ("::", "[::]", "localhost:4711"),
        ("fe80::1", "[fe80::1]", "[fe80::1]:4711"),
    ],
)
def test_what_is_announced_can_be_connected_to(host: str, shown: str, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    start.announce(announced(host))
    said = capsys.readouterr()
    assert (said.err == "") == (host == "localhost")
    assert ("every client that can reach this machine" in said.err) == (host != "localhost")
    assert said.out.splitlines() == [
        "Odradek is ready (node 5, started in 0.25 s)",
        "  listener  C://localhost:4710",
        f"  listener  CLIENTS://{shown}:4711",
        "  data      /data",
        f"  try       echo hello | odradek produce --bootstrap-server {address} --topic greetings",
    ]


@pytest.mark.parametrize(
    ("protocol", "more", "warned"),
    [
        ("SASL_PLAINTEXT", {}, False),
        ("SSL", {"ssl.client.auth": "required"}, False),
        ("SSL", {"ssl.client.auth": "requested"}, True),
        ("PLAINTEXT", {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}, False),
    ],
)
def test_who_is_asked_who_they_are_is_not_warned_of(
    protocol: str, more: dict[str, str], warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    start.announce(announced("10.1.2.3", protocol, more))
    said = capsys.readouterr()
    assert ("every client that can reach this machine can read" in said.err) == warned
    assert said.out.endswith("--topic greetings\n" if protocol == "PLAINTEXT" else "--topic greetings -F client.properties\n")


def announced(host: str, protocol: str = "PLAINTEXT", more: Mapping[str, str] | None = None) -> start.Broker:
    """A broker of which there is only what is announced."""
    bound = [
        BoundListener(Listener("C", "controller", "localhost", 0), 4710, []),
        BoundListener(Listener("CLIENTS", "broker", host, 0), 4711, []),
    ]
    values = {
        "node.id": "5",
        "process.roles": "broker,controller",
        "listeners": "CLIENTS://:4711,NODES://localhost:4712,C://localhost:4710",
        "controller.quorum.bootstrap.servers": "localhost:4710",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "controller.listener.names": "C",
        "inter.broker.listener.name": "NODES",
        "listener.security.protocol.map": f"CLIENTS:{protocol},NODES:PLAINTEXT,C:PLAINTEXT",
        "log.dirs": "/data",
        **(more or {}),
    }
    config = BrokerConfig(values)
    return cast("start.Broker", SimpleNamespace(bound_listeners=bound, config=config, start_seconds=0.25))


def test_ignore_formatted_formats_the_rest(tmp_path: Path, command: Command) -> None:
    file = tmp_path / "server.properties"
    file.write_text(NODE.replace("@/data", f"{tmp_path}/a"))
    assert command("storage", "format", "-c", str(file), "-t", "x", "-s").status == 0
    file.write_text(NODE.replace("@/data", f"{tmp_path}/a,{tmp_path}/b"))
    assert command("storage", "format", "-c", str(file), "-t", "x", "-s").status == 1
    assert command("storage", "format", "-c", str(file), "-t", "x", "-s", "-g").status == 0
    assert command("storage", "info", "-c", str(file)).status == 0


@pytest.mark.parametrize(
    ("unflushed", "status", "told"),
    [
        ([], 0, "0 findings in 0 logs, 0.0 MB read\n"),
        ([True], 0, "0 findings, 1 that the next start recovers in 0 logs, 0.0 MB read\n"),
        ([True, False], 1, "1 finding, 1 that the next start recovers in 0 logs, 0.0 MB read\n"),
    ],
)
def test_scrub_fails_for_what_no_start_mends(
    unflushed: list[bool], status: int, told: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(NODE.replace("@", str(tmp_path)))
    found = [Finding(path="/a", text="torn", unflushed=each) for each in unflushed]
    monkeypatch.setattr("odradek.storage.scrub.scrub", lambda *_: found)
    answer = command("storage", "scrub", str(file))
    assert (answer.status, len(answer.out.splitlines()), answer.err) == (status, len(unflushed), told)


def test_all_records_are_one_transaction_when_the_producer_has_a_name(bootstrap: str, topic: str, command: Command, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"a\nb\n" + b"x" * 2_000_000 + b"\n")
    committed = ("consume", "-t", topic, "-e", "-X", "isolation.level=read_committed", "-b", bootstrap)
    produce_ = ("produce", "-t", topic, "-p", "0", "-X", "transactional.id=cli", "-b", bootstrap)
    assert command(*produce_, "-l", str(lines)).status == 1, "the last one is too large for the topic"
    assert command(*committed).out == ""
    assert command(*produce_, stdin=b"c\nd\n").status == 0
    assert command(*committed).out == "c\nd\n"


def test_a_topic_that_is_not_there_is_remarked_on(bootstrap: str, topic: str, command: Command) -> None:
    answer = command("produce", "-t", f"{topic}x", "-b", bootstrap, stdin=b"a\n")
    remark = f"odradek produce: topic {topic}x does not exist yet; the broker is asked to create it"
    assert (answer.status, answer.err) == (0, f"{remark}. Did you mean {topic}?\n")
    assert command("produce", "-t", f"{topic}x", "-b", bootstrap, stdin=b"b\n").err == ""
    assert command("produce", "-t", "qqqqqqqqqqqqqqqqqqq", "-b", bootstrap, stdin=b"b\n").err.endswith("to create it\n")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_of_a_group_goes_on_where_the_group_is(bootstrap: str, topic: str, command: Command, protocol: str) -> None:
    at = ("-b", bootstrap, "-X", f"group.protocol={protocol}")
    command("produce", "-t", topic, "-p", "0", "-b", bootstrap, stdin=b"1\n2\n3\n4\n")
    read = ("consume", "-t", topic, "-t", "there", "-G", f"{topic}-{protocol}")
    assert command(*read, "-c", "3", *at) == (0, "1\n2\n3\n", "")
    command("produce", "-t", topic, "-p", "1", "-b", bootstrap, stdin=b"5\n")
    answer = command(*read, "-e", *at)
    assert (answer.status, sorted(answer.out.split())) == (0, ["4", "5"])
    assert command(*read, "-e", *at).out == ""
    assert command("consume", "-t", topic, "-X", f"group.id={topic}-{protocol}", "-e", *at).out == ""
    late = ("consume", "-t", topic, "-G", f"{topic}-{protocol}-late", "-o", "end", "-e")
    assert command(*late, *at).out == ""
    command("produce", "-t", topic, "-p", "1", "-b", bootstrap, stdin=b"6\n")
    assert command(*late, *at).out == "6\n"


def test_several_topics_are_read_together(bootstrap: str, topic: str, command: Command) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(f"{topic}2", 1, 1)])
    command("produce", "-t", topic, "-p", "1", "-b", bootstrap, stdin=b"a\n")
    command("produce", "-t", f"{topic}2", "-b", bootstrap, stdin=b"b\n")
    answer = command("consume", "-t", topic, "-t", f"{topic}2", "-e", "-f", "%t %s\\n", "-b", bootstrap)
    assert sorted(answer.out.splitlines()) == [f"{topic} a", f"{topic}2 b"]
    assert command("consume", "-t", topic, "-t", f"{topic}2", "-p", "1", "-e", "-b", bootstrap).status == 1, (
        "one of them has no partition 1"
    )
