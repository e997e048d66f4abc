"""Brokers of Odradek and JVM Kafka in one cluster, which end in turn under a load of records, groups and transactions.

    python -m tests.campaigns.mixed_brokers --seed 1 --count 4

One seed is one cluster: two brokers of one kind and one of the other, with one controller of either kind or three of both. Idempotent
producers write. One copier with a classic group and one with a consumer group copy the records in transactions. Each broker in turn ends by
SIGKILL or SIGTERM, or pauses until it is fenced (SIGSTOP). While a broker is away, a broker of the other kind ends the transactions that it
coordinated, and continues the groups that it coordinated. With three controllers, the active one ends each time as well. When there is a
problem, the folder with data, logs and histories is kept and printed. Named checks:
  acked-is-there, no-duplicates, order-kept   for the producers' records (tests/campaigns/kills.py), except records that the client itself
                   has written again (tests/campaigns/written_again.py);
  exactly-once, aborted-invisible, committed-there, not-torn   for the copies (tests/campaigns/exactly_once_judging.py);
  coordinators     transactions and groups continue at another broker, as `mixed_cluster.Moves` describes;
  replicas-differ  the files of all replicas of every partition contain the same bytes at the end;
  tools            JVM Kafka's tools print the same through every broker, and print the actual state (tests/campaigns/mixed_tools.py);
  no-complaints    no log has errors other than the known ones (tests/campaigns/mixed_quorum.py).
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import KafkaException

from interop.tools import JvmTools
from interop.waiting import eventually
from tests.campaigns import exactly_once_judging as judging
from tests.campaigns import kills
from tests.campaigns.copiers import Options
from tests.campaigns.exactly_once_watch import Rows
from tests.campaigns.mixed_cluster import BROKERS, MixedBrokers, Moves
from tests.campaigns.mixed_quorum import KNOWN, WOKEN, no_complaints
from tests.campaigns.mixed_tools import elect_preferred, tools_agree
from tests.campaigns.written_again import headers, is_the_clients, refusals

SOURCE = "source"
PROTOCOLS = ("classic", "consumer")
ENDS = ("kill", "stop", "pause")
PATIENCE_S = 180.0
RATE = 100


class Copier:
    """Process that copies the source into its target topic. It is started again when its producer was fenced."""

    def __init__(self, bootstrap: str, source: str, protocol: str, seed: int, history: Path) -> None:
        self.target = f"copied-{protocol}"
        self.history = history
        self.life = 0
        self.options = Options(
            client="librdkafka",
            bootstrap=bootstrap,
            name=f"copier-{protocol}-0",
            life=0,
            group=f"copiers-{protocol}",
            source=source,
            target=self.target,
            partitions=[],
            seed=seed,
            history="",
            broker_pid="",
            group_protocol=protocol,
            transaction_timeout_ms=60_000,
            session_timeout_ms=6_000,
        )
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self.life += 1
        self._path = self.history / f"{self.options.name}.{self.life}.jsonl"
        options = self.options._replace(life=self.life, history=str(self._path))
        with self._path.with_suffix(".err").open("wb") as complaints:
            return subprocess.Popen([sys.executable, "-m", "tests.campaigns.copiers", json.dumps(options._asdict())], stderr=complaints)

    def look_after(self) -> None:
        status = self.process.poll()
        if status == 3:
            self.process = self._start()
        elif status is not None:
            raise RuntimeError(
                f"{self.options.name}.{self.life} ended with {status}:\n{self._path.with_suffix('.err').read_text()[-2000:]}"
            )

    def last_words(self) -> str:
        """Return the end of the copier's history: the outcome of its last transaction, with the reason."""
        with self._path.open("rb") as file:
            file.seek(max(0, self._path.stat().st_size - 500))
            return file.read().decode(errors="replace")

    def stop(self) -> None:
        """Let the copier end after its current transaction."""
        self.process.terminate()
        self.process.wait(60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def judge_copies(bootstrap: str, source: str, copiers: Sequence[Copier], history: Path, say: Callable[[str], None]) -> list[str]:
    """Wait until all is copied, stop the copiers, and check the copies. The source must have no writer any longer."""
    partitions = range(len(BROKERS))
    given = judging.read_all(bootstrap, source, partitions, "read_committed")
    problems = []
    for copier in copiers:
        visible = _copied(bootstrap, copier, sum(map(len, given.values())))
        for partition in partitions:
            wanted = [value for _, value in given[partition]]
            rows = [(offset, value.partition("@")[0]) for offset, value in visible[partition]]
            problems += judging.compare(f"exactly-once ({copier.target})", partition, wanted, rows)
        outcomes = judging.read_outcomes(history)
        mine = {name: outcome for name, outcome in outcomes.items() if name.startswith(copier.options.name)}
        problems += judging.judge_transactions(mine, visible)
        say(f"{copier.target}: {dict(Counter(kind for kind, _ in mine.values()))} transactions, {copier.life} lives")
    return problems


def _copied(bootstrap: str, copier: Copier, count: int) -> dict[int, Rows]:
    """Wait until all is copied, stop the copier, and return the records of its target."""

    def read() -> dict[int, Rows]:
        return judging.read_all(bootstrap, copier.target, range(len(BROKERS)), "read_committed")

    def all_there() -> bool | None:
        copier.look_after()
        return sum(map(len, read().values())) >= count or None

    try:
        eventually(all_there, f"{count} records in {copier.target}", PATIENCE_S)
    except TimeoutError as error:
        raise TimeoutError(f"{error}; the last that {copier.options.name} has written: {copier.last_words()}") from error
    copier.stop()
    return read()


class Story:
    """Run of one seed."""

    def __init__(self, seed: int, folder: Path, tools: JvmTools, rounds: int) -> None:
        self.seed = seed
        self.tools = tools
        self.rounds = rounds
        self.rng = random.Random(f"mixed brokers {seed}")
        brokers = ["odradek", "jvm", self.rng.choice(("odradek", "jvm"))]
        self.rng.shuffle(brokers)
        controllers = self.rng.choice((["odradek"], ["jvm"], ["odradek", "odradek", "jvm"], ["odradek", "jvm", "jvm"]))
        self.cluster = MixedBrokers(folder / "nodes", brokers, controllers)
        self.history = folder / "history"
        self.history.mkdir()
        self.loads: list[kills.Load] = []
        self.copiers: list[Copier] = []
        self.ended: list[tuple[int, str]] = []
        self.begun = time.monotonic()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.begun:7.1f} s, {sum(len(load.acked) for load in self.loads):>6} acked: {text}", flush=True)

    def tell(self) -> list[str]:
        """Play the run and return one line per violation."""
        self.say(f"seed {self.seed}: {self.cluster}")
        try:
            self._open()
            for number, (broker, how) in enumerate(self.ends()):
                self._end(number, broker, how)
                self.ended.append((broker, how))
            return self._judge()
        except (AssertionError, TimeoutError, RuntimeError, KafkaException, judging.Stuck) as error:
            logs = [f"node {node} ({process.name}):\n{process.log_tail(10)}" for node, process in self.cluster.nodes.items()]
            return [f"stopped: {type(error).__name__}: {error}", *logs]
        finally:
            for load in self.loads:
                load.stopping.set()
            for copier in self.copiers:
                copier.kill()
            self.cluster.kill()
            for load in self.loads:
                load.join()

    def _open(self) -> None:
        self.cluster.open()
        for topic in (SOURCE, *(f"copied-{protocol}" for protocol in PROTOCOLS)):
            self.cluster.create_spread(topic, {"segment.bytes": "1048576"})
        self.loads = [kills.Load(self.cluster.bootstrap, partition, RATE, SOURCE) for partition in range(len(BROKERS))]
        for load in self.loads:
            load.start()
        self.copiers = [Copier(self.cluster.bootstrap, SOURCE, protocol, self.seed, self.history) for protocol in PROTOCOLS]
        kills.wait_for_acks(self.loads, 1)

    def ends(self) -> list[tuple[int, str]]:
        """Return the ends in random order: each kind of broker ends in each way equally often, as far as the number of rounds allows."""
        chosen = [(broker, how) for how in ENDS for broker in self.cluster.one_of_each]
        self.rng.shuffle(chosen)
        return (chosen * (self.rounds // len(chosen) + 1))[: self.rounds]

    def _end(self, number: int, broker: int, how: str) -> None:
        cluster, process = self.cluster, self.cluster.nodes[broker]
        moves = Moves(cluster, broker, f"{number}")
        moves.begin()
        controller = cluster.leader()
        begin = time.monotonic()
        if how == "stop":
            assert process.stop() in (0, 143), process.log_tail()
        elif how == "kill":
            process.kill()
        else:
            cluster.pause(broker)
        try:
            if len(cluster.voters) > 1:
                cluster.nodes[controller].kill()
            cluster.wait_for_isr(broker)
            gone_s = time.monotonic() - begin
            moves.end()
        finally:
            if how == "pause":
                cluster.resume(broker)
        if len(cluster.voters) > 1:
            cluster.start(controller)
        if how != "pause":
            cluster.start(broker)
        cluster.wait_for_isr()
        elect_preferred(cluster, self.tools, broker)
        for copier in self.copiers:
            copier.look_after()
        acked = sum(len(load.acked) for load in self.loads)
        kills.wait_for_acks(self.loads, acked + 1)
        what = f"{how} of {broker} ({cluster.members[broker].kind})" + (
            f" and of controller {controller}" if len(cluster.voters) > 1 else ""
        )
        self.say(f"{number + 1} of {self.rounds}: {what}, out of all ISRs after {gone_s:.1f} s, back in all by now")

    def _without_repetitions(self, partition: int, rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return a partition's (offset, number) without the first of two records that the client has written again
        (tests/campaigns/written_again.py).
        """
        last = {number: offset for offset, number in rows}
        twice = {offset: last[number] for offset, number in rows if last[number] != offset}
        if twice:
            place = f"{SOURCE}-{partition}"
            batches = headers(self.cluster.nodes[self.cluster.of_kind("jvm")].data / place)
            jvms = (each for each in BROKERS if self.cluster.members[each].kind == "jvm")
            refused = [each for node in jvms for each in refusals(self.cluster.nodes[node].log_path.read_text(errors="replace"), place)]
            for first, second in twice.items():
                if is_the_clients(first, second, batches, refused):
                    self.say(f"{place}: the client has written offset {first} again at {second}")
                    rows = [row for row in rows if row[0] != first]
        return rows

    def _judge(self) -> list[str]:
        for load in self.loads:
            load.stopping.set()
        for load in self.loads:
            load.join()
        found = kills.read_back(self.cluster.bootstrap, SOURCE)
        problems = kills.check(self.loads, {partition: self._without_repetitions(partition, rows) for partition, rows in found.items()})
        problems += judge_copies(self.cluster.bootstrap, SOURCE, self.copiers, self.history, self.say)
        self.cluster.wait_for_isr()
        problems += self.cluster.differing()
        tools_agree(self.cluster, self.tools)
        stood_still = any(how == "pause" for _, how in self.ended)
        return problems + no_complaints(self.cluster, KNOWN + WOKEN if stood_still else KNOWN)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=4, help="how many seeds, a cluster each")
    parser.add_argument("--rounds", type=int, default=6, help="how many brokers end in each cluster")
    arguments = parser.parse_args()
    failed = []
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        tools = JvmTools()
        folder = Path(tempfile.mkdtemp(prefix="odradek-mixed-"))
        problems = Story(seed, folder, tools, arguments.rounds).tell()
        tools.close()
        for problem in problems:
            print(problem)
        print(f"seed {seed}: {arguments.rounds} ends, {len(problems)} problems", flush=True)
        if problems:
            failed.append(seed)
            print(f"seed {seed}: everything is kept in {folder}")
        else:
            shutil.rmtree(folder)
    print(f"{arguments.count} clusters, {len(failed)} with problems: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
