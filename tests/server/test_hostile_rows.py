"""Every kind of hostile input has its answer: a table, tried on a whole broker, on each way in where that makes a difference.

`CLOSES` of test_hostile_bytes.py are the malformed frames. `ELSEWHERE` names the tests of what needs a clock, a JWT or another room.
The same bytes go to JVM Kafka, which has to answer alike but for `OTHERWISE` (interop).
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

import pytest

from odradek.base.errors import ErrorCode
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.records.batch import encode_batch
from odradek.records.compression import Compression
from odradek.records.patch import seal
from odradek.security.sasl.scram import salted_password
from odradek.security.sasl.scram_client import ScramClient
from tests.network.support import framed
from tests.server.hostile_broker import CAPPED, DEADLINE_S, MOST_CAPPED, WAYS, Hostile, Wire, hostile
from tests.server.hostile_support import CLOSES
from tests.server.support import request

MIB: Final = 1024 * 1024
HALF_MIB: Final = 512 * 1024
TESTS: Final = Path(__file__).parents[1]
ELSEWHERE: Final = {
    "a frame that does not arrive in time": "network/test_acceptor.py::test_declared_but_unsent_bytes_cost_next_to_nothing",
    "half a handshake of TLS": "network/test_secure.py::test_half_a_handshake_ends_at_its_deadline",
    "half a login": "server/test_authentication.py::test_who_does_not_finish_in_time_is_closed",
    "nobody reads the answers": "network/test_acceptor.py::test_those_that_take_no_large_answer_are_closed_for_others_who_never_wait",
    "too many connections of one address": "network/test_acceptor.py::test_connections_are_counted_in_total_and_by_address",
    "connections too fast": "simulation/test_quotas.py::test_new_connections_are_limited_by_listener_and_address",
    "a log line for each": "network/test_limits.py::test_peers_cannot_fill_the_log",
    "CVE-2026-111073: a bomb of telemetry": "server/test_telemetry.py::test_a_bomb_is_too_large_and_is_not_unpacked",
    "CVE-2026-33557, CVE-2026-110985: tokens": "server/test_published_holes.py::test_a_token_is_signed_by_the_provider",
    "CVE-2025-27817: URLs": "server/test_published_holes.py::test_cve_2025_27817_only_what_is_allowed_is_read",
    "CVE-2023-25194, CVE-2025-27818, -9": "server/test_published_holes.py::test_cve_2023_25194_and_2025_27818_no_other_module_is_loaded",
    "CVE-2021-38153: secrets": "server/test_published_holes.py::test_cve_2021_38153_secrets_are_compared_in_constant_time",
    "CVE-2026-33558: logs": "server/test_published_holes.py::test_cve_2026_33558_no_log_has_the_password",
    "CVE-2026-10143: iterations": "server/test_published_holes.py::test_cve_2026_10143_nobody_is_kept_busy_with_iterations",
    "CVE-2026-35554: a producer's buffers": "client/test_buffers.py::test_a_buffer_that_may_still_be_sent_is_not_used_again",
}
AMPLIFIERS: Final = ("array of 20 million empty strings", "20 million tagged fields")
OTHERWISE: Final = ("client id with a negative length", "client id that is not UTF-8", "text that is not UTF-8", "tags out of order")
"""What JVM Kafka reads all the same: any negative length as null, other bytes as U+FFFD, tags in any order."""


@pytest.fixture(scope="module", params=["odradek", pytest.param("jvm", marks=pytest.mark.jvm)])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    with hostile(request.param, tmp_path_factory.mktemp("hostile")) as started:
        yield started


@pytest.fixture
def ours(broker: Hostile) -> Hostile:
    """For what JVM Kafka does not survive, or has no bound for."""
    if broker.jvm:
        pytest.skip("JVM Kafka has no such bound, or ends")
    return broker


@pytest.mark.parametrize("row", ELSEWHERE)
def test_what_is_tried_elsewhere_is_there(row: str) -> None:
    path, _, name = ELSEWHERE[row].partition("::")
    assert re.search(rf"^(async )?def {name}", (TESTS / path).read_text(), re.MULTILINE)


# -- frames ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [each for each in WAYS if each != "before a login over TLS"])
@pytest.mark.parametrize("name", CLOSES)
def test_a_malformed_frame_closes(broker: Hostile, name: str, way: str) -> None:
    if broker.jvm and name in AMPLIFIERS:
        pytest.skip("JVM Kafka takes the memory (CVE-2026-111108, CVE-2026-111115)")
    with broker.wire(way) as wire:
        wire.send(CLOSES[name])
        if broker.jvm and name in OTHERWISE and not way.startswith("in a login") and (way in WAYS[:2] or name != "text that is not UTF-8"):
            assert wire.frame()
            return
        answer = wire.rest()
    if way.startswith("in a login") and answer:
        code = ErrorCode.ILLEGAL_SASL_STATE.to_bytes(2, "big")
        assert code in answer[8:] or len(answer) < 200, "it is told that its request is out of turn"
    else:
        assert answer == b"", answer[:100].hex()
    broker.serves()


@pytest.mark.parametrize("way", WAYS[:4])
def test_versions_too_new_are_answered_with_the_range(broker: Hostile, way: str) -> None:
    with broker.wire(way) as wire:
        wire.send(framed(struct.pack(">hhih", ApiKey.API_VERSIONS, 77, 7, -1) + b"\x00garbage"))
        answer = wire.frame()
        assert struct.unpack(">ih", answer[:6]) == (7, ErrorCode.UNSUPPORTED_VERSION)
        assert struct.pack(">hhh", ApiKey.API_VERSIONS, 0, 4) in answer
        assert wire.versions() == 0, "it may try once more"


@pytest.mark.parametrize("way", WAYS)
def test_many_that_declare_much_and_send_nothing_cost_little(ours: Hostile, way: str) -> None:
    count = 40  # no more than wait to be accepted
    before = ours.broker.rss_bytes()
    wires = [ours.wire(way) for _ in range(count)]
    try:
        size = 99 * MIB if way in WAYS[:2] else HALF_MIB
        for wire in wires:
            wire.send(struct.pack(">i", size) + b"\0\x12")
        ours.serves()
        assert ours.broker.rss_bytes() - before <= 16 * MIB
    finally:
        for wire in wires:
            wire.socket.close()


@pytest.mark.parametrize("way", WAYS[2:])
@pytest.mark.parametrize("size", [HALF_MIB + 1, 99 * MIB])
def test_cve_2022_34917_a_stranger_says_little(ours: Hostile, size: int, way: str) -> None:
    before = ours.broker.rss_bytes()
    with ours.wire(way) as wire:
        wire.send(struct.pack(">i", size) + b"\0\x12" + bytes(min(size, MIB)))
        assert wire.rest() == b""
    assert ours.broker.rss_bytes() - before <= 8 * MIB
    ours.serves()


@pytest.mark.parametrize("way", WAYS[2:])
def test_nothing_is_served_before_a_login(broker: Hostile, way: str) -> None:
    with broker.wire(way) as wire:
        wire.send(framed(request(ApiKey.METADATA, 12, MetadataRequest(topics=None).encode(12))))
        answer = wire.rest()
    assert b"neighbour" not in answer
    assert len(answer) < 200
    if way.startswith("before"):
        assert answer == b""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cve", ["CVE-2026-111108: objects", "CVE-2026-111115: tags"])
def test_small_bytes_do_not_become_large_memory(ours: Hostile, cve: str, way: str) -> None:
    """As much of each as fits into what a stranger may say."""
    count = 400_000
    if "objects" in cve:
        body = request(ApiKey.FIND_COORDINATOR, 4, b"\x00" + bytes([0x81, 0xB5, 0x18]) + b"\x01" * count + b"\x00")
    else:
        body = request(ApiKey.API_VERSIONS, 3, b"\x02a\x02b" + bytes([0xC0, 0x9A, 0x0C]) + b"\x00\x00" * (count // 2))
    before = ours.broker.peak_rss_bytes()
    for _ in range(3):
        with ours.wire(way) as wire:
            wire.send(framed(body))
            wire.rest()
    assert ours.broker.peak_rss_bytes() - before <= 32 * MIB
    ours.serves()


@pytest.mark.parametrize("way", WAYS[:4])
def test_an_address_has_so_many_connections_and_others_are_served(ours: Hostile, way: str) -> None:
    wires = [ours.wire(way, CAPPED) for _ in range(MOST_CAPPED)]
    try:
        assert all(wire.versions() == 0 for wire in wires)
        with pytest.raises((ConnectionError, OSError)), ours.wire(way, CAPPED) as further:
            further.versions()
        ours.serves()
    finally:
        for wire in wires:
            wire.socket.close()


# -- logins ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS[4:])
@pytest.mark.parametrize(
    "token",
    [
        pytest.param(b"bob\0alice\0secret", id="CVE-2017-12610: alice as bob"),
        pytest.param(b"\0alice\0guess", id="a wrong password"),
        pytest.param(b"\0bob\0secret", id="nobody"),
        pytest.param(b"\0" * 400_000, id="many parts"),
        pytest.param(b"\xff" * 400_000, id="not UTF-8"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_a_wrong_login_is_refused(broker: Hostile, token: bytes, way: str) -> None:
    with broker.wire(way) as wire:
        begin = time.monotonic()
        answer = cast(SaslAuthenticateResponse, wire.ask(SaslAuthenticateRequest(auth_bytes=token), 2))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert time.monotonic() - begin >= 0.01, "not before the delay"
        assert wire.rest() == b""
    broker.serves()


@pytest.mark.parametrize("trick", ["a different nonce", "a longer nonce", "no proof", "a different channel"])
def test_cve_2024_56128_the_nonce_of_scram_is_the_servers(broker: Hostile, trick: str) -> None:
    keys = salted_password("SCRAM-SHA-256", "pencil", b"salt", 4096)
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name="scrammed", mechanism=1, iterations=4096, salt=b"salt", salted_password=keys
    )
    with broker.wire("plaintext") as admin:
        admin.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)
    for trial in ("", trick):  # without it the login succeeds
        with broker.wire("before a login") as wire:
            wire.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
            client = ScramClient("SCRAM-SHA-256", "scrammed", "pencil", "mine")
            challenge = cast(SaslAuthenticateResponse, wire.ask(SaslAuthenticateRequest(auth_bytes=client.first()), 2))
            final = client.answer(challenge.auth_bytes)
            assert final is not None
            nonce = challenge.auth_bytes[: challenge.auth_bytes.index(b",")]
            final = {
                "": final,
                "a different nonce": final.replace(nonce, b"r=mine"),
                "a longer nonce": final.replace(nonce, nonce + b"x"),
                "no proof": final[: final.index(b",p=")],
                "a different channel": final.replace(b"c=biws", b"c=eSws"),
            }[trial]
            answer = cast(SaslAuthenticateResponse, wire.ask(SaslAuthenticateRequest(auth_bytes=final), 2))
            assert answer.error_code == (ErrorCode.SASL_AUTHENTICATION_FAILED if trial else ErrorCode.NONE)


# -- who may what ------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def topic(broker: Hostile) -> str:
    with broker.wire("plaintext") as admin:
        created = cast(CreateTopicsResponse, admin.ask(creation("hostile"), 7))
        assert created.topics[0].error_code == 0
        deadline = time.monotonic() + 10
        while cast(ListOffsetsResponse, end_of(admin)).topics[0].partitions[0].error_code and time.monotonic() < deadline:
            pass
    return "hostile"


def creation(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)])


def end_of(wire: Wire) -> ListOffsetsResponse:
    partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
    asked = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name="hostile", partitions=[partition])])
    return cast(ListOffsetsResponse, wire.ask(asked, 7))


def test_cve_2018_1288_nobody_is_a_replica_without_being_allowed(broker: Hostile, topic: str) -> None:
    fetched = FetchRequest.FetchTopic(topic=topic, partitions=[FetchRequest.FetchPartition(partition=0, partition_max_bytes=1000)])
    with broker.client() as alice:
        answer = cast(FetchResponse, alice.ask(FetchRequest(replica_id=1, max_wait_ms=0, topics=[fetched]), 12))
        assert answer.responses[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert not answer.responses[0].partitions[0].records


def test_cve_2018_17196_nobody_is_a_producer_without_being_allowed(broker: Hostile, topic: str) -> None:
    with broker.client() as alice:
        plain = cast(InitProducerIdResponse, alice.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4))
        assert plain.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        named = cast(InitProducerIdResponse, alice.ask(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000), 4))
        assert named.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        batch = encode_batch([(0, b"k", b"v", [])], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        partition = ProduceRequest.PartitionProduceData(index=0, records=batch)
        sent = ProduceRequest(
            transactional_id="t",
            acks=-1,
            timeout_ms=1000,
            topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])],
        )
        assert produced(alice, sent) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def produced(wire: Wire, sent: ProduceRequest) -> int:
    return cast(ProduceResponse, wire.ask(sent, 9)).responses[0].partition_responses[0].error_code


# -- requests of those who may -----------------------------------------------------------------------------------------------------


def test_cve_2026_83525_a_fetch_of_no_snapshot(ours: Hostile) -> None:
    with ours.controller() as wire:
        answer = cast(FetchSnapshotResponse, wire.ask(FetchSnapshotRequest(topics=[]), 1))
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        none = FetchSnapshotRequest.TopicSnapshot(name="__cluster_metadata")
        assert cast(FetchSnapshotResponse, wire.ask(FetchSnapshotRequest(topics=[none]), 1)).error_code == ErrorCode.INVALID_REQUEST
    ours.serves()


def bent(*edits: tuple[int, bytes]) -> bytes:
    """A batch of three records with other bytes in some places, and the CRC that belongs to them."""
    batch = bytearray(encode_batch([(0, b"k", b"v" * 50, [("h", b"x")])] * 3))
    for at, octets in edits:
        batch[at : at + len(octets)] = octets
    seal(batch)
    return bytes(batch)


GOOD: Final = encode_batch([(0, b"k", b"v", [])])
RECORDS: Final = {
    "a wrong CRC": (GOOD[:-1] + b"\xff", ErrorCode.CORRUPT_MESSAGE),
    "a batch of more than message.max.bytes": (encode_batch([(0, None, bytes(1_100_000), [])]), ErrorCode.MESSAGE_TOO_LARGE),
    "two batches": (GOOD + GOOD, ErrorCode.INVALID_RECORD),
    "a base offset": (bent((0, b"\0\0\0\0\0\0\0\1")), ErrorCode.INVALID_RECORD),
    "a batch of control": (bent((22, b"\x20")), ErrorCode.INVALID_RECORD),
    "a last offset of two billion": (bent((23, b"\x7f\xff\xff\xff")), ErrorCode.INVALID_RECORD),
    "two billion records": (bent((23, b"\x7f\xff\xff\xfe"), (57, b"\x7f\xff\xff\xff")), ErrorCode.INVALID_RECORD),
    "no records": (bent((57, b"\0\0\0\0")), ErrorCode.INVALID_RECORD),
    "two billion headers": (bent((61 + 7 + 50, b"\xfe\xff\xff\xff\x0f")), ErrorCode.INVALID_RECORD),
    "an unknown codec": (bent((22, b"\x05")), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "not what the codec says": (bent((22, b"\x04")), ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("lie", RECORDS)
def test_records_that_lie_are_not_appended(broker: Hostile, topic: str, lie: str) -> None:
    records, code = RECORDS[lie]
    if broker.jvm and "codec" in lie:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    with broker.wire("plaintext") as wire:
        before = end_of(wire).topics[0].partitions[0].offset
        partition = ProduceRequest.PartitionProduceData(index=0, records=records)
        assert (
            produced(
                wire,
                ProduceRequest(
                    acks=-1, timeout_ms=1000, topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])]
                ),
            )
            == code
        )
        assert end_of(wire).topics[0].partitions[0].offset == before


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.ZSTD])
def test_a_bomb_is_not_unpacked(ours: Hostile, topic: str, compression: Compression) -> None:
    """64 MiB of zeros in a few KiB. LZ4 and snappy cannot make a thousandfold of anything."""
    bomb = encode_batch([(0, None, bytes(64 * MIB), [])], compression=compression)
    before = ours.broker.peak_rss_bytes()
    with ours.wire("plaintext") as wire:
        partition = ProduceRequest.PartitionProduceData(index=0, records=bomb)
        topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])]
        assert produced(wire, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics)) == ErrorCode.INVALID_RECORD
    assert ours.broker.peak_rss_bytes() - before <= 100 * MIB
    ours.serves()


@pytest.mark.parametrize("name", ["..", "../../etc/passwd", "a/b", "a\0b", "x" * 250, "", "\N{SNOWMAN}", "a\nb"])
def test_a_topic_is_no_path(broker: Hostile, name: str) -> None:
    with broker.wire("plaintext") as wire:
        answer = cast(CreateTopicsResponse, wire.ask(creation(name), 7))
        assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not (broker.broker.data.parent / "etc").exists()


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        (r"(a)\1", ErrorCode.INVALID_REGULAR_EXPRESSION),
        (r"(?=a)b", ErrorCode.INVALID_REGULAR_EXPRESSION),
        ("(" * 2000, ErrorCode.INVALID_REGULAR_EXPRESSION),
        (r"((a+)+)+b" * 50, ErrorCode.NONE),
        (r"((((a{100}){100}){100}){100})", ErrorCode.INVALID_REGULAR_EXPRESSION),
        ("a{900}" * 300, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_a_pattern_takes_no_time(broker: Hostile, topic: str, pattern: str, code: ErrorCode) -> None:
    joining = ConsumerGroupHeartbeatRequest(
        group_id=f"patterns {len(pattern)}",
        member_id="AAAAAAAAAAAAAAAAAAAAAA",
        rebalance_timeout_ms=1000,
        subscribed_topic_regex=pattern,
        topic_partitions=[],
    )
    if broker.jvm and "00}" in pattern:
        pytest.skip("JVM Kafka is kept busy by it for more than ten seconds")
    with broker.wire("plaintext") as wire:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = cast(ConsumerGroupHeartbeatResponse, wire.ask(joining, 1))
            if answer.error_code not in (
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.NOT_COORDINATOR,
            ):
                break
            assert time.monotonic() < deadline
            cast(object, wire.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[joining.group_id]), 4))
        assert answer.error_code == code
    broker.serves()


@pytest.mark.parametrize("value", ["${env:PATH}", "${file:/etc/passwd:root}", "${directory:/etc:passwd}"])
def test_cve_2024_31141_nothing_is_read_for_a_stranger(ours: Hostile, topic: str, value: str) -> None:
    """Neither for a topic nor for a broker: a reference that comes with a request stays the text that it is, or is refused."""
    for kind, name, key in ((2, topic, "compression.type"), (4, "", "listener.name.tls.ssl.keystore.location")):
        config = IncrementalAlterConfigsRequest.AlterableConfig(name=key, value=value)
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
        with ours.wire("plaintext") as wire:
            answer = cast(IncrementalAlterConfigsResponse, wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1))
            assert answer.responses[0].error_code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)
            whole = DescribeConfigsRequest.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            described = DescribeConfigsRequest(resources=[whole])
            configs = cast(DescribeConfigsResponse, wire.ask(described, 4)).results[0].configs
        assert not any("/bin" in (each.value or "") or "root:" in (each.value or "") for each in configs)
