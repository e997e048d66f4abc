"""Sizes of the batch format for the compiled loops and all other code."""

HEADER_SIZE = 61
"""Bytes before the first record of a batch of magic 2 (DefaultRecordBatch.RECORD_BATCH_OVERHEAD)."""
