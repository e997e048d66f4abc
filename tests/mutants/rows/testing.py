"""Planted bugs of testing."""

ROWS = {
    "testing/simulation/disk.py": [
        ("self.unsynced.append((size, None))", "pass", "crash tests never lose an unsynced truncation"),
    ],
    "testing/history/brokers.py": [
        (
            "add(partition, max(since, succeeded.get(partition, -inf)), failed[partition])",
            "pass",
            "a partition that stops taking records is never unavailable",
        ),
    ],
    "testing/kit/node_thread.py": [
        ("    for life in list(_lives):\n        life.forget()\n", "", "a forked child keeps ports and locks"),
    ],
}
