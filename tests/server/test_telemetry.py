"""What clients push, on its way to a receiver: through a whole broker, and with a receiver that is slow, gone or unwilling."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.broker import standalone_config
from odradek.consensus.messages import LeaderAndEpoch
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY, MetadataProvenance
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from odradek.protocol.messages.metadata_records import ConfigRecord
from odradek.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from odradek.protocol.schema import Message
from odradek.records.compression import Compression, compress
from odradek.server.metering import telemetry as serving
from odradek.server.metering.telemetry import ClientTelemetry
from odradek.server.start.broker import Broker
from tests.clock import ManualClock
from tests.loops import on_loop
from tests.network.support import Peer
from tests.server.metrics_support import ask
from tests.server.support import request
from tests.waiting import until

M = TypeVar("M", bound=Message)

METRICS = b"\x0a\x04\x12\x02\x08\x01"
"""A resource with something in it."""
LISTENERS = {"listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", "odradek.metrics.listener": "0"}


@asynccontextmanager
async def receiver(status: str = "200 OK") -> AsyncIterator[tuple[str, list[bytes]]]:
    """The address of an OTLP receiver, and the bodies that it got."""
    got: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert head.startswith("post /v1/metrics http/1.1\r\n")
        assert "content-type: application/x-protobuf" in head
        got.append(await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0])))
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/metrics", got
    finally:
        server.close()


@asynccontextmanager
async def node(tmp_path: Path, endpoint: str, **settings: str) -> AsyncIterator[Broker]:
    config = {"log.dirs": str(tmp_path), **LISTENERS, "odradek.client.telemetry": endpoint, **settings}
    broker = Broker(standalone_config(config), format_if_empty=True)
    try:
        await broker.start()
        yield broker
    finally:
        await broker.stop()


async def connect(port: int) -> Peer:
    return Peer(*await asyncio.open_connection("127.0.0.1", port))


async def call(peer: Peer, message: Message, version: int, answer: type[M]) -> M:
    """One request in a flexible version, and its answer."""
    peer.send(request(message.API_KEY, version, bytes(message.encode(version))))
    frame = await peer.frame()
    return answer.decode(memoryview(frame)[4 if message.API_KEY == 18 else 5 :], version)


@on_loop
async def test_a_client_is_asked_and_what_it_pushes_arrives(tmp_path: Path) -> None:
    async with receiver() as (endpoint, got), node(tmp_path, endpoint) as broker:
        peer = await connect(broker.port())
        named = await call(peer, ApiVersionsRequest(client_software_name="lib", client_software_version="2.0"), 3, ApiVersionsResponse)
        assert {71, 72} <= {each.api_key for each in named.api_keys}
        change = IncrementalAlterConfigsRequest.AlterableConfig
        settings = {"metrics": "org.apache", "interval.ms": "240000", "match": "client_software_name=lib"}
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=16, resource_name="all", configs=[change(name=key, value=value) for key, value in settings.items()]
        )
        altered = await call(peer, IncrementalAlterConfigsRequest(resources=[resource]), 1, IncrementalAlterConfigsResponse)
        assert altered.responses[0].error_code == 0
        wanted = await call(peer, GetTelemetrySubscriptionsRequest(), 0, GetTelemetrySubscriptionsResponse)
        assert (wanted.error_code, wanted.requested_metrics, wanted.push_interval_ms) == (0, ["org.apache"], 240_000)
        assert (wanted.accepted_compression_types, wanted.telemetry_max_bytes) == ([4, 3, 1, 2], 1048576)
        assert wanted.delta_temporality
        assert wanted.client_instance_id.int
        push = PushTelemetryRequest(
            client_instance_id=wanted.client_instance_id,
            subscription_id=wanted.subscription_id,
            compression_type=1,
            metrics=gzip.compress(METRICS),
        )
        assert (await call(peer, push, 0, PushTelemetryResponse)).error_code == 0
        await until(lambda: bool(got))
        assert b"\x12\x02\x08\x01" in got[0]
        assert b"client_software_name" in got[0]
        assert (await call(peer, push, 0, PushTelemetryResponse)).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert broker.node.meters is not None
        text = (await ask(broker.node.meters.exporter.port, "/metrics"))[2]
        assert "kafka_server_client_metrics_plugin_export_count 1\n" in text
        assert "kafka_server_client_metrics_throttle_count 1\n" in text
        assert "kafka_server_client_metrics_instance_count 1\n" in text
        await peer.close()
        telemetry = broker.services.telemetry
        assert telemetry is not None
        await until(lambda: len(telemetry.telemetry) == 0)


@on_loop
async def test_where_nobody_takes_metrics_clients_are_not_asked(tmp_path: Path) -> None:
    async with node(tmp_path, "") as broker:
        peer = await connect(broker.port())
        named = await call(peer, ApiVersionsRequest(client_software_name="lib", client_software_version="2.0"), 3, ApiVersionsResponse)
        assert not {71, 72} & {each.api_key for each in named.api_keys}
        wanted = await call(peer, GetTelemetrySubscriptionsRequest(), 0, GetTelemetrySubscriptionsResponse)
        assert wanted.error_code == ErrorCode.UNSUPPORTED_VERSION
        push = PushTelemetryRequest(client_instance_id=UUID(int=77), metrics=METRICS)
        assert (await call(peer, push, 0, PushTelemetryResponse)).error_code == ErrorCode.UNSUPPORTED_VERSION
        await peer.close()


class Inline:
    """Jobs that run at once, or when the test lets them."""

    def __init__(self) -> None:
        self.held: list[Callable[[], None]] | None = None

    def apart(self, job: Callable[[], Any]) -> Deferred[Any]:
        return self.run(job)

    def run(self, job: Callable[[], Any]) -> Deferred[Any]:
        done: Deferred[Any] = Deferred()

        def work() -> None:
            try:
                done.complete(job())
            except Exception as error:
                done.fail(error)

        if self.held is None:
            work()
        else:
            self.held.append(work)
        return done


def made(endpoint: str = "counted", max_bytes: int = 1 << 20) -> tuple[ClientTelemetry, Inline]:
    jobs = Inline()
    return ClientTelemetry(endpoint, max_bytes, 1, ManualClock(), jobs), jobs  # type: ignore[arg-type]


def outcome(telemetry: ClientTelemetry, data: bytes, compression: int) -> ErrorCode:
    client = serving.Client(UUID(int=77), "id", "lib", "1", "127.0.0.1", "5")
    done = telemetry.take(client, data, compression)
    assert done.done
    return done.error.code if isinstance(done.error, KafkaError) else ErrorCode.NONE


@pytest.mark.parametrize("compression", list(Compression))
def test_every_compression_is_read(compression: Compression) -> None:
    telemetry, _ = made()
    assert outcome(telemetry, compress(METRICS, compression), compression) is ErrorCode.NONE
    assert telemetry.telemetry.counts.exported == 1


@pytest.mark.parametrize("compression", [each for each in Compression if each])
def test_a_bomb_is_too_large_and_is_not_unpacked(compression: Compression) -> None:
    telemetry, _ = made(max_bytes=1 << 20)
    assert outcome(telemetry, compress(b"\x0a\xfc\xff\x3f" + bytes((1 << 20) - 4), compression), compression) is ErrorCode.NONE
    assert (
        outcome(telemetry, compress(b"\x0a\xfd\xff\x3f" + bytes((1 << 20) - 3), compression), compression) is ErrorCode.TELEMETRY_TOO_LARGE
    )
    bomb = compress(bytes(64 << 20), compression)
    assert outcome(telemetry, bomb, compression) is ErrorCode.TELEMETRY_TOO_LARGE
    assert telemetry.telemetry.counts.errors == 2


@pytest.mark.parametrize("compression", list(Compression))
def test_what_cannot_be_read_is_an_invalid_record(compression: Compression) -> None:
    telemetry, _ = made()
    assert outcome(telemetry, b"\xff\xfe junk", compression) is ErrorCode.INVALID_RECORD
    assert outcome(telemetry, compress(b"junk", compression), compression) is ErrorCode.INVALID_RECORD
    assert telemetry.telemetry.counts.errors == 2


def test_a_receiver_that_is_too_slow_costs_telemetry_and_no_memory(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[bytes] = []
    monkeypatch.setattr(serving, "post", lambda endpoint, payload: sent.append(payload))
    telemetry, jobs = made("http://127.0.0.1:1/v1/metrics")
    taken: list[Deferred[None]] = []
    client = serving.Client(UUID(int=77), "id", "lib", "1", "127.0.0.1", "5")
    jobs.held = []
    for _ in range(serving.MOST_WAITING + 5):
        taken.append(telemetry.take(client, METRICS, 0))
    opening, jobs.held = jobs.held, []
    for work in opening:
        work()
    refused = [each for each in taken if each.error is not None]
    assert len(refused) == 4, "one is under way, the others wait"
    assert "does not keep up" in caplog.text
    while jobs.held:
        jobs.held.pop(0)()
    assert len(sent) == serving.MOST_WAITING + 1


def test_a_receiver_that_is_slow_and_refuses_for_a_while_may_be_so_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue is filled, by bytes and by number, and emptied by a receiver that refuses each other time."""
    sent: list[bytes] = []

    def post(endpoint: str, payload: bytes) -> None:
        sent.append(payload)
        if len(sent) % 2:
            raise OSError("it responds with 503 no")

    monkeypatch.setattr(serving, "post", post)
    monkeypatch.setattr(serving, "WAITING_BYTES", 10 * (len(METRICS) + 200))
    telemetry, jobs = made("http://127.0.0.1:1/v1/metrics")
    client = serving.Client(UUID(int=77), "id", "lib", "1", "127.0.0.1", "5")
    counts: list[int] = []
    for _ in range(3):
        taken = list[Deferred[None]]()
        jobs.held = []
        for _ in range(serving.MOST_WAITING):
            taken.append(telemetry.take(client, METRICS, 0))
        opening, jobs.held = jobs.held, []
        for work in opening:
            work()
        counts.append(sum(each.error is None for each in taken))
        while jobs.held:
            jobs.held.pop(0)()
        jobs.held = None
    assert 0 < counts[0] < serving.MOST_WAITING
    assert counts == [counts[0]] * 3
    assert len(sent) == sum(counts)


