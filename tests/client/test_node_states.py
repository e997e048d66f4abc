"""What is remembered of nodes: pauses that grow and are forgotten, time limits, throttling."""

from __future__ import annotations

import random

import pytest

from odradek.base.timing import Backoff
from odradek.client.core.node_states import THROTTLED_SINCE, NodeStates, held_back_ms
from odradek.protocol.api_keys import ApiKey


def states() -> NodeStates:
    return NodeStates(Backoff(100, 1000, random.Random(1)), Backoff(10_000, 30_000, random.Random(2)))


def pauses(nodes: NodeStates, times: int) -> list[int]:
    found = []
    for _ in range(times):
        nodes.failed(1, 5000, reached=False)
        found.append(nodes.connect_in_ms(1, 5000))
    return found


def test_pauses_double_and_begin_anew_after_a_success() -> None:
    nodes = states()
    for expected, pause in zip([100, 200, 400, 800, 1000], pauses(nodes, 5), strict=True):
        assert 0.8 * expected <= pause <= min(1.2 * expected, 1000)
    nodes.connected(1)
    assert nodes.connect_in_ms(1, 5000) == 0
    assert 80 <= pauses(nodes, 1)[0] <= 120
    assert nodes.connect_in_ms(2, 5000) == 0, "of that node alone"
    assert nodes.connect_in_ms(1, 5060) <= 60, "time passes"


def test_the_time_limit_grows_only_with_attempts_that_reached_nobody() -> None:
    nodes = states()
    assert 8000 <= nodes.setup_timeout_ms(1) <= 12_000
    nodes.failed(1, 0, reached=False)
    assert 16_000 <= nodes.setup_timeout_ms(1) <= 24_000
    nodes.failed(1, 0, reached=False)
    assert 24_000 <= nodes.setup_timeout_ms(1) <= 30_000
    nodes.failed(1, 0, reached=True)
    assert nodes.setup_timeout_ms(1) <= 12_000


def test_the_longest_pause_counts() -> None:
    nodes = states()
    nodes.throttle(1, 0, 1000)
    nodes.throttle(1, 100, 10)
    assert (nodes.throttled_for_ms(1, 100), nodes.throttled_for_ms(2, 100), nodes.throttled_for_ms(1, 1000)) == (900, 0, 0)


@pytest.mark.parametrize(("api_key", "version", "waits"), [(ApiKey.PRODUCE, 5, 0), (ApiKey.PRODUCE, 6, 7), (ApiKey.SASL_HANDSHAKE, 1, 0)])
def test_which_answers_are_waited_for(api_key: ApiKey, version: int, waits: int) -> None:
    """The table is that of JVM Kafka 4.3.1's responses (shouldClientThrottle)."""
    assert held_back_ms(api_key, version, 7) == waits
    assert ApiKey.CONSUMER_GROUP_HEARTBEAT not in THROTTLED_SINCE
