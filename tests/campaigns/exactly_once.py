"""Exactly-once copies of records while copiers and the broker are killed, with a check of the results.

    python -m tests.campaigns.exactly_once --records 1000000 --seed 1

An idempotent producer writes numbered values to the input. Copiers (`copiers.py`), each a process, read the input with a consumer group and
transform the values. They write the results to the output together with the group's offsets, in transactions; some transactions they abort
for no reason.

Copiers are killed with SIGKILL, at random moments and at chosen points of a transaction. They are started again with the same transactional
id, at once or after the transaction's timeout. Other copiers are stopped, and resumed as zombies beside their successor. The broker is
killed with SIGKILL, at random moments and just after a copier's commit request, and started on the same directory. With `--nodes 3` there
is a cluster, of which one node at a time is killed, and sometimes all.

`exactly_once_judging` lists the checks by name. The seed decides the times and kinds of disruptions; the load runs in real time. When there
is a problem, the directory with the broker's data, its log and all histories is kept and printed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.peers import REPOSITORY, BrokerProcess, JvmBroker, OdradekBroker, jvm_command, jvm_libs
from odradek.testing.history import Recorder
from tests.campaigns import exactly_once_judging as judging
from tests.campaigns.cluster_nodes import NODES, Nodes
from tests.campaigns.copiers import CLIENT, Options
from tests.campaigns.exactly_once_watch import Watch

INPUT, OUTPUT, GROUP = "input", "output", "copiers"
SETTINGS = {
    "log.segment.bytes": "1048576",
    "log.roll.ms": "10000",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.segment.bytes": "1048576",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.segment.bytes": "1048576",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.heartbeat.interval.ms": "500",
}


PATIENCE_S = 60
TOPICS = {"__consumer_offsets": int(SETTINGS["offsets.topic.num.partitions"])}


class Plan(NamedTuple):
    """Settings of a run. Times are in seconds unless their name says otherwise."""

    records: int
    seed: int = 1
    copiers: int = 2
    client: str = "librdkafka"
    """"aiokafka": its copiers divide the partitions among themselves, and are not part of a generation of the group."""
    kill_copier_every: float = 10.0
    kill_broker_every: float = 20.0
    group_protocol: str = "classic"
    partitions: int = 4
    rate: int = 2_500
    batch: int = 500
    transaction_timeout_ms: int = 10_000
    peer: str = "odradek"
    nodes: int = 1
    """1, or 3 for a cluster."""
    most: int = 0
    """Maximum number of disturbed copiers, and of disturbed brokers; 0: disturb until everything is copied."""


class Disruptions:
    """Counters of disruptions."""

    def __init__(self) -> None:
        self.copier_kills = 0
        self.broker_kills = 0
        self.zombies = 0
        self.late_returns = 0
        self.own_ends: list[str] = []
        """Copiers that ended without being killed: exit status and last error."""

    def __str__(self) -> str:
        return (
            f"{self.copier_kills} copier kills ({self.late_returns} returned after the timeout), {self.zombies} zombies, "
            f"{self.broker_kills} broker kills, {len(self.own_ends)} copiers gave up"
        )


class Feeder(threading.Thread):
    """Producer thread of the input: each partition gets 0, 1, 2, ... as "partition:number"."""

    LINE = 500

    def __init__(self, bootstrap: str, plan: Plan, history: Path) -> None:
        super().__init__(name="feeder", daemon=True)
        self.plan = plan
        self.recorder = Recorder(history / "feeder.jsonl", "feeder")
        self.refused: list[str] = []
        self.acked = 0
        self.counts = [len(range(each, plan.records, plan.partitions)) for each in range(plan.partitions)]
        self.producer = Producer(
            {**CLIENT, "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": 300_000}
        )

    def run(self) -> None:
        begun = time.monotonic()
        number = 0
        while number < self.plan.records:
            allowed = min(self.plan.records, int((time.monotonic() - begun) * self.plan.rate) + 1)
            end = min(allowed, number + self.LINE)
            if end - number < self.LINE and end < self.plan.records:
                self.producer.poll(0.05)
                continue
            self._send(number, end)
            number = end
        self.producer.flush(300)
        self.recorder.close()

    def _send(self, start: int, end: int) -> None:
        """Send the records of one history line, which complete together."""
        sent = [
            (number % self.plan.partitions, f"{number % self.plan.partitions}:{number // self.plan.partitions}")
            for number in range(start, end)
        ]
        offsets: dict[str, int | None] = {}

        def delivered(error: KafkaError | None, message: Message) -> None:
            value = message.value().decode()
            if error is not None:
                self.refused.append(f"{value}: {error}")
            offsets[value] = message.offset() if error is None else None
            self.acked += 1
            if len(offsets) == len(sent):
                said = [["send", INPUT, partition, offsets[each], each] for partition, each in sent]
                (self.recorder.info if None in offsets.values() else self.recorder.ok)("send", said, id=start)

        self.recorder.invoke("send", [["send", INPUT, partition, None, value] for partition, value in sent], id=start)
        for partition, value in sent:
            while True:
                try:
                    self.producer.produce(INPUT, value, key=value, partition=partition, on_delivery=delivered)
                    break
                except BufferError:
                    self.producer.poll(0.05)
        self.producer.poll(0)


class CopierProcess:
    """One transactional id, and the processes that use it in turn."""

    def __init__(self, options: Options, folder: Path) -> None:
        self.options = options
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        self.zombie: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        life = self.options.life + 1
        self.options = self.options._replace(life=life, history=str(self.folder / f"{self.options.name}.{life}.jsonl"))
        with (self.folder / f"{self.options.name}.log").open("ab") as log:
            self.process = subprocess.Popen(self._command(), stdout=log, stderr=log, cwd=REPOSITORY)

    def _command(self) -> list[str]:
        options = self.options
        if options.client != "jvm":
            return [sys.executable, "-m", "tests.campaigns.copiers", json.dumps(options._asdict())]
        told = (
            *(options.bootstrap, options.name, options.life, options.group, options.source, options.target, options.seed, options.history),
            *(options.broker_pid, options.group_protocol, options.transaction_timeout_ms, options.session_timeout_ms),
            *(options.batch, options.aborts),
        )
        folder = compiled(self.folder.parent / "classes")
        command = jvm_command(
            "Copier", *map(str, told), heap="96m", options=("-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        )
        command[command.index("-cp") + 1] += f":{folder}"
        return command

    @property
    def listens(self) -> bool:
        """True if the process runs and handles signals, as the first line of its history shows."""
        history = Path(self.options.history)
        return self.process is not None and self.process.poll() is None and history.exists() and history.stat().st_size > 0

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def doom(self) -> None:
        """Make the copier kill itself in its next transaction."""
        # The JVM reserves SIGUSR1.
        self.signal(signal.SIGUSR2 if self.options.client == "jvm" else signal.SIGUSR1)

    def doom_broker(self) -> None:
        """Make the copier kill the broker at its next commit."""
        self.signal(signal.SIGALRM if self.options.client == "jvm" else signal.SIGUSR2)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def last_words(self) -> str:
        with contextlib.suppress(OSError, IndexError, ValueError):
            return str(json.loads(Path(self.options.history).read_text().splitlines()[-1]).get("error", ""))
        return ""

    def wake_zombie(self, patience: float) -> int:
        """Resume the stopped predecessor and return its exit status, or -SIGKILL if it was killed after `patience` seconds."""
        assert self.zombie is not None
        zombie, self.zombie = self.zombie, None
        zombie.send_signal(signal.SIGCONT)
        try:
            return zombie.wait(patience)
        except subprocess.TimeoutExpired:
            zombie.kill()
            return zombie.wait()

    def put_away(self) -> None:
        for process in (self.process, self.zombie):
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                process.wait()


def compiled(folder: Path) -> Path:
    """Compile JVM Kafka's copier if necessary, and return the folder with its class."""
    if not folder.exists():
        folder.mkdir()
        source = Path(__file__).with_name("jvm") / "Copier.java"
        subprocess.run(["javac", "-nowarn", "-d", str(folder), "-cp", f"{jvm_libs()}/*", str(source)], check=True, capture_output=True)
    return folder


