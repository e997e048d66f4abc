"""Compressed bytes come back, within bounds, and foreign framings are understood."""

from __future__ import annotations

import gzip
import random
import zlib

import cramjam
import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.compression import Compression, compress, decompress

CODECS = [codec for codec in Compression if codec]
DATA = [b"", b"x", b"hello " * 10_000, bytes(range(256)) * 300]


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("data", DATA, ids=len)
def test_round_trip(codec: Compression, data: bytes) -> None:
    assert bytes(decompress(compress(data, codec), codec)) == data


@pytest.mark.parametrize("codec", list(Compression))
def test_the_limit_is_exact(codec: Compression) -> None:
    data = compress(DATA[2], codec)
    assert len(decompress(data, codec, len(DATA[2]))) == len(DATA[2])
    with pytest.raises(KafkaError) as raised:
        decompress(data, codec, len(DATA[2]) - 1)
    assert raised.value.code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Compression.ZSTD])
def test_a_bomb_is_refused(codec: Compression) -> None:
    bomb = compress(bytes(64 * 1024 * 1024), codec)
    assert len(bomb) < 30_000
    with pytest.raises(KafkaError) as raised:
        decompress(bomb, codec, 1 << 30)
    assert raised.value.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_is_invalid(codec: Compression) -> None:
    data = compress(b"hello world " * 20, codec)
    for size in range(len(data)):
        if codec == Compression.SNAPPY and size == 16:
            continue  # the bare xerial header is a stream without blocks
        with pytest.raises(KafkaError) as raised:
            decompress(data[:size], codec)
        assert raised.value.code in (ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE)


def test_a_snappy_block_that_lies_about_its_size_allocates_nothing() -> None:
    with pytest.raises(KafkaError) as raised:
        decompress(b"\xff\xff\xff\x7f\x00\x00", Compression.SNAPPY)
    assert raised.value.code == ErrorCode.INVALID_RECORD


def test_foreign_framings() -> None:
    data = DATA[2]
    assert bytes(decompress(bytes(cramjam.snappy.compress_raw(data)), Compression.SNAPPY)) == data
    twice = compress(b"one", Compression.SNAPPY) + compress(b"two", Compression.SNAPPY)
    assert bytes(decompress(twice, Compression.SNAPPY)) == b"onetwo"
    assert bytes(decompress(gzip.compress(b"one") + gzip.compress(b"two"), Compression.GZIP)) == b"onetwo"
    assert bytes(decompress(bytes(cramjam.lz4.compress(data)), Compression.LZ4)) == data
    stream = cramjam.zstd.Compressor()
    stream.compress(data)
    assert bytes(decompress(bytes(cramjam.zstd.compress(data)) + bytes(stream.finish()), Compression.ZSTD)) == data * 2


def test_lz4_frames_are_those_the_jvm_reads() -> None:
    frame = compress(b"abc" * 100_000, Compression.LZ4)
    assert frame[:4] == b"\x04\x22\x4d\x18"
    assert frame[4] & 0xE0 == 0x60, "version 1, independent blocks"
    assert frame[5] == 0x40, "blocks of 64 KiB"


def test_gzip_is_a_whole_member() -> None:
    assert zlib.decompress(compress(b"abc", Compression.GZIP), 31) == b"abc"


def _general_lz4(data: bytes) -> bytes | ErrorCode:
    """What the library's decoder of any frame makes of it."""
    try:
        return bytes(cramjam.lz4.decompress(data))
    except cramjam.DecompressionError:
        return ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("seed", range(400))
def test_lz4_frames_are_judged_as_the_librarys_decoder_does(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.choice([0, 1, 13, 65_535, 65_536, 65_537, 200_000]) if seed % 20 == 0 else rng.randrange(3000)
    data = rng.choice([bytes(size), rng.randbytes(size), (rng.randbytes(17) * (size // 17 + 1))[:size]])
    frame = bytearray(compress(data, Compression.LZ4, rng.choice([None, 1, 3, 12])))
    assert _general_lz4(bytes(frame)) == data == bytes(decompress(frame, Compression.LZ4))
    for _ in range(rng.randint(1, 3)):
        frame[rng.randrange(len(frame))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    if rng.random() < 0.3:
        frame += rng.randbytes(3)
    expected = _general_lz4(bytes(frame))
    if isinstance(expected, bytes):
        assert bytes(decompress(bytes(frame), Compression.LZ4)) == expected
        return
    with pytest.raises(KafkaError) as error:
        decompress(bytes(frame), Compression.LZ4)
    assert error.value.code == expected


def test_lz4_frames_with_checksums_are_read_too() -> None:
    data = bytes(range(256)) * 1000
    for content_checksum, block_linked in ((True, False), (False, True), (False, False)):
        compressor = cramjam.lz4.Compressor(level=1, content_checksum=content_checksum, block_linked=block_linked)
        compressor.compress(data)
        assert bytes(decompress(bytes(compressor.finish()), Compression.LZ4)) == data


def test_lz4_frames_have_the_jvms_header() -> None:
    assert compress(b"x" * 1000, Compression.LZ4)[:7].hex() == "04224d18604082"


def test_many_small_lz4_blocks_take_no_more_room_than_they_fill() -> None:
    """Blocks that could each hold 64 KiB, by their size, and hold next to nothing."""
    block = bytes(cramjam.lz4.compress_block(b"abc" * 100, store_size=False))
    frame = compress(b"", Compression.LZ4)[:7] + (len(block).to_bytes(4, "little") + block) * 2000 + bytes(4)
    assert bytes(decompress(frame, Compression.LZ4)) == b"abc" * 100 * 2000


def test_lz4_blocks_hold_64_kib_at_most() -> None:
    """So does the frame's header say, and the JVM's reader takes no more."""
    frame = compress(random.Random(1).randbytes(200_000), Compression.LZ4)
    sizes = []
    position = 7
    while size := int.from_bytes(frame[position : position + 4], "little"):
        sizes.append(size & 0x7FFFFFFF)
        position += 4 + sizes[-1]
    assert sizes == [65_536, 65_536, 65_536, 200_000 - 3 * 65_536]
    assert position + 4 == len(frame)
