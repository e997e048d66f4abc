"""Compaction: keeping only the last record of each key (Kafka's LogCleaner, LogCleanerManager and Cleaner).

    manager       which log is cleaned next, from where, up to where; what was cleaned; what must not be cleaned
    plan          what a cleaning knows of a log, noted on the loop; the decisions behind it
    cleaner       the cleaning itself, in an executor: the map of offsets, then one `.cleaned` segment after the other
    transactions  which batches are aborted, which markers are no longer needed
    writer        a `.cleaned` segment and its indexes
    swap          a `.cleaned` segment takes the place of the segments it was made of
    run           one cleaning from plan to checkpoint, in steps that take turns between executor and loop
    throttle      log.cleaner.io.max.bytes.per.second

The rules of who may touch what, and when, are ADR 5.
"""
