"""Readers and writers: round trips, chunks, defaults, and what is refused."""

from __future__ import annotations

import pickle
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.errors import ProtocolError
from odradek.protocol import codegen
from odradek.protocol.codegen import UUID_CACHE_LIMIT, uuid_of
from odradek.protocol.errors import InvalidMessageError, UnsupportedVersionError
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.metadata_records import NoOpRecord, TopicRecord
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.registry import decode_metadata_record, encode_metadata_record, request_class
from odradek.protocol.schema import INLINE_LIMIT, Message, records_view
from odradek.protocol.varint import decode_uvarint, decode_varint, decode_varlong, encode_uvarint, encode_varint
from tests.protocol.generate import Generator, all_messages, versions_of


def produce(records: object) -> ProduceRequest:
    partition = ProduceRequest.PartitionProduceData(index=3, records=records)  # type: ignore[arg-type]
    return ProduceRequest(acks=-1, topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[partition])])


@pytest.mark.parametrize("message", all_messages(), ids=lambda cls: cls.__name__)
def test_what_is_written_reads_back_in_every_version(message: type[Message]) -> None:
    for version in versions_of(message):
        for seed in range(6):
            original = Generator((message.__name__, version, seed), version).message(message)
            encoded = original.encode(version)
            decoded, end = message.decode_prefix(encoded, version)
            assert end == len(encoded), (version, seed)
            assert decoded == original, (version, seed)
            assert decoded.encode(version) == encoded, (version, seed)
            assert b"".join(original.encode_chunks(version)) == encoded  # type: ignore[arg-type]
            padded = memoryview(b"\1" * 20_000 + encoded + b"\2" * 20_000)
            assert message.decode_prefix(padded, version, 20_000) == (original, 20_000 + len(encoded))


