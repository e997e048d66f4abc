"""The lives of embedded brokers: restarts, kills, pauses, processes of their own, and what is left when the test's process ends badly."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aiokafka
import pytest

from interop.waiting import until
from odradek.base.errors import ConfigError, ErrorCode, KafkaError
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.testing import AsyncEmbeddedBroker, AsyncEmbeddedCluster, EmbeddedBroker, EmbeddedCluster, TestingError, Topic
from odradek.testing.kit.temporary import ReservedPort, free_ports
from tests.testing.wire import Wire

ROOT = Path(__file__).parents[2]
WHERE = pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])


def _topics(port: int) -> set[str]:
    with Wire(port) as wire:
        return {topic.name for topic in wire.ask(MetadataRequest(topics=None), 12).topics}


@WHERE
def test_a_broker_that_was_killed_comes_back_on_its_port_with_its_topics(process: bool) -> None:
    with EmbeddedBroker(topics=["one", Topic("two", 3, configs={"retention.ms": "1000"})], process=process, memory=True) as broker:
        port = broker.port
        assert (broker.pid == os.getpid()) is not process
        broker.kill()
        assert not broker.is_up
        assert broker.pid is None
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5)
        with pytest.raises(TestingError, match="node 1 is not running"):
            broker.kill()
        with pytest.raises(TestingError, match="node 1 is not running"):
            broker.create_topic("three")
        broker.start()
        assert broker.port == port
        assert _topics(port) == {"one", "two"}
        broker.restart()
        assert _topics(port) == {"one", "two"}
        folder = Path(broker.directory)
    assert not folder.exists()
    with pytest.raises(TestingError, match="temporary directory deleted"):
        broker.start()


@WHERE
def test_errors_of_kafka_and_of_the_configuration_are_the_callers(process: bool) -> None:
    with EmbeddedBroker(topics=["one"], process=process, memory=True) as broker:
        with pytest.raises(KafkaError) as caught:
            broker.create_topic("one")
        assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            broker.delete_topic("two")
        broker.delete_topic("one")
        assert _topics(broker.port) == set()
        with pytest.raises(TestingError, match="node 1 is already running"):
            broker.start()
    broken = EmbeddedBroker({"no.such.key": "1"}, process=process)
    with pytest.raises(ConfigError, match=r"no\.such\.key"):
        broken.start()
    assert not Path(broken.directory).exists()


@WHERE
def test_a_paused_broker_says_nothing_until_it_goes_on(process: bool) -> None:
    with EmbeddedBroker(process=process, memory=True) as broker, Wire(broker.port, timeout_s=0.3) as wire:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        wire.ask(request, 3)
        broker.pause()
        with pytest.raises(TimeoutError):
            wire.ask(request, 3)
        broker.resume()
        with Wire(broker.port) as other:
            other.ask(request, 3)
        broker.pause()
        broker.kill()
        broker.start()
        broker.pause()
        broker.pause()
        broker.resume()
        with Wire(broker.port) as other:
            other.ask(request, 3)
        broker.pause()  # it is stopped all the same


def test_a_call_that_is_given_up_ends_in_the_process_of_the_broker() -> None:
    with EmbeddedBroker(process=True, memory=True) as broker:
        with pytest.raises(TimeoutError, match="0 PRODUCE requests"):
            broker.wait_until_seen("Produce", timeout_s=0.05)
        until(lambda: "wait_until_seen was cancelled" in broker.log_text())
        assert broker.seen("Produce") == 0


def test_faults_work_in_a_process_of_its_own_and_its_log_can_be_read() -> None:
    with EmbeddedBroker(process=True, topics=["t"]) as broker, Wire(broker.port, "me") as wire:
        fault = broker.faults.fail("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", topic="t", times=1)
        request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])
        assert wire.ask(request, 12).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert wire.ask(request, 12).topics[0].error_code == 0
        assert (fault.hits, broker.seen("Metadata", client_id="me")) == (1, 2)
        broker.clock.advance(3600)
        assert broker.clock.time_ms() > time.time() * 1000 + 3_500_000
        with pytest.raises(TestingError, match="the topic nowhere does not exist"):
            broker.compact("nowhere")
        assert "INFO" in broker.log_text()
        assert len(broker.log_text(10)) == 10


@WHERE
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_call_ends_when_the_broker_does(process: bool, how: str) -> None:
    with EmbeddedBroker(process=process, memory=True) as broker, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(broker.wait_until_seen, "Produce", 1, timeout_s=30)
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        getattr(broker, how)()
        with pytest.raises(TestingError, match="the broker has ended"):
            waiting.result(10)


def test_fifty_brokers_serve_at_once() -> None:
    brokers = [EmbeddedBroker(topics=["t"], memory=True) for _ in range(50)]
    try:
        with ThreadPoolExecutor(10) as pool:
            list(pool.map(lambda broker: broker.start(), brokers))
        assert len({broker.port for broker in brokers}) == 50
        for broker in brokers:
            assert _topics(broker.port) == {"t"}
    finally:
        with ThreadPoolExecutor(10) as pool:
            list(pool.map(lambda broker: broker.stop(), brokers))
    assert not any(Path(broker.directory).exists() for broker in brokers)


def test_clients_of_a_cluster_in_processes_survive_the_kill_of_a_node() -> None:
    with EmbeddedCluster(3, process=True, memory=True, topics=[Topic("t", 3)]) as cluster:
        assert len({node.pid for node in cluster.nodes.values()}) == 3
        cluster.kill(2)
        assert not cluster.is_up(2)
        cluster.create_topic("late", 1, replication_factor=2)
        cluster.restart(2)
        until(lambda: _topics(cluster.port(2)) == {"t", "late"})
        cluster.delete_topic("late")
        assert _topics(cluster.port(3)) == {"t"}


def test_faults_of_a_cluster_strike_on_every_node_and_those_of_a_node_there_only() -> None:
    with EmbeddedCluster(2, memory=True) as cluster:
        request = MetadataRequest(topics=None)
        cluster.faults.drop("Metadata", times=1)
        for node in cluster.ids:
            with pytest.raises(TimeoutError), Wire(cluster.port(node), timeout_s=0.3) as wire:
                wire.ask(request, 12)
        cluster.nodes[1].faults.disconnect_on("Metadata")
        with pytest.raises(ConnectionError), Wire(cluster.port(1)) as wire:
            wire.ask(request, 12)
        with Wire(cluster.port(2)) as wire:
            wire.ask(request, 12)
            cluster.faults.clear()
        with Wire(cluster.port(1)) as wire:
            wire.ask(request, 12)


# -- ports and places --------------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a bound port cannot be shared")
def test_a_reserved_port_is_given_to_nobody_who_asks_for_any_and_can_be_listened_on() -> None:
    reserved = {ReservedPort() for _ in range(50)}
    ports = {each.port for each in reserved}
    assert len(ports) == 50
    others = []
    for _ in range(500):
        other = socket.socket()
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))
        others.append(other)
    assert ports.isdisjoint(other.getsockname()[1] for other in others)
    for other in others:
        other.close()
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass
    assert set(free_ports(3)).isdisjoint(ports)
    for each in reserved:
        each.release()


def test_a_directory_in_memory_is_on_dev_shm_and_one_that_was_given_is_kept(tmp_path: Path) -> None:
    with EmbeddedBroker(memory=True) as broker:
        assert broker.directory.startswith("/dev/shm/") == os.access("/dev/shm", os.W_OK)
    with EmbeddedBroker(directory=tmp_path, topics=["kept"]):
        pass
    with EmbeddedBroker(directory=tmp_path, topics=["kept", "new"]) as broker:
        assert _topics(broker.port) == {"kept", "new"}
        broker.stop()
        broker.start()
    for _ in range(2):
        with EmbeddedBroker(directory=tmp_path, process=True) as broker:
            assert _topics(broker.port) == {"kept", "new"}
    assert "INFO" in (tmp_path / "broker.log").read_text()
    with pytest.raises(TestingError, match="memory=True"):
        EmbeddedBroker(directory=tmp_path, memory=True)


@pytest.mark.parametrize("given", [False, True])
def test_only_a_directory_that_was_given_is_flushed_to_its_device(given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (flushed.append(descriptor), fsync(descriptor)))
    with EmbeddedBroker(directory=tmp_path if given else None, topics=["t"]):
        pass
    assert bool(flushed) is given
    flushed.clear()
    with EmbeddedCluster(1, directory=tmp_path / "cluster" if given else None):
        pass
    assert bool(flushed) is given


SCRIPT = """
import os, sys, time
from odradek.testing import EmbeddedBroker
brokers = [EmbeddedBroker(memory=True).start(), EmbeddedBroker(process=True).start(), EmbeddedBroker(process=True).start()]
brokers[2].pause()
print(*[broker.pid for broker in brokers[1:]], *[broker.directory for broker in brokers], flush=True)
sys.stdin.read()
{end}
"""


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("end", ["killed", "sys.exit(3)", "raise ValueError", "os._exit(4)", "pass"])
def test_nothing_is_left_when_the_process_of_the_test_ends_without_stopping_its_brokers(end: str) -> None:
    code = SCRIPT.format(end="" if end == "killed" else end)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as test:
        assert test.stdout is not None
        assert test.stdin is not None
        *pids, memory, disk, other = test.stdout.readline().split()
        assert all(_alive(int(pid)) for pid in pids)
        assert all(Path(each).exists() for each in (memory, disk, other))
        if end == "killed":
            test.send_signal(signal.SIGKILL)
        test.stdin.close()
        test.wait(30)
    until(lambda: not any(_alive(int(pid)) for pid in pids))
    until(lambda: not any(Path(each).parents[1].exists() for each in (memory, disk, other)))


FORK = """
import os, pathlib, socket, sys
from odradek.storage.disk import OsDisk
from odradek.testing import EmbeddedBroker
broker = EmbeddedBroker(topics=["t"]).start()
told, tell = os.pipe()
stopped, say_stopped = os.pipe()
child = os.fork()
if child == 0:
    os.close(tell)
    try:
        broker.create_topic("x")
    except RuntimeError as error:
        print(error, flush=True)
    broker.stop()
    os.write(say_stopped, b"x")
    own = EmbeddedBroker(topics=["own"]).start()
    print(own.port != broker.port, flush=True)
    os.read(told, 1)  # until the parent has stopped its broker
    own.stop()
    sys.exit(0)
