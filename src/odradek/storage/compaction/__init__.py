"""Compaction: keep only the last record of each key (Kafka's LogCleaner, LogCleanerManager and Cleaner).

    manager       choice of the next log and its offsets; offsets cleaned so far; logs that must not be cleaned
    plan          state of a log for one cleaning, recorded on the loop; the decisions behind it
    cleaner       the cleaning itself, in an executor: the map of offsets, then one `.cleaned` segment after the other
    transactions  aborted batches, and markers that are no longer needed
    writer        a `.cleaned` segment and its indexes
    swap          replacement of segments by the `.cleaned` segment made from them
    run           one cleaning from plan to checkpoint, in steps that alternate between executor and loop
    throttle      log.cleaner.io.max.bytes.per.second

ADR 5 has the rules on which thread may access which data, and when.
"""