@pytest.mark.parametrize("message", all_messages(), ids=lambda cls: cls.__name__)
def test_a_message_cut_short_is_refused(message: type[Message]) -> None:
    for version in versions_of(message):
        encoded = Generator((message.__name__, version), version).message(message).encode(version)
        cuts = {*range(min(len(encoded), 40)), *range(0, len(encoded), len(encoded) // 20 + 1), len(encoded) - 1} - {-1}
        for cut in cuts:
            with pytest.raises(ProtocolError):
                message.decode(encoded[:cut], version)


def test_fields_start_at_their_defaults_and_lists_are_not_shared() -> None:
    one, two = FetchRequest(), FetchRequest()
    assert (one.replica_id, one.max_bytes, one.rack_id, one.cluster_id) == (-1, 0x7FFFFFFF, "", None)
    assert one.replica_state == FetchRequest.ReplicaState(replica_id=-1, replica_epoch=-1)
    one.topics.append(FetchRequest.FetchTopic(topic="t"))
    assert two.topics == []
    assert one != two
    assert FetchRequest.FetchTopic().topic_id == UUID(int=0)
    with pytest.raises(TypeError):
        FetchRequest(nonsense=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        hash(one)
    assert pickle.loads(pickle.dumps(one)) == one
    assert "FetchRequest.FetchTopic(topic='t'" in repr(one)


def test_a_field_that_a_version_lacks_is_dropped_only_if_ignorable() -> None:
    assert HeartbeatRequest.decode(HeartbeatRequest(group_id="g").encode(0), 0) == HeartbeatRequest(group_id="g")
    with pytest.raises(UnsupportedVersionError, match="group_instance_id"):
        HeartbeatRequest(group_id="g", group_instance_id="i").encode(2)
    request = ApiVersionsRequest(client_software_name="kcat", client_software_version="1")
    assert request.encode(0) == b""


def test_versions_out_of_range_are_refused() -> None:
    for version in (-1, 2, 14):
        with pytest.raises(UnsupportedVersionError):
            ProduceRequest().encode(version)
        with pytest.raises(UnsupportedVersionError):
            ProduceRequest.decode(b"", version)


def test_values_that_do_not_fit_are_refused() -> None:
    for wrong in (
        HeartbeatRequest(group_id=None),  # type: ignore[arg-type]
        HeartbeatRequest(group_id="g", generation_id=2**31),
        HeartbeatRequest(group_id="x" * 32_768),
        HeartbeatRequest(group_id="\ud800"),
    ):
        for version in (0, 4):
            with pytest.raises(InvalidMessageError):
                wrong.encode(version)
    with pytest.raises(InvalidMessageError):
        MetadataRequest(topics=None).encode(0)


class Slice:
    """Bytes in a file."""

    def __init__(self, size: int) -> None:
        self.size = size


def test_records_outside_memory_become_chunks_of_their_own() -> None:
    piece = Slice(70_000)
    for version in (3, 9):
        request = produce([b"head", piece, bytes(10)])
        chunks = request.encode_chunks(version)
        assert chunks[1] is piece
        joined = b"".join([chunk if isinstance(chunk, bytes) else bytes(70_000) for chunk in chunks])
        partition = ProduceRequest.decode(joined, version).topic_data[0].partition_data[0]
        assert records_view(partition.records) == b"head" + bytes(70_010)
        with pytest.raises(TypeError):
            request.encode(version)


def test_large_views_are_not_copied_and_small_ones_are_joined() -> None:
    large = memoryview(bytes(INLINE_LIMIT + 1))
    assert any(chunk is large for chunk in produce(large).encode_chunks(9))
    assert len(produce(memoryview(bytes(100))).encode_chunks(9)) == 1
    assert produce(None).encode_chunks(3) == [produce(None).encode(3)]


def test_records_are_views_of_a_large_buffer() -> None:
    encoded = produce(b"r" * 20_000).encode(9)
    records = ProduceRequest.decode(memoryview(encoded), 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is encoded
    assert records == b"r" * 20_000


def test_tagged_fields_must_ascend_and_unknown_ones_are_passed_over() -> None:
    plain = ApiVersionsResponse().encode(3)
    assert plain[-1:] == b"\0"
    body = plain[:-1]
    assert ApiVersionsResponse.decode(body + b"\2\x07\1x\x09\0", 3) == ApiVersionsResponse()
    for tags in (
        b"\2\x07\0\x07\0",  # the same tag twice
        b"\2\x09\0\x07\0",  # descending
        b"\1\x07\2x",  # longer than the message
        b"\xff\xff\xff\xff\x07",  # two thousand million fields
        b"\xff\xff\xff\xff\xff\1",  # a varint of six bytes
        b"\1\1\x09" + bytes(9),  # nine bytes for an int64
    ):
        with pytest.raises(ProtocolError):
            ApiVersionsResponse.decode(body + tags, 3)
    assert ApiVersionsResponse.decode(body + b"\1\1\x08" + b"\0\0\0\0\0\0\0\5", 3).finalized_features_epoch == 5


def test_a_tagged_field_of_a_later_version_is_refused() -> None:
    replica_state = b"\1\1\x0d" + b"\0\0\0\1" + bytes(8) + b"\0"
    body = FetchRequest().encode(15)[:-1]
    assert FetchRequest.decode(body + replica_state, 15).replica_state.replica_id == 1
    with pytest.raises(ProtocolError, match="tag 1"):
        FetchRequest.decode(FetchRequest().encode(14)[:-1] + replica_state, 14)


@pytest.mark.parametrize(
    ("body", "version"),
    [
        (b"\x7f\xff\xff\xff", 0),  # two thousand million topics
        (b"\xff\xff\xff\xfe", 1),  # fewer than none
        (b"\xff\xff\xff\xff", 0),  # null where version 0 has none
        (b"\0\0\0\1\xff\xff", 1),  # a topic without name
        (b"\0\0\0\1\0\5ab", 1),
        (b"\0\0\0\1\0\2\xc3\x28", 1),  # not UTF-8
        (b"\xff\xff\xff\xff\x0f" + bytes(9), 9),  # a compact length of four thousand million
        (b"\xff\xff\xff\xff\xff\x01", 9),  # a varint of six bytes
        (b"\xff\xff\xff\xff\x1f", 9),  # a varint above 32 bits
    ],
)
def test_lies_about_lengths_are_refused_before_anything_is_made(body: bytes, version: int) -> None:
    with pytest.raises(ProtocolError):
        MetadataRequest.decode(body, version)


def test_a_text_longer_than_an_int16_is_refused_in_flexible_versions() -> None:
    with pytest.raises(ProtocolError, match="32767"):
        HeartbeatRequest.decode(encode_uvarint(32_769) + bytes(40_000), 4)


def test_the_object_budget_bounds_what_a_small_message_may_become() -> None:
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic() for _ in range(1000)]).encode(9)
    assert len(MetadataRequest.decode(request, 9, budget=1000).topics or ()) == 1000
    with pytest.raises(ProtocolError, match="objects"):
        MetadataRequest.decode(request, 9, budget=999)
    offline = [MetadataRequest.MetadataRequestTopic(name="") for _ in range(3)]
    assert MetadataRequest.decode(MetadataRequest(topics=offline).encode(9), 9, budget=3).topics == offline


def test_nullable_structs() -> None:
    absent = ConsumerGroupHeartbeatResponse()
    present = ConsumerGroupHeartbeatResponse(assignment=ConsumerGroupHeartbeatResponse.Assignment())
    assert absent.encode(0)[-2:] == b"\xff\0"
    assert present.encode(0)[-4:] == b"\1\1\0\0"
    for message in (absent, present):
        assert ConsumerGroupHeartbeatResponse.decode(message.encode(0), 0) == message


def test_metadata_records_are_framed_with_version_and_type() -> None:
    record = TopicRecord(name="flights", topic_id=UUID(int=77))
    framed = encode_metadata_record(record, 0)
    assert framed[:3] == b"\1\2\0"
    assert decode_metadata_record(framed) == (record, 0)
    assert decode_metadata_record(memoryview(encode_metadata_record(NoOpRecord(), 0))) == (NoOpRecord(), 0)
    for wrong in (b"", b"\1", b"\1\2", b"\0\2\0", b"\1\x06\0\0", b"\1\2\1" + framed[3:], framed + b"\0", framed[:-1]):
        with pytest.raises(ProtocolError):
            decode_metadata_record(wrong)


def test_unknown_api_keys_are_refused() -> None:
    for key in (-1, 93, 32_767):
        with pytest.raises(ProtocolError):
            request_class(key)


@given(st.integers(0, 2**32 - 1))
@settings(derandomize=True, max_examples=200)
def test_unsigned_varints(value: int) -> None:
    encoded = encode_uvarint(value)
    assert decode_uvarint(b"??" + encoded + b"!", 2) == (value, 2 + len(encoded))


@given(st.integers(-(2**63), 2**63 - 1))
@settings(derandomize=True, max_examples=200)
def test_signed_varints(value: int) -> None:
    encoded = encode_varint(value)
    assert decode_varlong(encoded, 0) == (value, len(encoded))
    if -(2**31) <= value < 2**31:
        assert decode_varint(encoded, 0) == (value, len(encoded))


def test_varints_too_long_are_refused() -> None:
    with pytest.raises(ProtocolError):
        decode_uvarint(b"\xff" * 6, 0)
    with pytest.raises(ProtocolError):
        decode_varlong(b"\xff" * 9 + b"\2", 0)
    with pytest.raises(ProtocolError):
        decode_varlong(b"\xff" * 11, 0)


def test_fetch_responses_of_file_slices_know_their_size() -> None:
    piece = Slice(1_000_000)
    partition = FetchResponse.PartitionData(partition_index=0, records=piece)
    chunks = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition])]).encode_chunks(12)
    assert [chunk is piece for chunk in chunks] == [False, True, False]


