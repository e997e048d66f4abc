"""Sizes of the format of batches that both the compiled loops and everybody else need."""

HEADER_SIZE = 61
"""Bytes before the first record of a batch of magic 2 (DefaultRecordBatch.RECORD_BATCH_OVERHEAD)."""
