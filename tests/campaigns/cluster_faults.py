"""Faults of the nodes of a three-node cluster under load, with a check of the results.

    python -m tests.campaigns.cluster_faults --fault kill --count 500 --seed 1

Three nodes, each a process that is broker and controller, serve a topic of six partitions with three replicas and min.insync.replicas=2.
The clients are idempotent producers with acks=all, and a reader. The faults:

  kill        SIGKILL of one node, sometimes of two or all three. They are started again at once or a little later. The next strike does
              not wait until they have caught up or started.
  pause       SIGSTOP of one node, for 10 to 60 s.
  split       Lost packets between the nodes, which are separate hosts (`namespaces`). A split is one-way between two nodes, both ways
              between two (a bridge), between one node and all others, a ring (each node receives from one other node only), or on the
              controllers' ports only. After each split the partitions must be whole within 30 s.
  power       A power cut of one node's disk (a loop-mounted ext4), as in `power_cuts`. All replicas have been in sync before.
  power-all   A power cut of all nodes' disks in the same moment, with flush.messages=1.
  elections   Leaders pause or die until others lead, and are elected again when they are in sync. With acks=1 the cluster may lose
              acknowledged records, but no record that was read. `--count` counts elections.
  isr-to-one  A leader is cut off from its followers until it is alone in sync, and is then killed. No other node may lead while the
              leader is away (min.insync.replicas=1).
  clock       The clock of one node jumps by up to an hour.

`--fault kill,pause` alternates between faults. Between two strikes every producer must get an acknowledgement. At the end all faults end, a
client reads everything, the nodes stop, and `cluster_judging` checks the results (its docstring lists the checks). The seed decides node,
time and kind of each strike; the load runs in real time. When there is a problem, the directory with data, logs and histories is kept and
printed.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from odradek.base.errors import OdradekError
from odradek.testing.history import Recorder
from odradek.testing.history.final_read import final_read
from tests.campaigns import cluster_judging as judging
from tests.campaigns import namespaces, power_cuts
from tests.campaigns.cluster_load import TOPIC, Load, OwnLoad, RdLoad, Reader, decode
from tests.campaigns.cluster_nodes import NODES, PATIENCE_S, QUORUM, Glance, Leaders, Nodes
from tests.campaigns.cluster_strikes import FAULTS, Fault, Power, Times
from tests.campaigns.mixed_quorum import no_complaints
from tests.campaigns.namespaces import Network


class Plan(NamedTuple):
    """Settings of a run."""

    fault: str
    """Names of faults, separated by commas."""
    count: int
    """Number of strikes, or of the unit that the faults count."""
    seed: int = 1
    rate: int = 800
    """Records per second of all producers together."""
    spread_s: float = 1.0
    """Maximum seconds from the first acknowledgement after a strike to the next strike."""
    times: Times = Times()

    @property
    def kinds(self) -> list[type[Fault]]:
        return [FAULTS[name] for name in self.fault.split(",")]

    @property
    def acks(self) -> str:
        return "1" if any(kind.acks == "1" for kind in self.kinds) else "all"


class Run:
    """Cluster with its clients and observers."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        self.rng = random.Random(f"{plan.fault} {plan.seed}")
        self.history = folder / "history"
        self.history.mkdir(parents=True)
        self.network = Network(range(1, NODES + 1)) if any(kind.network for kind in plan.kinds) else None
        settings = {key: value for kind in plan.kinds for key, value in kind.settings.items()}
        self.cluster = Nodes(folder / "nodes", settings, self.network)
        self.faults = [kind(self.cluster, plan.times, self.rng, lambda: self.acked) for kind in plan.kinds]
        self.partitions = max(kind.partitions for kind in plan.kinds)
        self.leaders = Leaders()
        self.begun = time.monotonic()
        self.loads: list[Load] = []
        self.figures: dict[str, object] = {}
        self.longest_s = 0.0

    @property
    def made(self) -> int:
        return sum(fault.made for fault in self.faults)

    @property
    def acked(self) -> int:
        return sum(load.acked for load in self.loads)

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.begun:7.1f} s, {self.acked:>8} acked: {text}", flush=True)

    def open(self) -> None:
        if self.network is not None:
            self.network.make()
        for fault in self.faults:
            fault.prepare()
        self.cluster.format()
        self.cluster.start()
        self.cluster.wait_whole()
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})
        config = {key: value for kind in self.plan.kinds for key, value in kind.topic.items()}
        admin.create_topics([NewTopic(TOPIC, self.partitions, 3, config=config)])[TOPIC].result(30)
        self.cluster.wait_whole()
        bootstrap, rate = self.cluster.bootstrap, self.plan.rate // 4
        kinds: Sequence[type[RdLoad | OwnLoad]] = (RdLoad, OwnLoad, RdLoad, OwnLoad)
        for number, kind in enumerate(kinds):
            self.loads.append(kind(f"p{number}", bootstrap, rate, self.history, self.partitions, acks=self.plan.acks))
        self.reader = Reader(bootstrap, self.history, self.partitions)
        self.glances = [Glance(self.cluster, node, self.leaders) for node in self.cluster.nodes]
        for thread in (*self.loads, self.reader, *self.glances):
            thread.start()

    def strike(self) -> None:
        number = 0
        while self.made < self.plan.count:
            fault = self.faults[number % len(self.faults)]
            number += 1
            self._wait_for_acks()
            time.sleep(self.rng.uniform(0, self.plan.spread_s))
            said = fault.strike()
            self.say(f"strike {number}, {self.made} of {self.plan.count}: {said}")
            self._look_after()
        self._wait_for_acks()

    def _wait_for_acks(self) -> None:
        """Wait until every producer has had a new acknowledgement."""
        begin = time.monotonic()
        before = [load.acked for load in self.loads]
        while any(load.acked == then for load, then in zip(self.loads, before, strict=True)):
            self._look_after()
            if time.monotonic() - begin > PATIENCE_S:
                raise TimeoutError(f"progress: no acknowledgement in {PATIENCE_S:g} s for one of {[load.acked for load in self.loads]}")
            time.sleep(0.01)
        self.longest_s = max(self.longest_s, time.monotonic() - begin)

    def _look_after(self) -> None:
        for node, process in self.cluster.nodes.items():
            if not process.running:
                raise RuntimeError(f"ends: node {node} ended by itself:\n{process.log_tail()}")

    def close(self) -> list[str]:
        for load in self.loads:
            load.stopping.set()
        healed_s = self.cluster.wait_whole()
        for load in self.loads:
            load.join(PATIENCE_S)
        problems = [f"progress: {load.name} has not ended" for load in self.loads if load.is_alive()]
        if self.plan.acks == "all":
            problems += judging.judge_refusals([each for load in self.loads for each in load.refused])
        self.cluster.wait_whole()
        self.reader.end()
        problems += self.reader.failures
        self.say(f"whole again after {healed_s:.1f} s; judging")
        with Recorder(self.history / "final.jsonl", "final") as recorder:
            count = final_read(self.cluster.bootstrap, [TOPIC], recorder, read_committed=False, decode=decode)
        for glance in self.glances:
            glance.stopping.set()
            glance.join()
        committed = self.cluster.caught_up().high_watermark
        problems += [f"ends: node {node} ended with {status}" for node, status in self.cluster.stop().items() if status]
        # Records that only one replica acknowledged may be lost; records that were read may not.
        seen = "*.jsonl" if self.plan.acks == "all" else "[!p]*.jsonl"
        found, report = judging.judge_history(sorted(self.history.glob(seen)), written=self.plan.acks == "all")
        problems += found
        nodes = {node: process.data for node, process in self.cluster.nodes.items()}
        found, compared = judging.judge_logs(nodes, judging.ends_read(self.history / "final.jsonl"), committed)
        problems += found
        judging.note_elections(nodes, self.leaders)
        problems += self.leaders.problems() + no_complaints(self.cluster)
        self.figures = {
            "acked": self.acked,
            "read": count,
            "operations": report.operations,
            "longest wait between strikes": f"{self.longest_s:.1f} s",
            "longest wait of a send": f"{max((seconds for seconds, _ in report.unavailable.values()), default=0):.1f} s",
            "bytes compared": compared,
            "looks": self.leaders.looks,
            "epochs of the quorum": self.leaders.epochs(QUORUM),
            "epochs of the first partition": self.leaders.epochs(f"{TOPIC}-0"),
        }
        return problems


