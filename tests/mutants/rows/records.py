"""Planted bugs of records."""

ROWS = {
    "records/_compaction.py": [
        ("offset >= self._", "offset > self._", "compaction drops the last value of a key"),
    ],
    "records/compression.py": [
        ("RATIO_LIMIT = 1024", "RATIO_LIMIT = 1 << 40", "30 kB decompress to 64 MB"),
    ],
    "records/validation.py": [
        ("if crc32c(view[ATTRIBUTES_OFFSET:]) != crc:", "if False:", "corrupt batches are stored"),
        ('raise _invalid("Clients are not allowed to write control records")', "pass", "a client writes control batches"),
        ("header.attributes & 0x78,", "header.attributes & 0x68,", "recompression loses the transactional flag"),
        ("if total <= _MAX_RECORD_ERRORS:\n                ", "", "a million invalid records get a million errors"),
    ],
    "records/visibility.py": [
        ("active.discard(header.producer_id)", "continue", "commits after an abort are hidden from read_committed"),
    ],
}
