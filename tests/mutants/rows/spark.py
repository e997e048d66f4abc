"""Planted bugs of spark."""

ROWS = {
    "spark/batch.py": [
        (", self._topic_id", "", "a task reads a recreated topic"),
        ("aborted=aborted,", "aborted=(),", "read_committed returns aborted records"),
    ],
    "spark/decisions.py": [
        ("batch == before.batch", "False", "a batch is written twice after the driver's end"),
        ("{task.batch % _SLOTS}", "0", "an old task aborts the next batch"),
    ],
    "spark/exactly_once.py": [
        ("await _complete(admin, sink, before)", "pass", "a decided batch times out: rows are lost"),
        ("await _check_open(admin, sink, batch, mine)", "pass", "a batch with a timed-out task is committed"),
    ],
    "spark/planning.py": [
        ('auto.offset.reset"] = "none"', 'auto.offset.reset"] = "earliest"', "missing records are skipped silently"),
    ],
    "spark/ranges.py": [
        ("if end > last:", "if end > last + 1:", "a log that ends early goes unnoticed"),
    ],
    "spark/worker_clients.py": [
        ("renew_after_fork(self)", "pass", "parent and child share a connection"),
    ],
}