def test_unknown_tags_alone_are_held_to_the_same_order() -> None:
    """Of a struct that has no tagged fields of its own."""
    body = HeartbeatRequest().encode(4)[:-1]
    assert HeartbeatRequest.decode(body + b"\2\x07\1x\x09\0", 4) == HeartbeatRequest()
    for tags in (b"\2\x07\0\x07\0", b"\2\x09\0\x07\0", b"\1\x07\2x"):
        with pytest.raises(ProtocolError, match="out of order or longer"):
            HeartbeatRequest.decode(body + tags, 4)


def test_a_struct_has_so_many_tagged_fields_and_no_more() -> None:
    for message, version in ((HeartbeatRequest, 4), (ApiVersionsResponse, 3)):
        body = message().encode(version)[:-1]
        for count in (512, 513):
            tags = encode_uvarint(count) + b"".join(encode_uvarint(100 + tag) + b"\0" for tag in range(count))
            if count == 512:
                assert message.decode(body + tags, version) == message()
            else:
                with pytest.raises(ProtocolError, match="513 tagged fields"):
                    message.decode(body + tags, version)


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 510, 511, 512, 513, 16_382, 16_383, 16_384])
def test_texts_and_lists_of_every_size_come_back(size: int) -> None:
    for version in (0, 4):
        request = HeartbeatRequest(group_id="g" * size)
        assert HeartbeatRequest.decode(request.encode(version), version) == request
    for version in (8, 12):
        topics = [MetadataRequest.MetadataRequestTopic(name="t")] * size
        assert MetadataRequest.decode(MetadataRequest(topics=topics).encode(version), version).topics == topics


