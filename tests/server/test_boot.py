"""A whole node on virtual time, network and disk: it starts in order, stops in reverse, and comes back after every kind of end."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any

import pytest

from odradek.base.errors import ConfigError, StorageError
from odradek.config.broker import standalone_config
from odradek.controller.format import format_storage
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.server.cluster.lifecycle import TRANSITIONS, BrokerState, BrokerStateMachine, IllegalTransition
from odradek.server.start.broker import Broker
from odradek.server.step import StartError, Step
from odradek.server.upkeep.tasks import RunTasks
from odradek.storage.meta_properties import NotFormatted
from odradek.testing.simulation.disk import VirtualDisk
from odradek.testing.simulation.loop import SimulatedLoop, run
from tests.loops import in_virtual_time
from tests.server.boot_support import DATA, connect, create_topic, make_broker, result


async def topic_names(loop: SimulatedLoop, broker: Broker) -> list[str | None]:
    connection = await connect(loop, broker)
    response: MetadataResponse = await result(loop, connection.request(MetadataRequest(topics=None), MetadataResponse, 12))
    connection.close()
    return [topic.name for topic in response.topics]


def test_clients_learn_the_levels_of_the_quorum_too() -> None:
    async def finalized(loop: SimulatedLoop, **overrides: str) -> dict[str, int]:
        broker = make_broker(loop, VirtualDisk(), **overrides)
        await broker.start()
        connection = await connect(loop, broker)
        request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        response: ApiVersionsResponse = await result(loop, connection.request(request, ApiVersionsResponse, 4))
        connection.close()
        await broker.stop()
        return {each.name: each.max_version_level for each in response.finalized_features}

    async def main(loop: SimulatedLoop) -> None:
        dynamic = await finalized(loop)
        assert dynamic["kraft.version"] == 1
        assert dynamic["metadata.version"] == 30
        assert "kraft.version" not in await finalized(loop, controller_quorum_voters="1@127.0.0.1:9093")

    run(main)


@in_virtual_time
async def test_a_node_starts_serves_and_stops(loop: SimulatedLoop) -> None:
    disk = VirtualDisk()
    broker = make_broker(loop, disk)
    seen: list[BrokerState] = []
    broker.states.listeners.append(seen.append)
    await broker.start()
    assert await create_topic(loop, broker, "flights") == 0
    assert await topic_names(loop, broker) == ["flights"]
    await broker.stop()
    assert seen == [
        BrokerState.STARTING,
        BrokerState.RECOVERY,
        BrokerState.RUNNING,
        BrokerState.PENDING_CONTROLLED_SHUTDOWN,
        BrokerState.SHUTTING_DOWN,
        BrokerState.NOT_RUNNING,
    ]
    assert disk.exists(f"{DATA}/.kafka_cleanshutdown")
    with pytest.raises(ConnectionRefusedError):
        await loop.create_connection(asyncio.Protocol, "127.0.0.1", 9092)


@in_virtual_time
async def test_it_comes_back_with_what_it_knew(loop: SimulatedLoop) -> None:
    disk = VirtualDisk()
    for round_number in range(3):
        broker = make_broker(loop, disk, round_number)
        await broker.start()
        assert len(await topic_names(loop, broker)) == round_number
        assert await create_topic(loop, broker, f"topic-{round_number}") == 0
        await broker.stop()


@pytest.mark.parametrize("seed", range(5))
def test_a_power_cut_takes_no_topic_that_was_confirmed(seed: int) -> None:
    disk = VirtualDisk()

    async def before(loop: SimulatedLoop) -> None:
        broker = make_broker(loop, disk, seed)
        await broker.start()
        for number in range(4):
            assert await create_topic(loop, broker, f"topic-{number}") == 0

    async def after(loop: SimulatedLoop) -> None:
        broker = make_broker(loop, disk.crash(random.Random(seed)), seed + 100)
        await broker.start()
        assert sorted(filter(None, await topic_names(loop, broker))) == [f"topic-{number}" for number in range(4)]
        await broker.stop()

    run(before)
    run(after)


def test_no_producer_id_is_handed_out_twice_whatever_crashes() -> None:
    disk = VirtualDisk()
    seen: list[int] = []

    def life(seed: int) -> Callable[[SimulatedLoop], Any]:
        async def main(loop: SimulatedLoop) -> None:
            broker = make_broker(loop, disk, seed)
            await broker.start()
            connection = await connect(loop, broker)
            for _ in range(1200):  # more than a block
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
                response: InitProducerIdResponse = await result(loop, connection.request(request, InitProducerIdResponse, 4))
                assert response.error_code == 0
                seen.append(response.producer_id)

        return main

    for seed in range(3):
        run(life(seed))
        disk = disk.crash(random.Random(seed))
    assert len(set(seen)) == len(seen) == 3600


def test_the_same_seed_gives_the_same_disk() -> None:
    def life() -> list[tuple[str, bytes]]:
        disk = VirtualDisk()

        async def main(loop: SimulatedLoop) -> None:
            broker = make_broker(loop, disk, 7)
            await broker.start()
            await create_topic(loop, broker, "flights")
            await asyncio.sleep(30)
            await broker.stop()

        run(main)
        return [(name, disk.read_bytes(f"{DATA}/{name}")) for name in disk.listdir(DATA) if not disk.is_dir(f"{DATA}/{name}")] + [
            (name, disk.read_bytes(f"{DATA}/__cluster_metadata-0/{name}")) for name in disk.listdir(f"{DATA}/__cluster_metadata-0")
        ]

    assert life() == life()


STEPS: dict[str, type[Step[Any]]] = {step.name: step for step in Step.__subclasses__()}
STEPS_IN_ORDER = (
    *(
        "policies",
        "identity",
        "directories",
        "listeners",
        "metrics",
        "dispatch",
        "quorum",
        "controller_listeners",
        "metadata_image",
        "controller_registration",
    ),
    *("logs", "replicas", "introduction", "metadata", "tasks", "cleaner", "registration", "broker_listeners"),
)
"""Of a node with both roles."""


@pytest.mark.parametrize("step", sorted(STEPS.keys() & STEPS_IN_ORDER))
@in_virtual_time
async def test_a_start_that_fails_unlocks_and_leaves_the_data_as_it_was(
    loop: SimulatedLoop, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = VirtualDisk()
    first = make_broker(loop, disk)
    await first.start()
    await create_topic(loop, first, "flights")
    await first.stop()
    disk.remove(f"{DATA}/.kafka_cleanshutdown")

    failing = make_broker(loop, disk, 2)

    async def fail(_: Step[Any]) -> None:
        raise StorageError("made to fail")

    with monkeypatch.context() as patched:
        patched.setattr(STEPS[step], "start", fail)
        with pytest.raises(StorageError, match="made to fail"):
            await failing.start()
    await failing.stop()
    # Logs that have not been looked at: nobody may claim that they were closed.
    looked_at = STEPS_IN_ORDER.index(step) > STEPS_IN_ORDER.index("logs")
    assert disk.exists(f"{DATA}/.kafka_cleanshutdown") == looked_at

    again = make_broker(loop, disk, 3)
    await again.start()
    assert await topic_names(loop, again) == ["flights"]
    await again.stop()


def test_steps_stop_in_the_reverse_of_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[str] = []
    ended: list[str] = []

    def watch(step: type[Step[Any]]) -> None:
        start, stop = step.start, step.stop

        async def starting(self: Step[Any]) -> Any:
            began.append(self.name)
            return await start(self)

        async def stopping(self: Step[Any]) -> None:
            ended.append(self.name)
            await stop(self)

        monkeypatch.setattr(step, "start", starting)
        monkeypatch.setattr(step, "stop", stopping)

    async def main(loop: SimulatedLoop) -> None:
        broker = make_broker(loop, VirtualDisk())
        await broker.start()
        await broker.stop()

    for step in STEPS.values():
        watch(step)
    run(main)
    assert tuple(began) == STEPS_IN_ORDER
    assert ended == began[::-1]


@in_virtual_time
async def test_the_first_fsync_of_the_metadata_log_that_fails_ends_the_start(loop: SimulatedLoop) -> None:
    disk = VirtualDisk()
    broker = make_broker(loop, disk)
    told: list[Exception] = []
    broker.on_fatal = told.append
    # The second one: the first is that of the empty log, which is made before anybody waits.
    disk.fail(f"{DATA}/__cluster_metadata-0/00000000000000000000.log", "fsync", after=1)
    with pytest.raises(StorageError, match=r"/data/__cluster_metadata-0.*\.log: Input/output error$"):
        await asyncio.wait_for(broker.start(), 60)
    await broker.stop()
    assert told == [], "the start has said it"
    assert broker.states.state is BrokerState.NOT_RUNNING
    assert disk.locks == set()


@in_virtual_time
async def test_a_metadata_log_that_dies_while_a_later_step_waits_ends_the_start(loop: SimulatedLoop) -> None:
    disk = VirtualDisk()
    broker = make_broker(loop, disk)

    def registering(operation: str, path: str) -> None:
        if operation == "fsync" and broker.services.metadata.image.features.metadata_version is not None:
            # The broker follows the metadata by now: the record that registers it is what waits.
            raise OSError(5, "Input/output error", path)

    disk.fault = registering
    with pytest.raises(StorageError, match=r"/data/.*: Input/output error$"):
        await asyncio.wait_for(broker.start(), 60)
    disk.fault = None
    await broker.stop()
    again = make_broker(loop, disk, 2)
    await again.start()
    await again.stop()


@pytest.mark.parametrize("kind", ["write", "fsync", "fsync_dir", "create", "rename", "read"])
def test_a_disk_that_fails_at_any_moment_of_the_start_ends_the_start(kind: str) -> None:
    """One after the other, every operation of that kind is the first to fail, and so do all that follow."""

    disk = VirtualDisk()

    async def before(loop: SimulatedLoop) -> None:
        broker = make_broker(loop, disk)
        await broker.start()
        await create_topic(loop, broker, "flights")
        # It is not stopped: there is something to recover.

    def life(healthy: VirtualDisk, after: int) -> int:
        disk = healthy.kill()
        failure = disk.fail(DATA, kind, after=after)

        async def main(loop: SimulatedLoop) -> None:
            broker = make_broker(loop, disk, 2)
            told: list[Exception] = []
            broker.on_fatal = told.append
            refused = ""
            try:
                await asyncio.wait_for(broker.start(), 60)
            except StorageError as error:
                refused = str(error)
            if refused:
                assert "\n" not in refused
                assert DATA in refused
                assert told == []
            else:
                # Registering the controller goes on in the background: what fails from then on ends the node.
                await asyncio.sleep(0.3)
                for _ in range(10 * failure.hits):
                    await asyncio.sleep(0.01)
                assert len(told) == (failure.hits > 0)
            failure.lift()
            await asyncio.wait_for(broker.stop(), 60)
            again = make_broker(loop, disk, 3)
            await again.start()
            assert await topic_names(loop, again) == ["flights"]
            await again.stop()

        run(main)
        return failure.hits

    run(before)
    after = 0
    while life(disk, after):
        after += 1
    assert after > 0


@in_virtual_time
async def test_two_nodes_do_not_share_a_directory(loop: SimulatedLoop) -> None:
    disk = VirtualDisk()
    first = make_broker(loop, disk)
    await first.start()
    second = make_broker(loop, disk, listeners="PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0")
    with pytest.raises(StorageError, match=r"\.lock"):
        await second.start()
    await second.stop()
    assert await topic_names(loop, first) == []
    await first.stop()


@in_virtual_time
async def test_a_directory_of_another_node_is_refused(loop: SimulatedLoop) -> None:
    disk = VirtualDisk()
    first = make_broker(loop, disk)
    await first.start()
    await first.stop()
    with pytest.raises(StorageError, match="node id"):
        await make_broker(loop, disk, node_id="2").start()


def formatted(disk: VirtualDisk, **how: Any) -> None:
    config = standalone_config({"log.dirs": DATA})
    format_storage(disk, config, cluster_id="MkU3OEVBNTcwNTJENDM2Qk", rng=random.Random(1), now_ms=0, **how)


@pytest.mark.parametrize(
    ("how", "remark", "waiting"),
    [
        ({"no_initial_controllers": True}, "controller 1 does not know the voters yet", "voters: unknown"),
        (
            {"initial_controllers": "2@localhost:9193:bbbbbbbbbbbbbbbbbbbbbg"},
            "controller 1 is not among the voters 2",
            r"voters: 2\)",
        ),
        (
            {"initial_controllers": "1@localhost:9093:aaaaaaaaaaaaaaaaaaaaag,2@localhost:9193:bbbbbbbbbbbbbbbbbbbbbg"},
            "",
            r"voters: 1, 2\).*node 2 at localhost:9193",
        ),
    ],
)
def test_a_controller_says_what_keeps_it_from_its_quorum(
    how: dict[str, Any], remark: str, waiting: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(loop: SimulatedLoop) -> None:
        disk = VirtualDisk()
        formatted(disk, **how)
        broker = make_broker(loop, disk, server_max_startup_time_ms="70000")
        with caplog.at_level(logging.WARNING), pytest.raises(StartError, match=waiting) as refusal:
            await asyncio.wait_for(broker.start(), 200)
        assert "\n" not in str(refusal.value)
        assert loop.time() == pytest.approx(70, abs=0.1)
        await broker.stop()
        assert disk.locks == set()

    run(main)
    assert any(remark in line for line in caplog.messages)
    assert sum("Waiting for a leader of the metadata quorum" in line for line in caplog.messages) == 2, "after 5 s, then every minute"
    assert sum("cannot be reached" in line for line in caplog.messages) <= 2, "once for each address"


@pytest.mark.parametrize(
    "others",
    [
        {"controller_quorum_voters": "1@127.0.0.1:9093,2@127.0.0.1:9193"},
        {"controller_quorum_bootstrap_servers": "127.0.0.1:9093,127.0.0.1:9193"},
    ],
)
@in_virtual_time
async def test_a_node_among_others_does_not_format_itself(loop: SimulatedLoop, others: dict[str, str]) -> None:
    """It would be in a cluster of its own, with an id that the others do not have."""
    disk = VirtualDisk()
    broker = make_broker(loop, disk, **others)
    with pytest.raises(NotFormatted):
        await asyncio.wait_for(broker.start(), 100)
    await broker.stop()
    assert not disk.exists(f"{DATA}/meta.properties")


@in_virtual_time
async def test_the_only_voter_with_another_metadata_directory_is_not_this_node(loop: SimulatedLoop) -> None:
    disk = VirtualDisk()
    formatted(disk, initial_controllers="1@localhost:9093:aaaaaaaaaaaaaaaaaaaaag")
    properties = disk.read_bytes(f"{DATA}/meta.properties").replace(b"aaaaaaaaaaaaaaaaaaaaag", b"bbbbbbbbbbbbbbbbbbbbbg")
    disk.write_atomic(f"{DATA}/meta.properties", properties)
    broker = make_broker(loop, disk, server_max_startup_time_ms="60000")
    with pytest.raises(
        ConfigError, match="directory aaaaaaaaaaaaaaaaaaaaag, but the metadata directory of this node is bbbbbbbbbbbbbbbbbbbbbg"
    ):
        await broker.start()
    await broker.stop()


@pytest.mark.parametrize(("foreign", "reason"), [({"cluster_id": "AkU3OEVBNTcwNTJENDM2Qk"}, "cluster.id"), ({"node": 2}, "node id 2")])
@in_virtual_time
async def test_a_controller_looks_at_every_log_directory(loop: SimulatedLoop, foreign: dict[str, Any], reason: str) -> None:
    """Kafka's controller, too, reads the meta.properties of all log.dirs (KafkaRaftServer.initializeLogDirs), though it uses but one."""
    disk = VirtualDisk()
    formatted(disk, standalone=True)
    other = standalone_config({"log.dirs": "/other", "node.id": str(foreign.get("node", 1))})
    cluster_id = foreign.get("cluster_id", "MkU3OEVBNTcwNTJENDM2Qk")
    format_storage(disk, other, cluster_id=cluster_id, rng=random.Random(2), now_ms=0, standalone=True)
    only_controller = {"process_roles": "controller", "listeners": "CONTROLLER://127.0.0.1:9093", "metadata_log_dir": DATA}
    broker = make_broker(loop, disk, log_dirs=f"{DATA},/other", **only_controller)
    with pytest.raises(StorageError, match=f"{reason}.*/other"):
        await broker.start()
    await broker.stop()
    disk.rmtree("/other")
    formatted_too = standalone_config({"log.dirs": "/other"})
    format_storage(disk, formatted_too, cluster_id="MkU3OEVBNTcwNTJENDM2Qk", rng=random.Random(3), now_ms=0, standalone=True)
    broker = make_broker(loop, disk, log_dirs=f"{DATA},/other", **only_controller)
    await broker.start()
    assert broker.node.kraft.is_active_controller
    await broker.stop()


