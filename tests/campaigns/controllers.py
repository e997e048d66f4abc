"""Random faults of whole controllers: `python -m tests.campaigns.controllers --seed 1 --count 500`.

One seed is one quorum of KRaftNodes on virtual disks, with clients, and one sequence of faults: processes that pause and resume, are killed
or lose their power, links that are cut in one or both directions, slow disks, resignations, snapshots. `tests.controller.quorum_simulation`
checks its invariants. At the end all faults end, and everything that was answered must exist. A failing seed is printed; `--seed N --count
1` repeats it.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
from collections.abc import Callable

from tests.controller.quorum_simulation import Simulation


def run(seed: int, *, actions: int = 60) -> Simulation:
    """Play one seed. Raises InvariantViolation when an invariant is broken."""
    plan = random.Random(seed * 104_729 + 7)
    simulation = Simulation(
        seed,
        voters=plan.choice((1, 2, 3, 3, 3, 3, 5)),
        observers=plan.choice((0, 0, 1)),
        dynamic=plan.random() < 0.5,
        disk_s=plan.choice((0.0, 0.005, 0.05, 0.3)),
    )
    simulation.start()
    simulation.run(plan.choice((0.1, 3.0)))
    for _ in range(actions):
        _act(simulation, plan)
        simulation.run(plan.choice((0.0, 0.001, 0.01, 0.05, 0.3, 1.0, 3.0)))
    simulation.settle()
    return simulation


def _act(simulation: Simulation, plan: random.Random) -> None:
    actions: tuple[tuple[int, Callable[[], None]], ...] = (
        (10, lambda: _ask(simulation, plan, simulation.write)),
        (5, lambda: _ask(simulation, plan, simulation.allocate)),
        (3, lambda: _leader(simulation, plan, simulation.pause)),
        (1, lambda: _any(simulation, plan, simulation.pause)),
        (4, lambda: _go_on(simulation, plan)),
        (1, lambda: _leader(simulation, plan, simulation.kill)),
        (1, lambda: _any(simulation, plan, plan.choice((simulation.kill, simulation.power_cut)))),
        (1, lambda: _all_powerless(simulation)),
        (4, lambda: _restart(simulation, plan)),
        (2, lambda: _leader(simulation, plan, simulation.cut.add)),
        (2, lambda: _cut_one_way(simulation, plan)),
        (4, lambda: _mend(simulation)),
        (1, lambda: _leader(simulation, plan, simulation.resign)),
    )
    plan.choices([action for _, action in actions], [weight for weight, _ in actions])[0]()


def _ask(simulation: Simulation, plan: random.Random, ask: Callable[[int], None]) -> None:
    """Let a client ask every controller that may believe itself active, or else any controller."""
    believers = [node for node in simulation.controllers_up() if simulation.nodes[node].is_active_controller]
    for node in believers or simulation.controllers_up()[:1]:
        ask(node)
        if plan.random() < 0.3:
            ask(node)


def _leader(simulation: Simulation, plan: random.Random, act: Callable[[int], None]) -> None:
    leaders = [node for node in simulation.controllers_up() if simulation.nodes[node].raft.is_leader]
    if leaders:
        act(plan.choice(leaders))


def _any(simulation: Simulation, plan: random.Random, act: Callable[[int], None]) -> None:
    if simulation.up:
        act(plan.choice(simulation.up))


def _go_on(simulation: Simulation, plan: random.Random) -> None:
    """Resume paused processes. Clients may send requests to them first."""
    paused = [node for node in simulation.up if simulation.processes[node].paused]
    for node in paused:
        if node in simulation.voters and plan.random() < 0.7:
            plan.choice((simulation.write, simulation.allocate))(node)
        simulation.go_on(node)


def _all_powerless(simulation: Simulation) -> None:
    for node in simulation.up:
        simulation.power_cut(node)


def _restart(simulation: Simulation, plan: random.Random) -> None:
    down = [node for node in simulation.ids if node not in simulation.nodes]
    if down:
        simulation.restart(plan.choice(down))


def _cut_one_way(simulation: Simulation, plan: random.Random) -> None:
    if len(simulation.ids) > 1:
        source, target = plan.sample(simulation.ids, 2)
        simulation.cut_links.add((source, target))


def _mend(simulation: Simulation) -> None:
    simulation.cut.clear()
    simulation.cut_links.clear()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=500, help="how many seeds")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    failed = answered = blocks = batches = 0
    for seed in range(options.seed, options.seed + options.count):
        try:
            simulation = run(seed)
            answered += len(simulation.answered)
            blocks += len(simulation.blocks)
            batches += len(simulation.committed)
        except AssertionError as error:
            failed += 1
            print(f"seed {seed}: {error}", file=sys.stderr)
    print(f"{options.count} seeds, {batches} committed batches, {answered} configs and {blocks} blocks answered, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