class Run:
    """One campaign: broker, feeder, copiers, watch, disruptions."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        self.rng = random.Random(f"exactly once {plan.seed}")
        self.history = folder / "history"
        self.history.mkdir(parents=True)
        self.cluster = Nodes(folder / "nodes", SETTINGS) if plan.nodes > 1 else None
        single: BrokerProcess = JvmBroker(folder, SETTINGS, heap="512m") if plan.peer == "jvm" else OdradekBroker(folder, SETTINGS)
        self.brokers = [single] if self.cluster is None else list(self.cluster.nodes.values())
        self.bootstrap = ",".join(broker.bootstrap for broker in self.brokers)
        self.disruptions = Disruptions()
        self.copiers: list[CopierProcess] = []
        self.begun = time.monotonic()
        self.patience = 0.0
        """Time by which another record has to be copied."""
        self.recorder = Recorder(self.history / "disruptor.jsonl", "disruptor")
        self.agenda: list[tuple[float, Callable[[], None]]] = []
        self.watch: Watch | None = None
        self.feeder: Feeder | None = None
        self.figures: dict[str, object] = {}

    # -- participants --------------------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        if self.cluster is not None:
            self.cluster.format()
        self.start(self.brokers)
        admin = AdminClient({**CLIENT, "bootstrap.servers": self.bootstrap})
        for topic in (INPUT, OUTPUT):
            admin.create_topics([NewTopic(topic, self.plan.partitions, self.plan.nodes)])[topic].result(30)
        self.feeder = Feeder(self.bootstrap, self.plan, self.history)
        self.feeder.start()
        self.watch = Watch([broker.port for broker in self.brokers], [OUTPUT, INPUT], GROUP, self.plan.partitions, self.history)
        self.watch.start()
        for index in range(self.plan.copiers):
            copier = CopierProcess(self._options(index), self.history)
            copier.start()
            self.copiers.append(copier)

    def _options(self, index: int) -> Options:
        return Options(
            client=self.plan.client,
            bootstrap=self.bootstrap,
            name=f"copier-{index}",
            life=0,
            group=GROUP,
            source=INPUT,
            target=OUTPUT,
            partitions=list(range(index, self.plan.partitions, self.plan.copiers)),
            seed=self.plan.seed,
            history="",
            broker_pid=str(self.folder / "broker.pid"),
            group_protocol=self.plan.group_protocol,
            transaction_timeout_ms=self.plan.transaction_timeout_ms,
            batch=self.plan.batch,
        )

    def start(self, brokers: Sequence[BrokerProcess]) -> None:
        """Start brokers, and write the pid of the broker that copiers may kill."""
        for broker in brokers:
            broker.launch()
        for broker in brokers:
            broker.wait_ready(120)
        (self.folder / "broker.pid").write_text(str(self.rng.choice(self.brokers).pid))

    def say(self, text: str) -> None:
        copied = self.watch.copied if self.watch else 0
        print(f"{time.monotonic() - self.begun:7.1f} s, {copied:>8} of {self.plan.records} copied: {text}", flush=True)

    # -- disruptions ---------------------------------------------------------------------------------------------------------------------

    def disrupt(self) -> None:
        """Disrupt until everything is copied."""
        assert self.watch is not None
        copier_at = self._next(self.plan.kill_copier_every)
        broker_at = self._next(self.plan.kill_broker_every)
        self.patience = time.monotonic() + PATIENCE_S
        most = self.plan.most or sys.maxsize
        copied, copiers_disturbed, brokers_disturbed = -1, 0, 0
        while (now_copied := self.watch.copied) < self.plan.records:
            now = time.monotonic()
            if now_copied > copied:
                copied, self.patience = now_copied, now + PATIENCE_S
            if now > self.patience:
                raise judging.Stuck(f"nothing was copied in {PATIENCE_S} s; {copied} of {self.plan.records} are")
            returns = self.disruptions.broker_kills
            self._look_after()
            if now >= copier_at and copiers_disturbed < most:
                self._disrupt_copier()
                copier_at = self._next(self.plan.kill_copier_every)
                copiers_disturbed += 1
            if now >= broker_at and brokers_disturbed < most:
                self._disrupt_broker()
                brokers_disturbed += 1
                broker_at = self._next(self.plan.kill_broker_every)
            if self.disruptions.broker_kills > returns:
                # The broker's new life gets its full time, however long its start took.
                broker_at = self._next(self.plan.kill_broker_every)
            time.sleep(0.02)

    def _next(self, every: float) -> float:
        return time.monotonic() + (self.rng.uniform(0.3, 1.7) * every if every > 0 else 1e9)

    def _look_after(self) -> None:
        """Run the actions that are due, and start every process again that died without our doing."""
        due = [each for each in self.agenda if each[0] <= time.monotonic()]
        self.agenda = [each for each in self.agenda if each not in due]
        for _, action in due:
            action()
        self._look_after_broker()
        for copier in self.copiers:
            status = copier.process.poll() if copier.process is not None else None
            if status is not None:
                self._ended(copier, status)
                copier.start()

    def _look_after_broker(self) -> None:
        for broker in self.brokers:
            if broker.process is not None and broker.process.poll() is not None:
                if broker.process.returncode != -signal.SIGKILL:
                    raise judging.Stuck(f"a broker ended with {broker.process.returncode}:\n{broker.log_tail()}")
                self._return([broker])

    def _until_all_listen(self) -> None:
        deadline = time.monotonic() + 60
        while self.agenda or not all(each.listens for each in self.copiers):
            self._look_after()
            if time.monotonic() > deadline:
                raise judging.Stuck("not all copiers are there")
            time.sleep(0.02)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self.agenda.append((time.monotonic() + seconds, action))

    def _crash(self, copier: CopierProcess, how: str, life: int | None = None) -> None:
        self.recorder.info("crash", process=f"{copier.options.name}.{life or copier.options.life}", how=how)

    def _ended(self, copier: CopierProcess, status: int) -> None:
        self._crash(copier, "kill")
        if status == -signal.SIGKILL:
            self.disruptions.copier_kills += 1
            self.say(f"{copier.options.name} killed itself in the middle of a transaction")
            return
        said = f"{copier.options.name}.{copier.options.life} ended with {status}: {copier.last_words()}"
        self.disruptions.own_ends.append(said)
        self.say(said)

    def _disrupt_copier(self) -> None:
        able = [each for each in self.copiers if each.listens]
        kind = self.rng.choices(("kill", "aimed", "late", "zombie"), (4, 4, 1, 2))[0]
        pause = self.rng.uniform(0, 1.0)
        if not able:
            return
        copier = self.rng.choice(able)
        if kind == "aimed":
            copier.doom()
        elif kind == "zombie" and copier.zombie is None:
            self._zombie(copier, pause * 5)
        else:
            if kind == "late":
                self.disruptions.late_returns += 1
                pause += self.plan.transaction_timeout_ms / 1000
            copier.kill()
            self._crash(copier, "kill")
            self.disruptions.copier_kills += 1
            self.say(f"{copier.options.name} was killed and returns in {pause:.1f} s")
            self._later(pause, copier.start)

    def _zombie(self, copier: CopierProcess, pause: float) -> None:
        """Stop a copier, and resume it later beside its successor. The zombie must do no harm; its history shows what it does."""
        copier.signal(signal.SIGSTOP)
        life = copier.options.life
        self._crash(copier, "pause")
        copier.zombie = copier.process
        copier.start()
        self.disruptions.zombies += 1
        self.say(f"{copier.options.name} is a zombie for {pause:.1f} s beside its successor")
        self._later(pause, lambda: self._wake(copier, life))

    def _wake(self, copier: CopierProcess, life: int) -> None:
        self._crash(copier, "resume", life)
        self.say(f"the zombie of {copier.options.name} ended with {copier.wake_zombie(2)}")
        self._crash(copier, "kill", life)

    def _disrupt_broker(self) -> None:
        able = [each for each in self.copiers if each.listens]
        if self.rng.random() < 0.5 and able:
            self.rng.choice(able).doom_broker()
            return
        struck = self.brokers if self.rng.random() < 0.1 else [self.rng.choice(self.brokers)]
        for broker in struck:
            broker.kill()
        if self.cluster is not None:
            # Sometimes the time is long enough for others to take over, sometimes not.
            time.sleep(self.rng.uniform(0, 3))
        self._return(struck)

    def _return(self, struck: Sequence[BrokerProcess]) -> None:
        self.disruptions.broker_kills += 1
        begun = time.monotonic()
        self.start(struck)
        self.patience = time.monotonic() + PATIENCE_S
        self.say(f"{len(struck)} of {len(self.brokers)} brokers killed, back in {time.monotonic() - begun:.2f} s")

    # -- the end -------------------------------------------------------------------------------------------------------------------------

    def close(self) -> list[str]:
        """Stop the copiers in order, and check the results."""
        assert self.watch is not None
        assert self.feeder is not None
        problems: list[str] = []
        self._until_all_listen()
        for copier in self.copiers:
            copier.signal(signal.SIGTERM)
        for copier in self.copiers:
            assert copier.process is not None
            try:
                status = copier.process.wait(60)
            except subprocess.TimeoutExpired:
                problems.append(f"ends-in-order: {copier.options.name} did not end within 60 s of SIGTERM")
            else:
                # A copier that was about to kill itself, or asked to kill the broker, may still do so.
                if status not in (0, -signal.SIGKILL):
                    problems.append(f"ends-in-order: {copier.options.name} ended with {status}: {copier.last_words()}")
        self._look_after_broker()
        self.feeder.join(300)
        problems += [f"input-accepted: {each}" for each in self.feeder.refused[:5]]
        self.say("everything is copied and the copiers have ended; judging")
        self.watch.finish(self.plan.transaction_timeout_ms / 1000 + 5)
        topics = TOPICS | {INPUT: self.plan.partitions, OUTPUT: self.plan.partitions}
        try:
            found, self.figures = judging.judge(
                self.watch, self.feeder.counts, self.history, self.plan.transaction_timeout_ms / 1000, topics
            )
        finally:
            self.watch.brokers.close()
        problems += found
        statuses = self.cluster.stop() if self.cluster is not None else {1: self.brokers[0].stop()}
        if any(status not in ((0, 128 + signal.SIGTERM) if self.plan.peer == "jvm" else (0,)) for status in statuses.values()):
            problems.append(f"clean-shutdown: the last shutdown was not clean: {statuses}")
        return problems

    def put_away(self) -> None:
        for copier in self.copiers:
            copier.put_away()
        if self.watch is not None:
            self.watch.abandon()
        for broker in self.brokers:
            broker.kill()
        self.recorder.close()


def campaign(plan: Plan, folder: Path) -> tuple[list[str], Disruptions]:
    """Run the campaign. Return one line per problem, and the disruptions. The folder contains data, log and histories afterwards."""
    run = Run(plan, folder)
    try:
        run.open()
        run.disrupt()
        problems = run.close()
    except (judging.Stuck, RuntimeError, TimeoutError) as error:
        problems = [f"progress: {type(error).__name__}: {error}"]
    finally:
        run.put_away()
    summary = {
        "seconds": round(time.monotonic() - run.begun, 1),
        "plan": plan._asdict(),
        "disruptions": str(run.disruptions),
        "figures": run.figures,
        "problems": problems,
    }
    (folder / "summary.json").write_text(json.dumps(summary, indent=1))
    _print_figures(summary["disruptions"], run.figures)
    return problems, run.disruptions


def _print_figures(disruptions: object, figures: Mapping[str, object]) -> None:
    print(disruptions)
    for name, value in figures.items():
        print(f"{name}: {value}")


def main() -> None:
    parser = argparse.ArgumentParser(description="exactly once under kill -9 of everybody")
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--copiers", type=int, default=2)
    parser.add_argument("--client", choices=("librdkafka", "odradek", "aiokafka", "jvm"), default="librdkafka", help="of the copiers")
    parser.add_argument("--kill-copier-every", type=float, default=10, help="seconds, on average; 0: never")
    parser.add_argument("--kill-broker-every", type=float, default=20, help="seconds, on average; 0: never")
    parser.add_argument("--group-protocol", choices=("classic", "consumer"), default="classic")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rate", type=int, default=2_500, help="input records a second")
    parser.add_argument("--batch", type=int, default=500, help="the most records that a transaction copies")
    parser.add_argument("--transaction-timeout-ms", type=int, default=10_000)
    parser.add_argument("--most", type=int, default=0, help="disturb so many copiers, and brokers, and no more; 0: until the end")
    parser.add_argument("--peer", choices=("odradek", "jvm"), default="odradek", help="of a single node")
    parser.add_argument("--nodes", type=int, choices=(1, NODES), default=1, help="a single node, or a cluster of our own")
    parser.add_argument("--keep", action="store_true", help="keep the directory also when nothing is wrong")
    options = vars(parser.parse_args())
    keep = options.pop("keep")
    plan = Plan(**options)
    folder = Path(tempfile.mkdtemp(prefix="odradek-exactly-once-"))
    problems, _ = campaign(plan, folder)
    for problem in problems:
        print(problem)
    if problems:
        print(f"FAILED: seed {plan.seed}; data, logs and histories: {folder}; {plan}")
        sys.exit(1)
    print(f"{plan.records} records, 0 problems")
    if keep:
        print(f"data, logs and histories: {folder}")
    else:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
