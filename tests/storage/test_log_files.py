"""Files of a log without a broker: whole batches are read, and damage in the middle of a log is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition
from odradek.records.batch import encode_batch
from odradek.storage.offline import LogFiles, headers


def segment(base_offset: int) -> bytes:
    """A segment with two batches of one record."""
    return b"".join(encode_batch([(0, None, b"x", ())], base_offset=base_offset + number) for number in range(2))


def log_of(folder: Path, *segments: bytes) -> LogFiles:
    bases = tuple(2 * number for number in range(len(segments)))
    for base, content in zip(bases, segments, strict=True):
        (folder / f"{base:020}.log").write_bytes(content)
    return LogFiles(TopicPartition("t", 0), str(folder), bases, 0, None)


def offsets(log: LogFiles, start: int = 0) -> list[int]:
    return [header.base_offset for _, header in headers(log, start)]


@pytest.mark.parametrize("left", [11, 12, 13, 40, len(segment(0)) // 2, len(segment(0)) // 2 + 20, len(segment(0)) - 1])
def test_an_incomplete_batch_is_left_out_at_the_end_of_a_log_only(left: int, tmp_path: Path) -> None:
    whole = len(segment(0)) // 2
    last = log_of(tmp_path, segment(0), segment(2)[:left])
    assert offsets(last) == [0, 1, 2][: 2 + left // whole]
    (tmp_path / "middle").mkdir()
    middle = log_of(tmp_path / "middle", segment(0), segment(2)[:left], segment(4))
    if left % whole == 0:
        assert offsets(middle) == [0, 1, 2, 4, 5], "compaction leaves gaps"
    else:
        with pytest.raises(OdradekError, match=rf"02\.log ends in an incomplete batch at byte {left // whole * whole}"):
            offsets(middle)
    assert offsets(middle, 4) == [4, 5]


def test_zeros_behind_the_records_of_a_segment_are_no_damage(tmp_path: Path) -> None:
    assert offsets(log_of(tmp_path, segment(0) + bytes(1000), segment(2) + bytes(1000))) == [0, 1, 2, 3]
