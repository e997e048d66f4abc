"""Numbers of Kafka's keys have Kafka's bounds."""

from __future__ import annotations

import pytest

from odradek.base.errors import ConfigError
from odradek.config.broker import BROKER_CONFIG
from odradek.config.definition import ConfigDef
from odradek.config.group import GROUP_CONFIG
from odradek.config.topic import TOPIC_CONFIG
from tests.config.kafka_ranges import BROKER, GROUP, TOPIC, ranges


@pytest.mark.parametrize(("ours", "table"), [(BROKER_CONFIG, BROKER), (TOPIC_CONFIG, TOPIC), (GROUP_CONFIG, GROUP)])
def test_the_bounds_of_numbers_are_kafkas(ours: ConfigDef, table: str) -> None:
    for name, (least, largest) in ranges(table).items():
        for bound, beyond in ((least, -1), (largest, 1)):
            if not bound:
                continue
            ours[name].parse(bound)
            with pytest.raises(ConfigError, match=name):
                ours[name].parse(str(int(float(bound)) + beyond))