def test_what_is_null_where_it_must_not_be_is_refused_in_every_form() -> None:
    for body, version in ((b"\xff\xff" + bytes(20), 0), (b"\0" + bytes(20), 4)):
        with pytest.raises(ProtocolError, match="group_id: null"):
            HeartbeatRequest.decode(body, version)


def test_a_text_may_be_32767_bytes_long_and_no_longer() -> None:
    for version in (0, 4):
        request = HeartbeatRequest(group_id="g" * 32_767)
        assert HeartbeatRequest.decode(request.encode(version), version) == request
        with pytest.raises(InvalidMessageError):
            HeartbeatRequest(group_id="g" * 32_768).encode(version)


def test_an_empty_list_is_not_null() -> None:
    for version in (1, 9):
        assert MetadataRequest.decode(MetadataRequest(topics=[]).encode(version), version).topics == []
        assert MetadataRequest.decode(MetadataRequest(topics=None).encode(version), version).topics is None


def test_tagged_fields_are_written_in_ascending_order() -> None:
    response = ApiVersionsResponse(
        finalized_features_epoch=3,
        zk_migration_ready=True,
        supported_features=[ApiVersionsResponse.SupportedFeatureKey(name="f", min_version=0, max_version=1)],
    )
    encoded = response.encode(3)
    assert encoded[len(ApiVersionsResponse().encode(3)) - 1 :][:2] == b"\3\0"
    assert ApiVersionsResponse.decode(encoded, 3) == response


def test_lists_are_made_anew_for_each_message() -> None:
    one, two = FetchRequest(), FetchRequest()
    one.topics.append(FetchRequest.FetchTopic())
    assert two.topics == []
    assert FetchRequest().topics == []


def test_ids_are_kept_up_to_a_limit() -> None:
    for number in range(3 * UUID_CACHE_LIMIT):
        assert uuid_of(number.to_bytes(16, "big")).int == number
    assert len(codegen._uuids) <= UUID_CACHE_LIMIT  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(ProtocolError, match="is truncated"):
        uuid_of(b"short")


def test_records_in_several_pieces_announce_the_sum_of_their_sizes() -> None:
    whole = produce(b"abcdef").encode(9)
    assert produce([b"abc", memoryview(b"def")]).encode(9) == whole
    assert b"".join(produce([b"abc", b"", b"def"]).encode_chunks(9)) == whole  # type: ignore[arg-type]


def test_an_unsigned_varint_has_32_bits_at_most() -> None:
    assert decode_uvarint(b"\xff\xff\xff\xff\x0f", 0) == (2**32 - 1, 5)
    for last in (0x10, 0x1F, 0x7F):
        with pytest.raises(ProtocolError, match="longer than 32 bits"):
            decode_uvarint(b"\xff\xff\xff\xff" + bytes([last]), 0)


@pytest.mark.parametrize(("body", "version"), [(b"\0\0\0\x64" + bytes(20), 1), (b"\x65" + bytes(20), 9)])
def test_a_list_is_held_to_the_bytes_behind_it_and_not_to_those_before_it(body: bytes, version: int) -> None:
    with pytest.raises(ProtocolError, match="topics: more elements than bytes"):
        MetadataRequest.decode_prefix(bytes(1000) + body, version, 1000)