os.close(told)
os.read(stopped, 1)
print(os.path.exists(broker.directory), flush=True)
[lock] = pathlib.Path(broker.directory).rglob(".lock")
try:
    OsDisk().lock(str(lock))
except BlockingIOError:
    print("locked", flush=True)
broker.create_topic("here")
broker.restart()
broker.create_topic("again")
port, directory = broker.port, broker.directory
broker.stop()
try:
    socket.create_connection(("127.0.0.1", port), 5)
except ConnectionRefusedError:
    print("refused", flush=True)
print(os.path.exists(directory), flush=True)
os.close(tell)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_process_that_is_forked_off_leaves_the_broker_to_its_parent_and_may_have_its_own() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, timeout=60, check=False)
    lines = done.stdout.splitlines()
    assert sorted(lines) == sorted(
        ["the broker belongs to the process from which this process was forked", "True", "True", "locked", "refused", "False", "0"]
    ), done.stderr


def test_brokers_can_be_started_and_stopped_from_many_threads() -> None:
    before = {thread.name for thread in threading.enumerate()}

    def live(number: int) -> set[str]:
        with EmbeddedBroker(topics=[f"t-{number}"], memory=True) as broker:
            return _topics(broker.port)

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(live, range(18))) == [{f"t-{number}"} for number in range(18)]
    assert not [thread for thread in threading.enumerate() if thread.name == "odradek-embedded" and thread.name not in before]


