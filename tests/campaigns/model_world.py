"""Cluster for the models of the clients, driven by hypothesis.

The runs of a model share three brokers in this process. A topic with movable leaders is lent to one run only. Its partitions have the
replicas [first, second] and are led by the second, so that a preferred election moves the leader to the first. Such topics are created a
hundred at a time, with one restart of the first broker.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from odradek.client import Admin, KafkaError, TopicPartition
from odradek.client.admin.types.replicas import ElectionType
from odradek.client.types import NewTopic
from odradek.testing import EmbeddedCluster
from tests.campaigns.model_faces import drive

TOPIC = "model"
PORTION = 250
"""Number of runs of one seed. `--runs 250` with the printed seed repeats a failure."""
_SETTINGS = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "group.consumer.heartbeat.interval.ms": "50",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
}
_IN_SYNC_S = 60.0


class ModelWorld:
    """Three brokers with a topic that all runs share, and topics with movable leaders."""

    def __init__(self, partitions: int, fill: Callable[[str, list[str]], None] = lambda servers, topics: None, lent: int = 100) -> None:
        """Prepare the cluster. `fill` writes records into new topics; `lent` topics with movable leaders are created at a time."""
        self.cluster = EmbeddedCluster(3, _SETTINGS, memory=True)
        self.partitions = range(partitions)
        self._fill = fill
        self._at_once = lent
        self._made = 0
        self._lent: list[str] = []
        self._spare: list[str] = []
        self.runs = 0

    def __enter__(self) -> ModelWorld:
        self.cluster.start()
        self.servers = self.cluster.bootstrap_servers
        self.admin = Admin(bootstrap_servers=self.servers)
        self._create([TOPIC], {number: [number % 3 + 1] for number in self.partitions})
        return self

    def __exit__(self, *_: object) -> None:
        self.admin.close()
        # Kill the nodes: in an orderly stop the last nodes would find no quorum.
        for node in self.cluster.ids:
            self.cluster.kill(node)
        self.cluster.stop()

    def _create(self, names: list[str], assignments: dict[int, list[int]]) -> None:
        self.admin.create_topics([NewTopic(name, assignments=assignments) for name in names])
        for name in names:
            for node in self.cluster.nodes.values():
                node.call("await_topic", name, True, timeout_s=_IN_SYNC_S)
        self._fill(self.servers, names)

    def lend(self) -> str:
        """Return a topic that no other run gets, of which `move` can move each leader once."""
        if not self._spare:
            if self._lent:
                self.admin.delete_topics(self._lent)
            self._spare = self._with_leaders_to_move()
            self._lent = list(self._spare)
        return self._spare.pop()

    def _with_leaders_to_move(self) -> list[str]:
        controller = self.admin.describe_metadata_quorum().leader_id
        first, second = (node for node in self.cluster.ids if node != controller)
        names = [f"{TOPIC}-{self._made + number}" for number in range(self._at_once)]
        self._made += len(names)
        self._create(names, {number: [first, second] for number in self.partitions})
        self.cluster.stop(first)
        self.cluster.restart(first)
        limit = time.monotonic() + _IN_SYNC_S
        while not self._all_in_sync(names):
            if time.monotonic() > limit:
                raise TimeoutError("the replicas of the broker that was restarted are not in sync")
            time.sleep(0.01)
        return names

    def _all_in_sync(self, names: list[str]) -> bool:
        found = self.admin.describe_topics(names).values()
        return all(len(partition.isr) == 2 for topic in found for partition in topic.partitions.values())

    def move(self, where: TopicPartition) -> None:
        """Move the leader of a partition of a lent topic. Raises KafkaError when it has been moved already."""
        self.admin.elect_leaders(ElectionType.PREFERRED, [where])

    def fail(self, api: str, error: str | None, client_id: str, *, applied: bool, topic: str | None = None) -> None:
        """Refuse the client's next request on each broker with the error. With `error` None, close the connection instead."""
        for node in self.cluster.nodes.values():
            if error is None:
                node.faults.disconnect_on(api, client_id=client_id, times=1, applied=applied)
            else:
                node.faults.fail(api, error, client_id=client_id, times=1, applied=applied, topic=topic)

    def forget(self, group: str) -> None:
        """Delete a group, so that the brokers' memory does not grow with the runs."""
        try:
            self.admin.delete_consumer_groups([group])
        except KafkaError as error:
            if error.code.name not in ("GROUP_ID_NOT_FOUND", "NON_EMPTY_GROUP"):
                raise


class ViolationError(AssertionError):
    """Difference between the client and the model."""


class Model(RuleBasedStateMachine):
    """One run. The random choices do not depend on the clients' behaviour, so that hypothesis can repeat and shrink the run."""

    world: ClassVar[ModelWorld]
    told: ClassVar[Callable[[str], None]] = staticmethod(print)

    def __init__(self) -> None:
        super().__init__()
        self.number = self.world.runs
        self.world.runs += 1
        self.script: list[str] = []
        self.failed = False
        self.runner: asyncio.Runner | None = None
        """Event loop of an asyncio client, or None."""

    def client_settings(self) -> dict[str, Any]:
        """Return the settings of all clients: bootstrap servers, client id, and short back-offs."""
        pauses = {"retry.backoff.ms": 5, "retry.backoff.max.ms": 20, "reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 20}
        return {"bootstrap.servers": self.world.servers, "client.id": f"run-{self.number}", **pauses}

    def run(self, action: Coroutine[Any, Any, Any]) -> None:
        """Run a part of the script, in the loop of an asyncio client if there is one."""
        drive(action) if self.runner is None else self.runner.run(action)

    def tell(self, error: BaseException) -> None:
        """Print a failure at once, as it may not happen again."""
        self.failed = True
        type(self).told(f"run {self.number}: {error!r} after {', '.join(self.script)}")


def play(model: type[Model], world: ModelWorld, runs: int, number: int, steps: int, **state: Any) -> int:
    """Play the runs in portions, with seeds from `number` on. Return the number of failed portions."""
    failed, begin = 0, time.monotonic()
    for portion in range(-(-runs // PORTION)):
        of_this = seed(number + portion)(type(model.__name__, (model,), {"world": world, **state}))
        before = world.runs
        try:
            run_state_machine_as_test(
                of_this,
                settings=settings(
                    max_examples=min(PORTION, runs - portion * PORTION),
                    stateful_step_count=steps,
                    deadline=None,
                    database=None,
                    derandomize=False,
                    report_multiple_bugs=False,
                    suppress_health_check=list(HealthCheck),
                    phases=(Phase.generate, Phase.shrink),
                ),
            )
        except BaseException as error:
            if not isinstance(error, Exception | BaseExceptionGroup):
                raise
            failed += 1
            traceback.print_exc()
            print(f"--runs {PORTION} --seed {number + portion} plays this portion again", flush=True)
        spent = time.monotonic() - begin
        print(
            f"seed {number + portion}: {world.runs - before} runs; {world.runs} in all, {failed} portions failed, {spent:.0f} s", flush=True
        )
    return failed