def test_a_subscription_that_cannot_be_leaves_the_others_and_each_image_has_all(caplog: pytest.LogCaptureFixture) -> None:
    telemetry, _ = made()
    who = serving.Client(UUID(int=77), "app", "lib", "1", "10.0.0.7", "5000")
    now_ms = 0.0
    image = EMPTY
    for changes, metrics in (
        ((("b-bad", "interval.ms", "1"), ("a", "metrics", "one"), ("c", "metrics", "two")), ("one", "two")),
        ((("a", "metrics", None),), ("two",)),
        ((("a", "metrics", "three"),), ("three", "two")),
        ((("a", "metrics", None), ("c", "metrics", None)), ()),
    ):
        delta = MetadataDelta(image)
        for name, key, value in changes:
            delta.replay(ConfigRecord(resource_type=16, resource_name=name, name=key, value=value))
        image = delta.apply(MetadataProvenance(image.offset + 1, 1, 0))
        telemetry.publish(delta, image, LeaderAndEpoch(1, 1))
        now_ms += 1e9
        assert telemetry.telemetry.ask(who, "c", now_ms).metrics == metrics
    assert "the client-metrics subscription b-bad is ignored" in caplog.text


def test_what_a_connection_has_said_of_itself_goes_with_it() -> None:
    telemetry, _ = made()
    context: Any = SimpleNamespace(connection_id="10.0.0.1:9092-10.0.0.7:5000-3", client_id="app", peer_host="10.0.0.7")
    for name in ("one", "two"):
        assert telemetry.client(context, UUID(int=77)).software_name == "unknown"
        telemetry.introduced(context.connection_id, name, "1")
        assert telemetry.client(context, UUID(int=77)) == serving.Client(UUID(int=77), "app", name, "1", "10.0.0.7", "5000")
        telemetry.disconnected(context.connection_id)