@in_virtual_time
async def test_stopping_twice_is_stopping_once(loop: SimulatedLoop) -> None:
    broker = make_broker(loop, VirtualDisk())
    await broker.start()
    await asyncio.gather(broker.stop(), broker.stop())
    await broker.stop()
    assert broker.states.state is BrokerState.NOT_RUNNING


@in_virtual_time
async def test_a_stop_that_hangs_does_not_keep_the_rest_from_stopping(loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = VirtualDisk()
    broker = make_broker(loop, disk)
    await broker.start()

    async def hang(_: RunTasks) -> None:
        await asyncio.sleep(10_000)

    monkeypatch.setattr(RunTasks, "stop", hang)
    await broker.stop()
    assert disk.exists(f"{DATA}/.kafka_cleanshutdown")
    assert loop.time() < 60


def test_only_legal_transitions_happen() -> None:
    machine = BrokerStateMachine()
    with pytest.raises(IllegalTransition, match="NOT_RUNNING to RUNNING"):
        machine.to(BrokerState.RUNNING)
    assert {state.name: state.value for state in BrokerState} == {
        "NOT_RUNNING": 0,
        "STARTING": 1,
        "RECOVERY": 2,
        "RUNNING": 3,
        "PENDING_CONTROLLED_SHUTDOWN": 6,
        "SHUTTING_DOWN": 7,
        "UNKNOWN": 127,
    }
    assert set(TRANSITIONS) == set(BrokerState)
