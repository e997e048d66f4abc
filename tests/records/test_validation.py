"""What is refused before an append, with which code, and what is changed."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import check_crc, decode_records, encode_batch, read_header
from odradek.records.compression import Compression
from odradek.records.patch import seal
from odradek.records.validation import (
    AppendRules,
    RecordValidationError,
    ValidatedBatch,
    recompress,
    validate_append,
    validate_batch,
    validate_produce_records,
)

NOW = 1_700_000_000_000
RECORDS = [(NOW - 5, b"k", b"v" * 50, [("h", b"x")]), (NOW, None, None, []), (NOW - 9, b"", b"", [])]
RULES = AppendRules(1_000_000)
BOTH = [Compression.NONE, Compression.ZSTD]


def append(batch: bytes | bytearray, rules: AppendRules = RULES, from_client: bool = True) -> ValidatedBatch:
    return validate_append(memoryview(batch), 0, read_header(batch), rules, now_ms=NOW, from_client=from_client)


def changed(at: int, octets: bytes, compression: Compression = Compression.NONE, **options: int) -> bytearray:
    batch = bytearray(encode_batch(RECORDS, compression=compression, **options))  # type: ignore[arg-type]
    batch[at : at + len(octets)] = octets
    seal(batch)
    return batch


def refused(batch: bytes | bytearray, rules: AppendRules = RULES) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        append(batch, rules)
    return raised.value.code


@pytest.mark.parametrize("compression", list(Compression))
def test_a_good_batch_is_stored_as_it_came(compression: Compression) -> None:
    batch = encode_batch(RECORDS, compression=compression)
    result = append(batch)
    assert bytes(result.batch) == batch
    assert not result.rewritten
    assert (result.max_timestamp, result.record_count) == (NOW, 3)
    check = validate_batch(memoryview(batch), 0, read_header(batch), max_uncompressed=10_000)
    assert (check.record_count, check.max_timestamp, check.min_timestamp) == (3, NOW, NOW - 9)
    assert (check.offset_of_max_timestamp, check.offsets_in_order) == (2, True)


@pytest.mark.parametrize("compression", BOTH)
@pytest.mark.parametrize("control", [False, True])
@pytest.mark.parametrize(
    "rules",
    [
        RULES,
        RULES._replace(max_message_bytes=100),
        RULES._replace(compression=Compression.NONE),
        RULES._replace(compression=Compression.ZSTD),
        RULES._replace(log_append_time=True),
        RULES._replace(before_max_ms=4),
        RULES._replace(after_max_ms=-1),
    ],
)
def test_the_quick_way_of_a_coordinators_batch_gives_what_the_long_way_gives(
    compression: Compression, control: bool, rules: AppendRules, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = encode_batch(RECORDS[:2], compression=compression, control=control)

    def outcome() -> object:
        try:
            return append(batch, rules, from_client=False)
        except KafkaError as error:
            return error.code

    quick = outcome()
    monkeypatch.setattr("odradek.records.validation._own_batch", lambda *_: None)
    assert outcome() == quick


def test_crc_and_size() -> None:
    batch = bytearray(encode_batch(RECORDS))
    batch[-1] ^= 1
    assert refused(batch) == ErrorCode.CORRUPT_MESSAGE
    assert refused(batch, AppendRules(100)) == ErrorCode.MESSAGE_TOO_LARGE
    assert refused(encode_batch(RECORDS)[:-1]) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("compression", BOTH)
@pytest.mark.parametrize(
    ("at", "octets"),
    [
        (0, b"\0\0\0\0\0\0\0\1"),  # base offset
        (22, b"\x20"),  # control
        (23, b"\0\0\0\1"),  # last offset delta
        (23, b"\xff\xff\xff\xff"),
        (57, b"\0\0\0\0"),  # record count
        (57, b"\xff\xff\xff\xff"),
        (57, b"\0\0\0\4"),
    ],
)
def test_headers_that_lie(at: int, octets: bytes, compression: Compression) -> None:
    assert refused(changed(at, octets, compression)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("compression", BOTH)
def test_counts_that_agree_with_each_other_but_not_with_the_records(count: int, compression: Compression) -> None:
    batch = changed(23, (count - 1).to_bytes(4, "big"), compression)
    batch[57:61] = count.to_bytes(4, "big")
    seal(batch)
    assert refused(batch) == ErrorCode.INVALID_RECORD


def test_a_producer_id_needs_a_sequence() -> None:
    assert refused(encode_batch(RECORDS, producer_id=5, producer_epoch=0)) == ErrorCode.INVALID_RECORD
    append(encode_batch(RECORDS, producer_id=5, producer_epoch=0, base_sequence=0))


def test_unknown_compression() -> None:
    assert refused(changed(22, b"\x05")) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_not_what_the_codec_says() -> None:
    for codec in (1, 3, 4):
        assert refused(changed(22, bytes([codec]))) == ErrorCode.INVALID_RECORD


def test_decompression_is_bounded() -> None:
    batch = encode_batch([(NOW, None, bytes(1_000_000), ())], compression=Compression.ZSTD)
    assert refused(batch, RULES._replace(max_uncompressed=100_000)) == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("compression", BOTH)
def test_compacted_topics_need_keys(compression: Compression) -> None:
    with pytest.raises(RecordValidationError) as raised:
        append(encode_batch(RECORDS, compression=compression), RULES._replace(require_keys=True))
    assert raised.value.code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in raised.value.record_errors] == [1]


def test_an_answer_names_no_more_than_a_thousand_records() -> None:
    batch = encode_batch([(NOW, None, b"", [])] * 1500)
    with pytest.raises(RecordValidationError, match="1500 record errors in total") as raised:
        append(batch, RULES._replace(require_keys=True))
    assert [error.batch_index for error in raised.value.record_errors] == list(range(1000))


@pytest.mark.parametrize("compression", BOTH)
def test_timestamps_out_of_range(compression: Compression) -> None:
    records = [(NOW + 3_600_000, b"k", b"", []), (NOW + 3_600_001, b"k", b"", []), (-1, None, b"", []), (0, b"k", b"", [])]
    with pytest.raises(RecordValidationError) as raised:
        append(encode_batch(records, compression=compression), RULES._replace(require_keys=True))
    assert raised.value.code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in raised.value.record_errors] == [1, 2]
    with pytest.raises(RecordValidationError) as raised:
        append(encode_batch(records, compression=compression), RULES._replace(before_max_ms=NOW - 1))
    assert [error.batch_index for error in raised.value.record_errors] == [1, 3]


def test_producers_do_not_set_log_append_time() -> None:
    for rules in (RULES._replace(log_append_time=True), RULES):
        batch = encode_batch([(-1, None, b"", ())], timestamp_type=1)
        assert refused(batch, rules) == ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_is_stamped() -> None:
    result = append(encode_batch([(0, None, b"v", ())] * 2), RULES._replace(log_append_time=True))
    assert result.rewritten
    assert result.max_timestamp == NOW
    assert check_crc(result.batch, 0, result.header)
    assert {record.timestamp for record in decode_records(result.batch)} == {NOW}


def test_a_wrong_max_timestamp_is_corrected() -> None:
    result = append(changed(35, bytes(8)))
    assert result.header.max_timestamp == NOW
    assert bytes(result.batch) == encode_batch(RECORDS)


@pytest.mark.parametrize("source", list(Compression))
@pytest.mark.parametrize("target", list(Compression))
def test_the_topics_compression(source: Compression, target: Compression) -> None:
    batch = encode_batch(RECORDS, compression=source, producer_id=4, producer_epoch=1, base_sequence=9, transactional=True)
    result = append(batch, RULES._replace(compression=target))
    assert result.rewritten == (source != target)
    assert decode_records(result.batch) == decode_records(batch)
    assert check_crc(result.batch, 0, result.header)
    assert result.header.compression == target
    assert result.header[9:] == read_header(batch)[9:]
    assert result.header.is_transactional
    assert decode_records(recompress(batch, target)) == decode_records(batch)


def test_a_rewritten_batch_must_fit_too() -> None:
    batch = encode_batch([(NOW, None, b"v" * 10_000, ())], compression=Compression.ZSTD)
    assert refused(batch, AppendRules(5000, compression=Compression.NONE)) == ErrorCode.MESSAGE_TOO_LARGE


def test_offsets_that_do_not_count_up() -> None:
    plain = bytearray(encode_batch([(NOW, None, b"v", ())] * 2))
    second = len(plain) - 8
    assert plain[second + 3] == 2
    plain[second + 3] = 4
    seal(plain)
    assert refused(plain) == ErrorCode.INVALID_RECORD
    result = append(recompress(plain, Compression.GZIP))
    assert result.rewritten
    assert [record.offset for record in decode_records(result.batch)] == [0, 1]


def test_a_batch_that_is_numbered_anew_stays_its_producer_s_and_its_transaction_s() -> None:
    plain = bytearray(encode_batch([(NOW, None, b"v", ())] * 2, producer_id=7, producer_epoch=1, base_sequence=5, transactional=True))
    plain[len(plain) - 5] = 4
    seal(plain)
    result = append(recompress(plain, Compression.GZIP))
    assert result.rewritten
    header = result.header
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional) == (7, 1, 5, True)


def test_coordinators_write_control_batches() -> None:
    batch = encode_batch([(NOW, b"\0\0\0\1", b"\0" * 6, ())], control=True, base_offset=0, producer_id=1, producer_epoch=0)
    result = append(batch, RULES._replace(compression=Compression.ZSTD), from_client=False)
    assert bytes(result.batch) == batch


def test_produce_requests_hold_one_batch() -> None:
    batch = encode_batch(RECORDS)
    assert validate_produce_records(batch, 3) == read_header(batch)
    assert validate_produce_records(batch + batch[:-1], 9) == read_header(batch)
    for records, version, code in [
        (b"", 3, ErrorCode.INVALID_RECORD),
        (batch[:-1], 3, ErrorCode.INVALID_RECORD),
        (batch + batch, 3, ErrorCode.INVALID_RECORD),
        (encode_batch(RECORDS, compression=Compression.ZSTD), 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (b"\0" * 8 + b"\0\0\0\x0e" + b"\0" * 14, 3, ErrorCode.INVALID_RECORD),
        (b"\0" * 8 + b"\0\0\0\x0d" + b"\0" * 14, 3, ErrorCode.CORRUPT_MESSAGE),
    ]:
        with pytest.raises(KafkaError) as raised:
            validate_produce_records(records, version)
        assert raised.value.code == code


@pytest.mark.parametrize("compression", BOTH)
@pytest.mark.parametrize("at_fault", [0, 1, 2])
def test_one_record_from_the_future_or_too_old_is_enough_wherever_it_stands(compression: Compression, at_fault: int) -> None:
    rules = RULES._replace(before_max_ms=1000, after_max_ms=2000)
    for limit, beyond in ((NOW + 2000, NOW + 2001), (NOW - 1000, NOW - 1001)):
        times = [NOW, NOW, NOW]
        times[at_fault] = limit
        assert not append(encode_batch([(time, b"k", b"", []) for time in times], compression=compression), rules).rewritten
        times[at_fault] = beyond
        with pytest.raises(RecordValidationError) as raised:
            append(encode_batch([(time, b"k", b"", []) for time in times], compression=compression), rules)
        assert raised.value.code == ErrorCode.INVALID_TIMESTAMP
        assert [error.batch_index for error in raised.value.record_errors] == [at_fault]


@pytest.mark.parametrize("compression", BOTH)
def test_a_batch_of_exactly_the_limit_is_stored_and_one_byte_more_is_not(compression: Compression) -> None:
    batch = encode_batch(RECORDS, compression=compression)
    assert bytes(append(batch, AppendRules(len(batch))).batch) == batch
    assert refused(batch, AppendRules(len(batch) - 1)) == ErrorCode.MESSAGE_TOO_LARGE


def test_a_rewritten_batch_of_exactly_the_limit_is_stored() -> None:
    batch = encode_batch([(NOW, None, b"v" * 10_000, ())], compression=Compression.ZSTD)
    size = len(recompress(batch, Compression.NONE))
    assert append(batch, AppendRules(size, compression=Compression.NONE)).rewritten
    assert refused(batch, AppendRules(size - 1, compression=Compression.NONE)) == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("compression", BOTH)
def test_clients_choose_no_offsets(compression: Compression) -> None:
    for offset in (-1, 1, 1 << 40):
        assert refused(encode_batch(RECORDS, compression=compression, base_offset=offset)) == ErrorCode.INVALID_RECORD


def test_clients_write_no_markers() -> None:
    marker = encode_batch([(NOW, b"\0\0\0\1", b"\0" * 6, ())], control=True, producer_id=1, producer_epoch=0, base_sequence=0)
    assert refused(marker) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("compression", BOTH)
def test_the_time_of_a_coordinators_batch_is_judged_as_any_other(compression: Compression) -> None:
    batch = encode_batch([(NOW, b"k", b"v", ()), (NOW + 3_600_001, b"k", b"v", ())], compression=compression)
    with pytest.raises(RecordValidationError) as raised:
        append(batch, from_client=False)
    assert raised.value.code == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("version", [3, 6, 7, 9])
def test_zstd_is_for_produce_7_and_later(version: int) -> None:
    batch = encode_batch(RECORDS, compression=Compression.ZSTD)
    if version >= 7:
        assert validate_produce_records(batch, version).record_count == 3
    else:
        with pytest.raises(KafkaError) as raised:
            validate_produce_records(batch, version)
        assert raised.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("from_client", [True, False])
def test_any_damage_to_what_the_checksum_covers_is_corruption(from_client: bool) -> None:
    rules = RULES if from_client else RULES._replace(compression=Compression.GZIP)
    batch = encode_batch([(NOW, b"key", b"value" * 3, [("h", b"x")])])
    for at in (17, 19, len(batch) - 20, len(batch) - 12, len(batch) - 3):
        damaged = bytearray(batch)
        damaged[at] ^= 1
        with pytest.raises(KafkaError) as raised:
            append(damaged, rules, from_client)
        assert raised.value.code == ErrorCode.CORRUPT_MESSAGE


def test_a_varint_has_five_bytes_at_most() -> None:
    """Six would say the same number; the JVM refuses them (ByteUtils.readVarint)."""
    good = encode_batch([(NOW, b"k", b"v", ())])
    assert good[61] == 16
    for size, code in ((5, None), (6, ErrorCode.INVALID_RECORD)):
        longer = bytes([16 | 0x80] + [0x80] * (size - 2) + [0])
        batch = bytearray(good[:61] + longer + good[62:])
        batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
        seal(batch)
        if code is None:
            assert append(batch).record_count == 1
        else:
            assert refused(batch) == code
