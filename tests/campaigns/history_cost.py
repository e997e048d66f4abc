"""Cost of the history checker: the command line checks a clean history of a million operations.

    python -m tests.campaigns.history_cost --operations 1000000

Half of the operations are transactions of two sends, up to three polled records and the commit of that position; the others send one record
or poll up to four. The campaign prints seconds and the peak of resident memory. The exit code is 1 for more than 60 s of CPU or 2 GiB, or
for any finding.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from odradek.testing.history import Commit, Poll, Recorder, Send
from odradek.testing.history.events import MicroOperation

PARTITIONS = 32
PROCESSES = 8
SECONDS = 60
MEMORY = 2 << 30


class Writer:
    """Clients with overlapping operations: each step begins or ends an operation of one client."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.time = 1000.0
        self.recorders = [Recorder(directory / f"process-{number}.jsonl", f"process-{number}", self.clock) for number in range(PROCESSES)]
        self.logs: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.positions: list[dict[int, int]] = [{} for _ in range(PROCESSES)]
        self.committed: dict[int, int] = {}
        self.value = 0
        self.open: list[list[MicroOperation] | None] = [None] * PROCESSES

    def clock(self) -> float:
        self.time += 0.0001
        return self.time

    def write(self, operations: int) -> None:
        """Write `operations` operations."""
        begun = 0
        while begun < operations or any(each is not None for each in self.open):
            process = self.random.randrange(PROCESSES)
            if self.open[process] is not None:
                self._end(process)
            elif begun < operations:
                self._begin(process)
                begun += 1
        for recorder in self.recorders:
            recorder.close()

    def _begin(self, process: int) -> None:
        kind = self.random.choice(("txn", "txn", "send", "poll"))
        count = {"txn": 2, "send": 1, "poll": 0}[kind]
        plan: list[MicroOperation] = []
        for _ in range(count):
            self.value += 1
            plan.append(Send("topic", self.random.randrange(PARTITIONS), None, self.value))
        self.open[process] = plan
        self.recorders[process].invoke("poll" if not count else "send" if count == 1 else "txn", plan)

    def _end(self, process: int) -> None:
        plan = self.open[process]
        assert plan is not None
        done: list[MicroOperation] = []
        if len(plan) != 1:  # a process reads its share of the partitions
            partition = self.random.randrange(PARTITIONS // PROCESSES) * PROCESSES + process
            position = self.positions[process].get(partition, 0)
            records = self.logs[partition][position : position + (3 if plan else 4)]
            done = [Poll("topic", partition, position + place, value) for place, value in enumerate(records)]
            self.positions[process][partition] = position + len(records)
            if plan:
                done.append(Commit("group", "topic", partition, position + len(records)))
        for each in plan:
            assert isinstance(each, Send)
            log = self.logs[each.partition]
            done.append(each._replace(offset=len(log)))
            log.append(int(each.value))
        self.open[process] = None
        self.recorders[process].ok("poll" if not plan else "send" if len(plan) == 1 else "txn", done)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        Writer(directory, options.seed).write(options.operations)
        files = sorted(str(path) for path in directory.iterdir())
        size = sum(os.stat(file).st_size for file in files)
        print(f"{options.operations} operations, {size >> 20} MiB", flush=True)
        began = time.monotonic()
        command = [sys.executable, "-m", "odradek.testing.history", "check", "--read-committed", *files]
        with subprocess.Popen(command) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        elapsed = time.monotonic() - began
    memory = usage.ru_maxrss << 10
    cpu = usage.ru_utime + usage.ru_stime
    print(f"{elapsed:.1f} s ({cpu:.1f} s of CPU), peak {memory >> 20} MiB")
    return 1 if process.returncode or cpu > SECONDS or memory > MEMORY else 0


if __name__ == "__main__":
    sys.exit(main())
