"""Random faults of a quorum in memory: `python -m tests.campaigns.quorum --seed 1 --count 1000`.

One seed is one cluster and one sequence of faults: drops, reorderings, cuts, crashes, paused processes, resignations, snapshots, under a
load of appends. The invariants of `tests.consensus.simulation` are checked after every step. At the end all faults end, and the quorum must
have a leader that commits. A failing seed is printed; `--seed N --count 1` repeats it.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable

from tests.consensus.simulation import Cluster


def run(seed: int, *, actions: int = 60) -> Cluster:
    """Play one seed. Raises InvariantViolation when an invariant is broken."""
    plan = random.Random(seed * 7919 + 1)
    cluster = Cluster(
        seed,
        voters=plan.choice((1, 2, 3, 3, 3, 5)),
        observers=plan.choice((0, 0, 1)),
        drop=plan.choice((0.0, 0.02, 0.1, 0.3)),
        delay_ms=plan.choice((1, 5, 30, 80)),
        flush_ms=plan.choice((1, 5, 60)),
        directory_ids=plan.random() < 0.5,
        refuses=plan.random() < 0.5,
    )
    cluster.start()
    for _ in range(actions):
        _act(cluster, plan)
        cluster.run(plan.choice((0, 1, 5, 20, 100, 300)))
    _heal(cluster)
    cluster.propose()
    cluster.run_until(cluster.converged, within_ms=60_000)
    return cluster


def _act(cluster: Cluster, plan: random.Random) -> None:
    actions: tuple[tuple[int, Callable[[], None]], ...] = (
        (10, cluster.propose),
        (2, cluster.propose_to_all),
        (2, lambda: plan.choice(list(cluster.nodes.values())).pause()),
        (3, lambda: _go_on(cluster)),
        (2, lambda: _crash(cluster, plan)),
        (3, lambda: _restart(cluster, plan)),
        (2, lambda: cluster.isolate(plan.choice(list(cluster.nodes)))),
        (2, lambda: _cut_one_way(cluster, plan)),
        (3, cluster.heal),
        (1, cluster.resign),
        (2, lambda: cluster.take_snapshot(plan.choice(list(cluster.nodes.values())), cut_log=plan.random() < 0.7)),
    )
    plan.choices([action for _, action in actions], [weight for weight, _ in actions])[0]()


def _crash(cluster: Cluster, plan: random.Random) -> None:
    for node in plan.sample(list(cluster.nodes.values()), plan.choice((1, 1, len(cluster.nodes)))):
        node.crash()


def _restart(cluster: Cluster, plan: random.Random) -> None:
    down = [node for node in cluster.nodes.values() if node.raft is None]
    if down:
        plan.choice(down).start()


def _go_on(cluster: Cluster) -> None:
    for node in cluster.nodes.values():
        node.go_on()


def _cut_one_way(cluster: Cluster, plan: random.Random) -> None:
    ids = list(cluster.nodes)
    if len(ids) > 1:
        source, target = plan.sample(ids, 2)
        cluster.cut.add((source, target))


def _heal(cluster: Cluster) -> None:
    cluster.heal()
    cluster.drop = 0.0
    cluster.delay_ms = 5
    _go_on(cluster)
    for node in cluster.nodes.values():
        if node.raft is None:
            node.start()
    cluster.run_until(cluster.has_leader_with_commit, within_ms=60_000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=1000, help="how many seeds")
    options = parser.parse_args()
    failed = 0
    commits = steps = 0
    for seed in range(options.seed, options.seed + options.count):
        try:
            cluster = run(seed)
            commits += len(cluster.committed)
            steps += cluster.steps
        except AssertionError as error:
            failed += 1
            print(f"seed {seed}: {error}", file=sys.stderr)
    print(f"{options.count} seeds, {steps} steps, {commits} committed batches, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
