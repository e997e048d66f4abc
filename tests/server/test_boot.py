"""A whole node on virtual time, network and disk: it starts in order, stops in reverse, and comes back after every kind of end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ConfigError, StorageError
from odradek.config.broker import standalone_config
from odradek.network.transport import ClientConnection, dial
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.server.boot import STEPS
from odradek.server.broker import Broker
from odradek.server.lifecycle import TRANSITIONS, BrokerState, BrokerStateMachine, IllegalTransition
from odradek.testing.disk import VirtualDisk
from odradek.testing.loop import SimulatedClock, SimulatedLoop, run

DATA = "/data"


def make_broker(loop: SimulatedLoop, disk: VirtualDisk, seed: int = 1, **overrides: str) -> Broker:
    settings = {"log.dirs": DATA, **{key.replace("_", "."): value for key, value in overrides.items()}}
    return Broker(
        standalone_config(settings), disk=disk, clock=SimulatedClock(loop), rng=random.Random(seed), loop=loop, format_if_empty=True
    )


async def connect(loop: SimulatedLoop, broker: Broker) -> ClientConnection:
    return await dial("127.0.0.1", broker.port(), clock=broker.clock, client_id="test", loop=loop)


async def result(loop: SimulatedLoop, deferred: Deferred[Any]) -> Any:
    future = loop.create_future()
    deferred.add_callback(lambda done: future.set_exception(done.error) if done.error else future.set_result(done.result()))
    return await future


async def create_topic(loop: SimulatedLoop, broker: Broker, name: str) -> int:
    connection = await connect(loop, broker)
    request = CreateTopicsRequest(
        topics=[CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)], timeout_ms=5000
    )
    response: CreateTopicsResponse = await result(loop, connection.request(request, CreateTopicsResponse, 7))
    connection.close()
    return response.topics[0].error_code


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


def test_a_node_starts_serves_and_stops() -> None:
    async def main(loop: SimulatedLoop) -> None:
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

    run(main)


def test_it_comes_back_with_what_it_knew() -> None:
    async def main(loop: SimulatedLoop) -> None:
        disk = VirtualDisk()
        for round_number in range(3):
            broker = make_broker(loop, disk, round_number)
            await broker.start()
            assert len(await topic_names(loop, broker)) == round_number
            assert await create_topic(loop, broker, f"topic-{round_number}") == 0
            await broker.stop()

    run(main)


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


@pytest.mark.parametrize("step", [step.name for step in STEPS])
def test_a_start_that_fails_unlocks_and_leaves_the_data_as_it_was(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(loop: SimulatedLoop) -> None:
        disk = VirtualDisk()
        first = make_broker(loop, disk)
        await first.start()
        await create_topic(loop, first, "flights")
        await first.stop()
        disk.remove(f"{DATA}/.kafka_cleanshutdown")

        failing = make_broker(loop, disk, 2)

        async def fail() -> None:
            raise StorageError("made to fail")

        monkeypatch.setattr(failing, f"start_{step}", fail)
        with pytest.raises(StorageError, match="made to fail"):
            await failing.start()
        await failing.stop()
        if step in ("identity", "directories", "listeners", "dispatch", "quorum", "controller_listeners", "logs"):
            # The logs have not been looked at: nobody may claim that they were closed.
            assert not disk.exists(f"{DATA}/.kafka_cleanshutdown")

        again = make_broker(loop, disk, 3)
        await again.start()
        assert await topic_names(loop, again) == ["flights"]
        await again.stop()

    run(main)


def test_two_nodes_do_not_share_a_directory() -> None:
    async def main(loop: SimulatedLoop) -> None:
        disk = VirtualDisk()
        first = make_broker(loop, disk)
        await first.start()
        second = make_broker(loop, disk, listeners="PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0")
        with pytest.raises(StorageError, match=r"\.lock"):
            await second.start()
        await second.stop()
        assert await topic_names(loop, first) == []
        await first.stop()

    run(main)


def test_a_directory_of_another_node_is_refused() -> None:
    async def main(loop: SimulatedLoop) -> None:
        disk = VirtualDisk()
        first = make_broker(loop, disk)
        await first.start()
        await first.stop()
        with pytest.raises(StorageError, match="node id"):
            await make_broker(loop, disk, node_id="2").start()

    run(main)


def test_only_what_is_served_is_accepted() -> None:
    async def main(loop: SimulatedLoop) -> None:
        with pytest.raises(ConfigError, match=r"process\.roles"):
            make_broker(
                loop, VirtualDisk(), process_roles="broker", listeners="PLAINTEXT://:9092", controller_quorum_voters="2@localhost:9093"
            )

    run(main)


def test_stopping_twice_is_stopping_once() -> None:
    async def main(loop: SimulatedLoop) -> None:
        broker = make_broker(loop, VirtualDisk())
        await broker.start()
        await asyncio.gather(broker.stop(), broker.stop())
        await broker.stop()
        assert broker.states.state is BrokerState.NOT_RUNNING

    run(main)


def test_a_stop_that_hangs_does_not_keep_the_rest_from_stopping() -> None:
    async def main(loop: SimulatedLoop) -> None:
        disk = VirtualDisk()
        broker = make_broker(loop, disk)
        await broker.start()

        async def hang() -> None:
            await asyncio.sleep(10_000)

        broker.stop_tasks = hang  # type: ignore[method-assign]
        await broker.stop()
        assert disk.exists(f"{DATA}/.kafka_cleanshutdown")
        assert loop.time() < 60

    run(main)


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
