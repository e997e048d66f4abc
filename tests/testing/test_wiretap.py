"""What a tap on the virtual network tells of the requests that travel over it."""

from __future__ import annotations

import asyncio

import pytest

from odradek.client.types import NewTopic
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.testing.simulation.broker import SimulatedBroker
from odradek.testing.simulation.clients import SimulatedAdmin, SimulatedProducer
from odradek.testing.simulation.loop import SimulatedLoop, run
from odradek.testing.simulation.network import VirtualNetwork, on_host
from odradek.testing.simulation.wiretap import TappedRequest, WireTap

_HEADER = encode_request_header(ApiKey.API_VERSIONS, 0, 1, "client")
_API_VERSIONS = len(_HEADER).to_bytes(4, "big") + _HEADER


def test_requests_and_their_answers_are_told_of_whole_however_they_are_cut_up() -> None:
    network = VirtualNetwork(1, window=7)
    tap = WireTap(network)
    asked: list[TappedRequest] = []
    answered: list[tuple[TappedRequest, memoryview]] = []
    tap.on_request.append(asked.append)
    tap.on_response.append(lambda request, body: answered.append((request, body)))

    async def main(loop: SimulatedLoop) -> None:
        broker = SimulatedBroker(loop, seed=1)
        await broker.start()
        with on_host("admin"):
            async with SimulatedAdmin(broker.clock, loop.network.random, bootstrap_servers=broker.bootstrap_servers) as admin:
                await admin.create_topics([NewTopic("topic", 2, 1)])
        with on_host("writer"):
            settings = {"bootstrap_servers": broker.bootstrap_servers, "acks": "0", "enable_idempotence": False}
            async with SimulatedProducer(broker.clock, loop.network.random, **settings) as producer:
                for _ in range(3):
                    await (await producer.send("topic", b"value", partition=0))
                await asyncio.sleep(1)
        await broker.stop()

    run(main, network)
    (request,) = [each for each in asked if each.api_key == ApiKey.CREATE_TOPICS]
    assert (request.source, request.target, request.target_port) == ("admin", "broker", 9092)
    assert CreateTopicsRequest.decode(request.body, request.version).topics[0].num_partitions == 2
    ((_, body),) = [each for each in answered if each[0] is request]
    assert CreateTopicsResponse.decode(body, request.version).topics[0].error_code == 0
    # Requests that nobody answers do not confuse what comes after them.
    assert [each.api_key for each in asked].count(ApiKey.PRODUCE) == 3
    assert all(each.api_key != ApiKey.PRODUCE for each, _ in answered)


class _Nothing(asyncio.Protocol):
    """Listens and does not answer."""


@pytest.mark.parametrize(
    ("written", "complaints"),
    [
        (_API_VERSIONS + _API_VERSIONS, ["no", "no"]),
        (b"\0\0\0\3abc" + _API_VERSIONS, []),
    ],
)
def test_what_a_listener_complains_of_is_heard_and_bytes_that_are_not_kafkas_are_passed_over(written: bytes, complaints: list[str]) -> None:
    network = VirtualNetwork(1)

    def complain(request: TappedRequest) -> None:
        raise ValueError("no")

    WireTap(network).on_request.append(complain)
    heard: list[str] = []

    async def main(loop: SimulatedLoop) -> None:
        loop.set_exception_handler(lambda _, context: heard.append(str(context["exception"])))
        await loop.create_server(_Nothing, "server", 1)
        transport, _ = await loop.create_connection(asyncio.Protocol, "server", 1)
        for begin in range(0, len(written), len(_API_VERSIONS)):
            transport.write(written[begin : begin + len(_API_VERSIONS)])
            await asyncio.sleep(1)

    run(main, network)
    assert heard == complaints