# -- in coroutines -----------------------------------------------------------------------------------------------------------------------


def test_clients_on_the_loop_of_the_test_go_on_while_it_waits_for_the_broker() -> None:
    async def story() -> None:
        async with AsyncEmbeddedBroker(topics=["t"], memory=True) as broker:
            producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, client_id="here")
            await producer.start()
            sending = asyncio.ensure_future(producer.send_and_wait("t", b"one"))
            await broker.wait_until_seen("Produce", client_id="here", timeout_s=20)
            assert (await sending).offset == 0
            await broker.kill()
            await broker.start()
            await broker.restart()
            assert (await producer.send_and_wait("t", b"two")).offset == 1
            await producer.stop()
            await broker.create_topic("u")
            await broker.delete_topic("u")

    asyncio.run(story())


def test_a_start_that_is_cancelled_leaves_no_broker() -> None:
    async def story() -> str:
        broker = AsyncEmbeddedBroker(memory=True)
        starting = asyncio.ensure_future(broker.start())
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not broker.sync.is_up
        return broker.sync.directory

    assert not Path(asyncio.run(story())).exists()


def test_a_cluster_can_be_used_from_coroutines() -> None:
    async def story() -> None:
        async with AsyncEmbeddedCluster(2, memory=True) as cluster:
            await cluster.create_topic("t", replication_factor=2)
            await cluster.kill(2)
            await cluster.restart(2)
            await cluster.stop(2)
            await cluster.restart(2)
            await cluster.delete_topic("t")
            await cluster.advance(1)

    asyncio.run(story())
