"""Bugs of all rooms that the stories of whole clusters have to notice (tests/simulation/hunts.py): at least one of each family of promises.

Most have been in the code once, or are in other implementations. Other tests notice them, too; here the campaign is put to the test.
"""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Edit, Mutant


def _hunt(name: str) -> str:
    return f"simulation/hunts.py -k '{name}'"


MUTANTS: Final[tuple[Mutant, ...]] = (
    # -- raft
    Mutant(
        "candidate-votes-twice",
        "consensus/states.py",
        "        if self.role is Role.CANDIDATE:\n            return pre_vote and up_to_date",
        "        if self.role is Role.CANDIDATE:\n            return up_to_date",
        "two nodes lead the quorum in the same epoch",
        _hunt("votes"),
    ),
    Mutant(
        "metadata-promised-before-it-is-durable",
        "consensus/polling.py",
        "    return raft.flushed_offset >= raft.log_end.offset or not raft.is_voter\n",
        "    return True\n",
        "committed metadata are lost when all voters lose power",
        _hunt("votes"),
    ),
    # -- controller
    Mutant(
        "deposed-controller-answers",
        "controller/kraft/active.py",
        "            if not appended or self.active_epoch != epoch:\n",
        "            if False:\n",
        "after a pause a controller that others have replaced confirms what it can never commit",
        _hunt("deposed"),
        also=(
            Edit("controller/kraft/execution.py", "        if self.now_ms() >= self._raft.deadline_ms:\n", "        if False:\n"),
            Edit("consensus/replication.py", "    if not state.lost_quorum(raft.now_ms):\n", "    if True:\n"),
        ),
    ),
    Mutant(
        "deposed-controller-goes-on",
        "controller/kraft/active.py",
        "        epoch = self.active_epoch\n        for batch in batches:\n            base = self._writer.next_offset\n",
        "        for batch in batches:\n            epoch, base = self.active_epoch, self._writer.next_offset\n",
        "the second batch of an operation, which nobody has appended, stays in the state of a controller that others have replaced",
        _hunt("divided"),
        also=(
            Edit(
                "controller/kraft/active.py",
                "                self.deactivate()\n                return False\n            position",
                "                self.deactivate()\n            position",
            ),
            Edit("controller/kraft/active.py", "            assert self.replayed_to <= self._writer.next_offset\n", ""),
            Edit("controller/kraft/active.py", "        if appended:\n", "        if appended and self.is_active:\n"),
            Edit("controller/kraft/execution.py", "        if self.now_ms() >= self._raft.deadline_ms:\n", "        if False:\n"),
            Edit("consensus/replication.py", "    if not state.lost_quorum(raft.now_ms):\n", "    if True:\n"),
        ),
    ),
    Mutant(
        "nobody-was-the-last-leader",
        "controller/core/partition_change.py",
        "record.leader == NO_LEADER and before.leader != NO_LEADER and not before.last_known_elr",
        "record.isr is not None and not record.isr and not before.last_known_elr",
        "the last known leader of a partition is -1",
        _hunt("leaderless"),
    ),
    # -- replication
    Mutant(
        "metadata-ends-a-newer-change-of-the-isr",
        "replication/partition.py",
        "if registration.partition_epoch > self.partition_epoch or not self.isr.in_flight:",
        "if True:",
        "a replica that the controller is about to take in does not hold the high watermark back",
        _hunt("joining"),
    ),
    Mutant(
        "followers-flush-nothing",
        "server/fetchers.py",
        "        if log.flush_due:\n",
        "        if False:\n",
        "with flush.messages=1 a power cut of all takes records that were acknowledged",
        _hunt("power"),
    ),
    # -- coordinators
    Mutant(
        "groups-of-a-high-watermark-that-lags",
        "coordinator/loading.py",
        "self._position, self._end = self._context.log.log_start_offset, self._context.log.log_end_offset",
        "self._position, self._end = self._context.log.log_start_offset, self._context.log.high_watermark",
        "after a failover committed offsets go back to those that the new leader knew to be committed",
        _hunt("failovers"),
        also=(
            Edit(
                "coordinator/context.py",
                "            if offset >= self.next_offset:\n                self._activate()\n",
                "            self._activate()\n",
            ),
        ),
    ),
    Mutant(
        "leads-on-with-nothing",
        "coordinator/runtime.py",
        "if not failed and (current.leader_epoch >= leader_epoch or current.lead_on(leader_epoch)):",
        "if not failed and current.leader_epoch >= leader_epoch:",
        "a new leader epoch of the same leader throws the state of its groups away",
        _hunt("epochs"),
    ),
    Mutant(
        "open-transactions-are-read",
        "storage/log.py",
        "        return self.high_watermark if unstable is None or unstable > self.high_watermark else max(unstable, self.log_start_offset)\n",
        "        return self.high_watermark\n",
        "read_committed consumers read what may be aborted",
        _hunt("transactions"),
    ),
    # -- liveness
    Mutant(
        "preferred-leaders-are-not-sought",
        "controller/kraft/periodic.py",
        '        if config.flag("auto.leader.rebalance.enable"):\n',
        "        if False:\n",
        "leaders stay where a failure has put them",
        _hunt("balance"),
    ),
    # -- traffic
    Mutant(
        "asks-without-pause-who-leads",
        "consensus/replication.py",
        "            # Back off even without a known leader, because the same server would give the same answer again.\n"
        "            raft.requests.back_off(source, raft.now_ms)\n",
        "            pass\n",
        "while the quorum has no leader its members ask one another without end",
        _hunt("quorums"),
    ),
)
