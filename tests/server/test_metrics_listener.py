"""Metrics and health of a whole node over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from odradek.config.broker import standalone_config
from odradek.metrics.catalogue import CATALOGUE
from odradek.metrics.names import Kind, Metric
from odradek.metrics.prometheus import render
from odradek.metrics.registry import Registry, Series
from odradek.network.acceptor import ListenError
from odradek.server.clock import LoopClock
from odradek.server.cluster.lifecycle import BrokerState
from odradek.server.metering import exporter as exporting
from odradek.server.metering.exporter import Exporter
from odradek.server.metering.network import Idleness
from odradek.server.start.broker import Broker
from tests.clock import ManualClock
from tests.loops import on_loop
from tests.server.metrics_support import ask
from tests.waiting import until

LISTENERS = {"listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", "odradek.metrics.listener": "0"}


@asynccontextmanager
async def node(tmp_path: Path, **settings: str) -> AsyncIterator[Broker]:
    broker = Broker(standalone_config({"log.dirs": str(tmp_path), **LISTENERS, **settings}), format_if_empty=True)
    try:
        await broker.start()
        yield broker
    finally:
        await broker.stop()


def port_of(broker: Broker) -> int:
    assert broker.node.meters is not None
    return broker.node.meters.exporter.port


@on_loop
async def test_a_whole_node_tells_of_itself(tmp_path: Path) -> None:
    async with node(tmp_path) as broker:
        port = port_of(broker)
        status, headers, text = await ask(port, "/metrics")
        assert status == "HTTP/1.1 200 OK"
        assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        assert samples["kafka_server_kafkaserver_brokerstate"] == "3"
        assert samples["kafka_controller_kafkacontroller_activecontrollercount"] == "1"
        assert samples['kafka_server_raft_metrics_current_state_info{state="leader"}'] == "1"
        assert samples["kafka_server_replicamanager_partitioncount"] == "0"
        assert float(samples["odradek_process_cpuseconds"]) > 0
        for line in text.splitlines():
            assert re.fullmatch(r'#.*|[a-z_]+(\{[a-zA-Z_]+="[^"]*"(,[a-zA-Z_]+="[^"]*")*\})? [0-9.e+-]+', line), line
        beans = json.loads((await ask(port, "/mbeans"))[2])
        assert beans["kafka.server:type=KafkaServer,name=BrokerState"] == {"Value": 3}
        assert (await ask(port, "/health/live"))[::2] == ("HTTP/1.1 200 OK", "alive\n")
        assert (await ask(port, "/health/ready"))[::2] == ("HTTP/1.1 200 OK", "ready\n")
        broker.states.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        assert (await ask(port, "/health/ready"))[::2] == (
            "HTTP/1.1 503 Service Unavailable",
            "the broker is PENDING_CONTROLLED_SHUTDOWN\n",
        )
        broker.states.state = BrokerState.RUNNING


@on_loop
async def test_every_metric_of_the_catalogue_is_told_by_a_node(tmp_path: Path) -> None:
    async with node(tmp_path) as broker:
        assert broker.node.meters is not None
        told = {metric.key for metric in broker.node.meters.registry.metrics()}
        assert told == {metric.key for metric in CATALOGUE}
        for _ in broker.node.meters.registry.update(0.0):
            pass


@on_loop
async def test_a_controller_is_ready_when_it_knows_a_leader(tmp_path: Path) -> None:
    settings = {"process.roles": "controller", "listeners": "CONTROLLER://127.0.0.1:0"}
    async with node(tmp_path, **settings) as controller:
        port = port_of(controller)
        assert (await ask(port, "/health/ready"))[2] == "ready\n"
        text = (await ask(port, "/metrics"))[2]
        assert "kafka_controller_kafkacontroller_activecontrollercount 1\n" in text
        assert "kafka_server_replicamanager" not in text
        controller.node.kraft.raft.state.leader_id = -1
        assert (await ask(port, "/health/ready"))[2] == "the controller does not know a leader of the quorum\n"


@on_loop
async def test_nothing_listens_where_nobody_asks(tmp_path: Path) -> None:
    async with node(tmp_path, **{"odradek.metrics.listener": ""}) as broker:
        assert broker.node.meters is None


@on_loop
async def test_an_address_that_is_taken_ends_the_start(tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    taken = server.sockets[0].getsockname()[1]
    try:
        with pytest.raises(
            ListenError, match=f"listener odradek.metrics.listener: cannot listen on 127.0.0.1:{taken}: Address already in use"
        ):
            async with node(tmp_path, **{"odradek.metrics.listener": str(taken)}):
                pass
    finally:
        server.close()


NUMBERS = Metric("kafka.server", "Type", "Numbers", Kind.GAUGE, "x", ("number",))


@asynccontextmanager
async def exporter(series: int = 1) -> AsyncIterator[Exporter]:
    registry = Registry([NUMBERS])

    def read() -> list[Series | None]:
        return [(("number",), (f"{number:0100d}",), number) for number in range(series)]

    registry.add(NUMBERS.key, read)
    made = Exporter(registry, LoopClock(asyncio.get_running_loop()), list)
    await made.start("127.0.0.1", 0)
    try:
        yield made
    finally:
        await made.close()


@on_loop
@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"GET /nothing HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"\x16\x03\x01\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.0\r\n\r\n", b"505"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * exporting.REQUEST_BYTES + b"\r\n\r\n", b"431"),
    ],
)
async def test_other_requests_are_refused(request_: bytes, status: bytes) -> None:
    async with exporter() as made:
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        writer.write(request_)
        assert (await reader.readline()).split()[1] == status
        writer.close()
        assert made.refused == 1


@on_loop
async def test_head_has_no_body_and_a_query_is_ignored() -> None:
    async with exporter() as made:
        assert (await ask(made.port, "/metrics", method="HEAD"))[2] == ""
        assert (await ask(made.port, "/health/live", method="HEAD"))[2] == ""
        status, headers, body = await ask(made.port, "/nothing", method="HEAD")
        assert (status.split()[1], body) == ("404", "")
        assert int(headers["content-length"]) > 0, "as GET would have it"
        assert "kafka_server_type_numbers" in (await ask(made.port, "/metrics?x=1"))[2]
        assert "/health/ready" in (await ask(made.port, "/"))[2]


async def cut_off(reader: asyncio.StreamReader, pause_s: float = 0.0) -> bytes:
    """What came until the connection was ended."""
    data = b""
    try:
        while more := await reader.read(1024):
            data += more
            await asyncio.sleep(pause_s)
    except ConnectionResetError:
        pass
    return data


@on_loop
async def test_who_does_not_send_is_gone_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "REQUEST_S", 0.02)
    async with exporter() as made:
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        writer.write(b"GET /metrics HTT")
        async with asyncio.timeout(3):
            assert await cut_off(reader) == b""
        writer.close()
        assert made.refused == 1


@on_loop
async def test_who_does_not_take_is_gone_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "ANSWER_S", 0.05)
    async with exporter(200_000) as made:
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port, limit=1024)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        await until(lambda: made.refused == 1)
        assert not (await cut_off(reader)).endswith(b"0\r\n\r\n")
        writer.close()


@on_loop
async def test_connections_and_scrapes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "MOST_CONNECTIONS", 2)
    monkeypatch.setattr(exporting, "MOST_SCRAPES", 1)
    async with exporter(200_000) as made:
        first, one = await asyncio.open_connection("127.0.0.1", made.port, limit=1024)
        one.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert (await first.readline()).split()[1] == b"200"
        assert (await ask(made.port, "/metrics"))[0] == "HTTP/1.1 503 Service Unavailable"
        second, two = await asyncio.open_connection("127.0.0.1", made.port)
        third, three = await asyncio.open_connection("127.0.0.1", made.port)
        async with asyncio.timeout(3):  # less than an idle one has
            assert await cut_off(second) == b""
        three.write(b"GET /health/live HTTP/1.1\r\n\r\n")
        assert (await third.readline()).split()[1] == b"200"
        for each in (one, two, three):
            each.close()


@on_loop
async def test_who_is_being_answered_gives_way_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "MOST_CONNECTIONS", 1)
    async with exporter(200_000) as made:
        first, one = await asyncio.open_connection("127.0.0.1", made.port, limit=1024)
        one.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert (await first.readline()).split()[1] == b"200"
        second, two = await asyncio.open_connection("127.0.0.1", made.port)
        async with asyncio.timeout(3):
            assert await cut_off(second) == b""
        one.close()
        two.close()


@on_loop
async def test_health_is_told_however_many_send_nothing() -> None:
    async with exporter() as made:
        silent: list[asyncio.StreamWriter] = []
        for _ in range(3):
            silent += [(await asyncio.open_connection("127.0.0.1", made.port))[1] for _ in range(exporting.MOST_CONNECTIONS)]
            assert (await ask(made.port, "/health/live"))[0] == "HTTP/1.1 200 OK"
        for each in silent:
            each.close()


@on_loop
async def test_the_loop_goes_on_while_a_scrape_is_made() -> None:
    class Writer:
        """A socket that takes everything at once."""

        def write(self, data: bytes) -> None: ...
        async def drain(self) -> None: ...

    async with exporter(20_000) as made:
        turns = 0
        sending = asyncio.ensure_future(made._send(cast(Any, Writer()), render(made._registry)))  # pyright: ignore[reportPrivateUsage]
        while not sending.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns > 5


def test_idleness_is_what_is_left_of_the_time() -> None:
    clock = ManualClock()
    used = 0.0
    idleness = Idleness(clock, lambda: used)
    clock.advance_s(10)
    used = 4.0
    assert idleness.share() == pytest.approx(0.6)
    used = 5.0
    clock.advance_s(0.5)
    assert idleness.share() == pytest.approx(0.6), "not before a second has passed"
    clock.advance_s(1.5)
    assert idleness.share() == pytest.approx(0.5)
    used = 100.0
    clock.advance_s(2)
    assert idleness.share() == 0.0
