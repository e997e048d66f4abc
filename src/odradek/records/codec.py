"""Names of the loops that run once per record: reading, writing, Arrow columns, compaction, scanning. See `native`."""

from __future__ import annotations

from odradek.records import _columns, _compaction, _frames, _keyed, _produce, _runs, _scan, _writer
from odradek.records._columns import Columns as Columns
from odradek.records._columns import measure as measure
from odradek.records._compaction import COMPACT as COMPACT
from odradek.records._compaction import COMPACT_TOMBSTONES as COMPACT_TOMBSTONES
from odradek.records._compaction import KEEP as KEEP
from odradek.records._compaction import TABLE_FULL as TABLE_FULL
from odradek.records._compaction import OffsetTable as OffsetTable
from odradek.records._compaction import retain as retain
from odradek.records._compaction import rewrite as rewrite
from odradek.records._compaction import siphash as siphash
from odradek.records._frames import WALK_MALFORMED as WALK_MALFORMED
from odradek.records._frames import WALK_OK as WALK_OK
from odradek.records._frames import WALK_TRAILING as WALK_TRAILING
from odradek.records._frames import decode as decode
from odradek.records._frames import frames as frames
from odradek.records._frames import walk as walk
from odradek.records._keyed import KEYED_BATCH as KEYED_BATCH
from odradek.records._keyed import KEYED_END as KEYED_END
from odradek.records._keyed import KEYED_MALFORMED as KEYED_MALFORMED
from odradek.records._keyed import KEYED_MORE as KEYED_MORE
from odradek.records._keyed import KEYED_OTHER as KEYED_OTHER
from odradek.records._keyed import KeyedRun as KeyedRun
from odradek.records._keyed import numbered as numbered
from odradek.records._keyed import total_size as total_size
from odradek.records._produce import RECORD_OVERHEAD as RECORD_OVERHEAD
from odradek.records._produce import Gatherer as Gatherer
from odradek.records._produce import Ticket as Ticket
from odradek.records._produce import murmur2 as murmur2
from odradek.records._runs import RunFilter as RunFilter
from odradek.records._runs import index_run as index_run
from odradek.records._scan import COLUMNS as COLUMNS
from odradek.records._scan import crc32c as crc32c
from odradek.records._scan import index_entries as index_entries
from odradek.records._scan import scan as scan
from odradek.records._writer import RecordWriter as RecordWriter
from odradek.records._writer import encode_record as encode_record


def is_compiled() -> bool:
    """Return whether all of the loops are compiled."""
    return all(module.is_compiled() for module in (_columns, _compaction, _frames, _keyed, _produce, _runs, _scan, _writer))