@contextlib.contextmanager
def opened(plan: Plan, folder: Path) -> Iterator[Run]:
    run = Run(plan, folder)
    try:
        yield run
    finally:
        for load in run.loads:
            load.stopping.set()
        run.cluster.kill()
        for fault in run.faults:
            fault.put_away()
        if run.network is not None:
            run.network.remove()


def campaign(plan: Plan, folder: Path) -> list[str]:
    """Run the campaign, and return one line per problem. The folder contains data, logs and histories afterwards."""
    with opened(plan, folder) as run:
        try:
            run.open()
            run.strike()
            problems = run.close()
        except (OdradekError, RuntimeError, TimeoutError) as error:
            problems = [f"{type(error).__name__}: {error}"]
        figures = ", ".join(f"{name} {value}" for name, value in run.figures.items())
        run.say(f"{plan.fault}, seed {plan.seed}: {run.made} of {plan.count}; {figures}; {len(problems)} problems")
    return problems


def why_not(plan: Plan) -> str:
    """Return what this machine lacks for the campaign, or "" when it lacks nothing."""
    lacking = namespaces.why_not() if any(kind.network for kind in plan.kinds) else ""
    return lacking or (power_cuts.why_not() if any(issubclass(kind, Power) for kind in plan.kinds) else "")


def _faults(text: str) -> str:
    if unknown := [name for name in text.split(",") if name not in FAULTS]:
        raise argparse.ArgumentTypeError(f"no such fault: {', '.join(unknown)}")
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault", type=_faults, required=True, help=f"{', '.join(FAULTS)}, or several with commas between")
    parser.add_argument("--count", type=int, default=50, help="strikes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=800, help="records a second, of all producers together")
    parser.add_argument("--spread", type=float, default=1.0, dest="spread_s", help="the longest time between strikes while all goes well")
    parser.add_argument("--pause", nargs=2, type=float, default=Times().pause, help="seconds that a pause lasts, at least and at most")
    parser.add_argument("--split", nargs=2, type=float, default=Times().split, help="the same of a split")
    options = parser.parse_args()
    given = vars(options)
    plan = Plan(times=Times(tuple(given.pop("pause")), tuple(given.pop("split"))), **given)
    if lacking := why_not(plan):
        print(f"This machine cannot run the campaign: {lacking}", file=sys.stderr)
        return 2
    if any(kind.network for kind in plan.kinds):
        namespaces.leave_network()
    folder = Path(tempfile.mkdtemp(prefix="odradek-cluster-"))
    problems = campaign(plan, folder)
    for problem in problems:
        print(problem)
    if problems:
        print(f"FAILED; data, logs and histories: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
