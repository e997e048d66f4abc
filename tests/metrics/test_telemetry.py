"""KIP-714 without a broker: who is asked for which metrics, and what is taken of them."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import uuid_to_string
from odradek.config.client_metrics import check_client_metrics, subscription_of
from odradek.metrics.otlp import labelled
from odradek.metrics.telemetry import DEFAULT_INTERVAL_MS, Client, Telemetry, Wanted, labels_of

ID = UUID(int=0x1234_5678_9ABC_4DEF_8000_0000_0000_0001)


def client(**changes: str) -> Client:
    values = {
        "client_id": "orders",
        "software_name": "librdkafka",
        "software_version": "2.4.0",
        "address": "10.0.0.7",
        "port": "5000",
    } | changes
    return Client(ID, **values)


def telemetry(*settings: dict[str, str], **options: int) -> Telemetry:
    made = Telemetry(1000, uuid_to_string, **options)
    made.subscribe(subscription_of(each) for each in settings)
    return made


def ask(made: Telemetry, who: Client | None = None, now: float = 1_000_000.0, connection: str = "c") -> Wanted:
    return made.ask(who or client(), connection, now)


def push(
    made: Telemetry,
    wanted: Wanted,
    now: float,
    *,
    who: Client | None = None,
    subscription_id: int | None = None,
    compression: int = 4,
    size: int = 10,
    terminating: bool = False,
) -> ErrorCode:
    try:
        made.push(
            who or client(),
            "c",
            now,
            subscription_id=wanted.subscription_id if subscription_id is None else subscription_id,
            compression=compression,
            size=size,
            terminating=terminating,
        )
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_without_subscriptions_nothing_is_wanted() -> None:
    wanted = ask(telemetry())
    assert (wanted.metrics, wanted.interval_ms) == ((), DEFAULT_INTERVAL_MS)


@pytest.mark.parametrize("intervals", [("5000", "60000"), ("60000", "5000"), ("60000", "5000", "7000")])
def test_the_shortest_interval_counts_in_whatever_order(intervals: tuple[str, ...]) -> None:
    assert ask(telemetry(*({"metrics": "a", "interval.ms": each} for each in intervals))).interval_ms == 5000


def test_subscriptions_add_up_and_the_shortest_interval_counts() -> None:
    wanted = ask(telemetry({"metrics": "b, a", "interval.ms": "60000"}, {"metrics": "a,c", "interval.ms": "5000"}))
    assert (wanted.metrics, wanted.interval_ms) == (("a", "b", "c"), 5000)
    assert ask(telemetry({"metrics": "a"}, {"metrics": "*"})).metrics == ("*",)


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        ("client_id=orders", True),
        ("client_id=order", False),
        ("client_id=ord.*,client_software_name=librdkafka", True),
        ("client_id=ord.*,client_software_name=apache-kafka-java", False),
        ("client_software_version=2\\.[34]\\.0", True),
        ("client_source_address=10\\.0\\..*", True),
        ("client_source_port=5000", True),
        (f"client_instance_id={uuid_to_string(ID)}", True),
        ("client_instance_id=x", False),
    ],
)
def test_all_selectors_have_to_fit(match: str, fits: bool) -> None:
    assert bool(ask(telemetry({"metrics": "a", "match": match})).metrics) == fits


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"interval.ms": "99"}, ErrorCode.INVALID_REQUEST),
        ({"interval.ms": "3600001"}, ErrorCode.INVALID_REQUEST),
        ({"interval.ms": "soon"}, ErrorCode.INVALID_CONFIG),
        ({"interval.ms": "--5"}, ErrorCode.INVALID_CONFIG),
        ({"interval.ms": "-5"}, ErrorCode.INVALID_REQUEST),
        ({"match": "client_id"}, ErrorCode.INVALID_CONFIG),
        ({"match": "colour=red"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=("}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=a=b"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=" + "a" * 10_001}, ErrorCode.INVALID_CONFIG),
        ({"metrix": "a"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_settings_that_are_none(settings: dict[str, str], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        check_client_metrics(settings)
    assert caught.value.code is code


def test_a_pattern_takes_linear_time() -> None:
    wanted = ask(telemetry({"metrics": "a", "match": "client_id=(a+)+b"}), client(client_id="a" * 5000))
    assert wanted.metrics == ()


def test_who_asks_too_soon_is_throttled() -> None:
    made = telemetry({"metrics": "a", "interval.ms": "1000"})
    ask(made, now=5000.0)
    with pytest.raises(KafkaError) as caught:
        ask(made, now=5999.0)
    assert caught.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    ask(made, now=6000.0)
    assert made.counts.throttled == 1


def test_the_first_push_may_come_at_once_and_the_next_after_the_interval() -> None:
    made = telemetry({"metrics": "a", "interval.ms": "1000"})
    wanted = ask(made, now=5000.0)
    assert push(made, wanted, 5001.0) is ErrorCode.NONE
    assert push(made, wanted, 5900.0) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(made, wanted, 6001.0) is ErrorCode.NONE
    with pytest.raises(KafkaError):
        ask(made, now=6500.0)  # a push counts, too
    assert made.counts.throttled == 2


def test_the_last_push_may_come_at_any_time_and_is_the_last() -> None:
    made = telemetry({"metrics": "a", "interval.ms": "1000"})
    wanted = ask(made, now=5000.0)
    assert push(made, wanted, 5001.0) is ErrorCode.NONE
    assert push(made, wanted, 5002.0, terminating=True) is ErrorCode.NONE
    assert push(made, wanted, 9000.0, terminating=True) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"subscription_id": 7}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"compression": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"compression": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"size": 1001}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"size": 1000}, ErrorCode.NONE),
        ({"compression": 0}, ErrorCode.NONE),
        ({"subscription_id": 7, "compression": 5, "size": 1001}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
    ],
)
def test_what_is_not_taken(changes: dict[str, int], code: ErrorCode) -> None:
    made = telemetry({"metrics": "a"})
    assert push(made, ask(made), 1_000_001.0, **changes) is code  # type: ignore[arg-type]


def test_a_client_without_an_id_cannot_push() -> None:
    made = telemetry({"metrics": "a"})
    for number in (0, 1):
        who = client()._replace(instance_id=UUID(int=number))
        assert push(made, Wanted(0, 0, ()), 0.0, who=who) is ErrorCode.INVALID_REQUEST
    assert len(made) == 0


def test_a_changed_subscription_is_noticed_and_the_times_stay() -> None:
    made = telemetry({"metrics": "a", "interval.ms": "1000"})
    before = ask(made, now=5000.0)
    made.subscribe([subscription_of({"metrics": "b", "interval.ms": "1000"})])
    assert push(made, before, 5500.0) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert made.counts.unknown == 1
    with pytest.raises(KafkaError) as caught:
        ask(made, now=5600.0)
    assert caught.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert ask(made, now=6500.0).metrics == ("b",)


def test_a_push_that_is_too_early_stays_so_when_subscriptions_change() -> None:
    made = telemetry({"metrics": "a", "interval.ms": "1000"})
    wanted = ask(made, now=5000.0)
    assert push(made, wanted, 5001.0) is ErrorCode.NONE
    made.subscribe([subscription_of({"metrics": "a", "interval.ms": "1000"})])
    with pytest.raises(KafkaError):
        ask(made, now=5002.0)


def test_clients_are_forgotten_with_their_connection_and_when_there_are_too_many() -> None:
    made = telemetry({"metrics": "a"}, most_clients=2)
    others = [client()._replace(instance_id=UUID(int=number)) for number in (11, 12, 13)]
    for number, who in enumerate(others):
        ask(made, who, connection=str(number))
    assert len(made) == 2
    made.disconnected("1")
    made.disconnected("0")
    made.disconnected("nobody's")
    assert len(made) == 1
    ask(made, others[1], connection="1")  # at once: nothing is known of it any more


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])


def resource(*attributes: bytes) -> bytes:
    inner = b"".join(attributes)
    return b"\x0a" + varint(len(inner)) + inner


def test_labels_stand_behind_what_is_there_in_each_resource() -> None:
    first, second = b"\x0a\x02\x10\x05" + b"\x12\x00", b"\x12\x01\x00"
    data = resource(first) + resource(second)
    label = b"\x0a\x01k" + b"\x12" + bytes([4]) + b"\x0a\x02\xc3\xbc"
    added = b"\x0a" + bytes([len(label) + 2]) + b"\x0a" + bytes([len(label)]) + label
    assert labelled(data, {"k": "ü"}) == resource(first, added) + resource(second, added)
    assert labelled(b"", {"k": "v"}) == b""
    long = b"\x0a" + varint(300) + b"v" * 300
    assert labelled(resource(long) + resource(first), {"k": "ü"}) == resource(long, added) + resource(first, added)


def read(data: bytes) -> tuple[bytes, bytes]:
    """Return the content of the first field of `data`, and what follows that field."""
    size = shift = 0
    for position, byte in enumerate(data[1:], 2):
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            assert len(data) - position >= size
            return data[position : position + size], data[position + size :]
    raise AssertionError("a length without an end")


@pytest.mark.parametrize("size", [*range(100, 131), *range(16_360, 16_386)])
def test_labels_of_any_length_are_read_again(size: int) -> None:
    # Each layer adds a few bytes: somewhere in the range the length of each is one less than, and just, a power of 128.
    inner, rest = read(labelled(b"\x0a\x00", {"k": "v" * size}))
    assert rest == b""
    attributes, rest = read(inner)
    assert rest == b""
    pair, rest = read(attributes)
    assert rest == b""
    key, value = read(pair)
    assert key == b"k"
    assert read(read(value)[0]) == (b"v" * size, b"")


@pytest.mark.parametrize("data", [b"\x12\x00", b"\x0a\x05\x00", b"\x0a", b"\x0a\xff\xff\xff\xff\xff\xff", b"\x0a\x80", b"junk"])
def test_what_is_no_metrics_data(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        labelled(data, {"k": "v"})


def test_protobuf_reads_the_labels() -> None:
    wrappers = pytest.importorskip("google.protobuf.descriptor_pb2")
    # FileDescriptorSet { repeated FileDescriptorProto file = 1 { string name = 1; } } has the shape of MetricsData down to here.
    sets = wrappers.FileDescriptorSet()
    sets.file.add(package="p")
    data = labelled(sets.SerializeToString(), {"key": "value"})
    again = wrappers.FileDescriptorSet.FromString(data)
    assert again.file[0].package == "p"
    assert "key" in again.file[0].name


def test_labels_say_who_it_was() -> None:
    assert labels_of(client(), "id", 3) == {
        "client_instance_id": "id",
        "client_id": "orders",
        "client_software_name": "librdkafka",
        "client_software_version": "2.4.0",
        "client_source_address": "10.0.0.7",
        "client_source_port": "5000",
        "kafka_broker_id": "3",
    }
