"""What the test kit knows of the newest release is what a JVM broker of that release announces."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.peers import JvmBroker
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.testing.kit.releases import RELEASES, release
from tests.testing.wire import Wire

pytestmark = pytest.mark.jvm


def test_the_newest_release_is_what_a_jvm_broker_announces(tmp_path: Path) -> None:
    known = release(RELEASES[-1])
    broker = JvmBroker(tmp_path)
    broker.start(180)
    try:
        with Wire(broker.port) as wire:
            answer = wire.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    finally:
        broker.stop()
    announced = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert {key: tuple(versions) for key, versions in known.apis.items() if key in announced} == announced
    # KIP-714: only where a broker is configured to take the metrics of clients.
    assert {key for key in known.apis if key not in announced} <= {71, 72}
    assert {each.name: (each.min_version, each.max_version) for each in answer.supported_features} == {
        name: tuple(levels) for name, levels in known.features.items()
    }
