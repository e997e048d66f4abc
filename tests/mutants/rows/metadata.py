"""Planted bugs of metadata."""

ROWS = {
    "metadata/queries.py": [
        ("if not len(partitions) % _AT_ONCE:", "if False:", "one step makes the metadata of thousands of partitions"),
    ],
    "metadata/registrations.py": [
        ("partition_epoch + 1", "partition_epoch", "an AlterPartition on older state is accepted"),
    ],
    "metadata/topic_names.py": [
        ("_LEGAL.fullmatch(name) is None", "False", "a topic may be a path that leads out of the log directory"),
    ],
}