def test_a_receiver_that_refuses_is_counted(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fails(endpoint: str, payload: bytes) -> None:
        raise OSError("it responds with 503 no")

    monkeypatch.setattr(serving, "post", fails)
    telemetry, _ = made("http://127.0.0.1:1/v1/metrics")
    assert outcome(telemetry, METRICS, 0) is ErrorCode.NONE, "the client has done its part"
    assert telemetry.telemetry.counts.errors == 1
    assert "did not accept clients' metrics: it responds with 503 no" in caplog.text
    telemetry.close()
    assert outcome(telemetry, METRICS, 0) is ErrorCode.INVALID_RECORD


@on_loop
async def test_what_a_receiver_answers_is_an_error_unless_it_takes_the_metrics() -> None:
    async with receiver("503 Busy") as (endpoint, got):
        with pytest.raises(OSError, match="it responds with 503 Busy"):
            await asyncio.to_thread(serving.post, endpoint, METRICS)
        assert got == [METRICS]
    async with receiver("302 Found") as (endpoint, _):
        with pytest.raises(OSError, match="302"):
            await asyncio.to_thread(serving.post, endpoint, METRICS)
    with pytest.raises(OSError, match=r"[Rr]efused"):
        await asyncio.to_thread(serving.post, "http://127.0.0.1:1/v1/metrics", METRICS)
