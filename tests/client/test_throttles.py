"""Which responses make the client wait."""

from __future__ import annotations

import pytest

from odradek.client.core.throttles import THROTTLED_SINCE, held_back_ms
from odradek.protocol.api_keys import ApiKey


@pytest.mark.parametrize(("api_key", "version", "waits"), [(ApiKey.PRODUCE, 5, 0), (ApiKey.PRODUCE, 6, 7), (ApiKey.SASL_HANDSHAKE, 1, 0)])
def test_which_answers_are_waited_for(api_key: ApiKey, version: int, waits: int) -> None:
    """The table is that of JVM Kafka 4.3.1's responses (shouldClientThrottle)."""
    assert held_back_ms(api_key, version, 7) == waits
    assert ApiKey.CONSUMER_GROUP_HEARTBEAT not in THROTTLED_SINCE
