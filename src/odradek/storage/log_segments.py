"""Segments of one log, ordered by offset."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, overload

from odradek.base.clock import Clock
from odradek.base.disk import Disk
from odradek.storage.segment import Segment, SegmentLimits

if TYPE_CHECKING:
    from odradek.config.topic import TopicConfig

_POSITIONS_KEPT = 512
_AGAIN_BYTES = 1024 * 1024


class LogSegments(Sequence[Segment]):
    """Segments of one log; callers never see the list empty. `active`, the last segment, is appended to.

    Errors: OSError from the disk. The log's own offsets, its producer state and its durability are kept elsewhere.
    """

    __slots__ = (
        "_clock",
        "_config",
        "_disk",
        "_jitter",
        "_limits",
        "_positions",
        "_positions_before",
        "_segments",
        "active",
        "bases",
        "deleted",
        "directory",
        "segment_bytes",
        "segment_ms",
    )

    def __init__(
        self, disk: Disk, clock: Clock, directory: str, config: TopicConfig, segments: list[Segment], jitter: Callable[[int], int]
    ) -> None:
        """`jitter(limit)` returns 0 <= n < limit for segment.jitter.ms."""
        self._disk = disk
        self._clock = clock
        self._jitter = jitter
        self.directory = directory
        self._segments = segments
        self.active = segments[-1]
        self.bases = [segment.base_offset for segment in segments]
        """Base offset of each segment."""
        self.deleted: list[str] = []
        """Files of the log that were renamed to `.deleted`, for `Log.take_deletions`."""
        self._positions: dict[int, int] = {}
        """Position by base offset of the batches last written to the active segment, which readers at the tail ask for."""
        self._positions_before: dict[int, int] = {}
        self.update_config(config)

    def update_config(self, config: TopicConfig) -> None:
        """Set the configuration for the next append or segment."""
        self._config = config
        self._limits = SegmentLimits(config.index_interval_bytes, config.segment_index_bytes)
        self.segment_bytes = config.segment_bytes
        self.segment_ms = config.max_segment_ms
        for segment in self._segments:
            segment.update_limits(self._limits)

    @overload
    def __getitem__(self, index: int) -> Segment: ...
    @overload
    def __getitem__(self, index: slice) -> list[Segment]: ...
    def __getitem__(self, index: int | slice) -> Segment | list[Segment]:
        return self._segments[index]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def size(self) -> int:
        """Size of all log files in bytes."""
        return sum([segment.size for segment in self._segments])

    def index_at(self, offset: int) -> int:
        """Return the index of the segment that holds `offset`: the last one whose base is not above `offset`, or 0."""
        return max(bisect_right(self.bases, offset) - 1, 0)

    def end_of(self, index: int, log_end_offset: int) -> int:
        """Return the end offset (exclusive) of the segment at `index`: the base of the next segment, or the log end for the active one."""
        return self.bases[index + 1] if index + 1 < len(self.bases) else log_end_offset

    # -- positions at the tail ---------------------------------------------------------------------------------------------------

    def note_position(self, base_offset: int, position: int) -> None:
        """Record the position of a batch that was written to the active segment."""
        positions = self._positions
        if len(positions) >= _POSITIONS_KEPT:
            self._positions_before = positions
            positions = self._positions = {}
        positions[base_offset] = position

    def known_position(self, offset: int) -> int | None:
        """Return the position in the active segment of a batch that begins at `offset`, from memory; None when unknown."""
        position = self._positions.get(offset)
        return self._positions_before.get(offset) if position is None else position

    def forget_positions(self) -> None:
        self._positions = {}
        self._positions_before = {}

    # -- changes -----------------------------------------------------------------------------------------------------------------

    def begin(self, base_offset: int) -> Segment:
        """Begin a new active segment after the others. The previous active segment is not changed."""
        preallocate = self.segment_bytes if self._config.preallocate else 0
        now_ms = self._clock.time_ms()
        segment = Segment.create(self._disk, self.directory, base_offset, self._limits, now_ms, preallocate=preallocate)
        segment.roll_jitter_ms = self._jitter(min(self._config.segment_jitter_ms, self._config.segment_ms))
        self._segments.append(segment)
        self.bases.append(base_offset)
        self.active = segment
        self.forget_positions()
        return segment

    def remove(self, index: int) -> Segment:
        """Remove a segment; its files are renamed to `.deleted` and added to `deleted`."""
        segment = self._segments.pop(index)
        del self.bases[index]
        if self._segments:
            self.active = self._segments[-1]
        self.deleted += segment.mark_deleted()
        return segment

    def replace(self, new: Segment, old: Sequence[Segment]) -> None:
        """Replace `old`, neighbouring inactive segments, by `new`, which begins at the base offset of the first of them."""
        first = self._segments.index(old[0])
        self._segments[first : first + len(old)] = [new]
        self.bases[first : first + len(old)] = [new.base_offset]

    def update_directory(self, directory: str) -> None:
        """Record the new path of the directory; open descriptors stay valid."""
        self.directory = directory
        for segment in self._segments:
            segment.update_directory(directory)

    def write_again(self, start_offset: int) -> None:
        """Rewrite the batches from `start_offset` on in their place, before they are flushed.

        After a failed fsync Linux marks the pages as clean. They stay in memory, for the next process as well, and the next fsync succeeds
        without having written them.
        """
        for segment in self._segments[self.index_at(start_offset) :]:
            batch = segment.find(start_offset)
            position = segment.size if batch is None else batch.position
            while position < segment.size:
                data = segment.file.pread(min(_AGAIN_BYTES, segment.size - position), position)
                position += segment.file.pwritev([data], position)

    def rest(self, *, active: bool) -> None:
        """Close the files of all inactive segments, and with `active` of the active one, until they are needed again."""
        for segment in self._segments:
            if active or segment is not self.active:
                segment.rest()

    def close_handles(self) -> None:
        """Close descriptors without writing anything."""
        for segment in self._segments:
            segment.close_handles()
