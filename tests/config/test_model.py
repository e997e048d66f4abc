"""A broker's configuration is what its layers say now, whatever was set, changed, refused and taken back before."""

from __future__ import annotations

from typing import cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from odradek.config.broker import BROKER_CONFIG, standalone_config
from odradek.config.dynamic import NEVER_IN_A_FILE
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.config.keys.topics import RETENTION_MS
from odradek.config.topic import (
    SOURCE_DEFAULT,
    SOURCE_DYNAMIC_BROKER,
    SOURCE_DYNAMIC_DEFAULT_BROKER,
    SOURCE_STATIC_BROKER,
    SOURCE_TOPIC,
    TOPIC_CONFIG,
    effective_topic_value,
)

FILE = {"message.max.bytes": "1000", "log.retention.minutes": "3"}
"""Two keys of the file, one of which is in a coarser unit than the key that is set at run time."""
STARTS = {"message.max.bytes": 1000, "log.retention.ms": 180_000, "min.insync.replicas": 1, "max.connections": 10_000}
"""Key -> its value while nothing is set."""
TOPIC_KEYS = {"message.max.bytes": "max.message.bytes", "log.retention.ms": "retention.ms", "min.insync.replicas": "min.insync.replicas"}
VALUES = st.sampled_from(("7", "8", "9"))
KEYS = st.sampled_from(sorted(STARTS))
BAD = {"message.max.bytes": "soon", "num.partitions": "9", "min.insync.replicas": "0"}
"""Settings that are left out: no number, a key that cannot change, a number that does not fit."""

Layer = dict[str, str]


class Layers(RuleBasedStateMachine):
    """Settings of the broker and of all brokers come and go, some of them bad; `node` and `cluster` are the good ones."""

    def __init__(self) -> None:
        super().__init__()
        self.config = DynamicBrokerConfig(standalone_config({"node.id": "1", "log.dirs": "/data", **FILE}))
        self.node: Layer = {}
        self.cluster: Layer = {}
        self.bad: Layer = {}
        self.heard = dict.fromkeys(STARTS, 0)
        self.expected = dict.fromkeys(STARTS, 0)
        self.sets = self.expected_sets = 0
        for key in STARTS:
            self.config.subscribe((BROKER_CONFIG[key],), lambda key=key: self.hears(key))  # type: ignore[misc]
        self.config.on_set.append(self.is_set)

    def hears(self, key: str) -> None:
        assert self.read(key) == self.value(key), "who hears of a change finds it made"
        self.heard[key] += 1

    def read(self, key: str) -> int:
        return self.config.current.log_retention_ms if key == "log.retention.ms" else cast(int, self.config[BROKER_CONFIG[key]])

    def is_set(self) -> None:
        self.sets += 1

    def value(self, key: str) -> int:
        text = self.node.get(key, self.cluster.get(key))
        return STARTS[key] if text is None else int(text)

    def update(self, node: Layer, cluster: Layer, bad: Layer | None = None) -> None:
        """Bad settings are those of the broker."""
        bad = bad or {}
        before = {key: self.value(key) for key in STARTS}
        had = self.node | self.bad
        self.node, self.cluster, self.bad = node, cluster, bad
        for key in STARTS:
            self.expected[key] += before[key] != self.value(key)
        self.expected_sets += bool(had or node or bad)
        problems = self.config.update(node | bad, dict(cluster))
        assert len(problems) == len(bad)

    @rule(key=KEYS, value=VALUES, for_node=st.booleans())
    def one_is_set(self, key: str, value: str, for_node: bool) -> None:
        node, cluster = dict(self.node), dict(self.cluster)
        (node if for_node else cluster)[key] = value
        self.update(node, cluster)

    @rule(key=KEYS, for_node=st.booleans())
    def one_is_taken_back(self, key: str, for_node: bool) -> None:
        node, cluster = dict(self.node), dict(self.cluster)
        (node if for_node else cluster).pop(key, None)
        self.update(node, cluster)

    @rule(bad=st.sampled_from(sorted(BAD)))
    def one_that_is_bad_is_set_first(self, bad: str) -> None:
        """The others hold all the same; what was good of this key is replaced."""
        node = {key: value for key, value in self.node.items() if key != bad}
        self.update(node, dict(self.cluster), {bad: BAD[bad]})

    @rule()
    def they_contradict_one_another(self) -> None:
        """No connection of any address: nothing of that is taken over, also what goes at the same time."""
        self.expected_sets += 1 + (not self.node and not self.bad)
        (line,) = self.config.update({"max.connections.per.ip": "0"}, {})
        assert "contradict" in line
        self.update(dict(self.node), dict(self.cluster), dict(self.bad))

    @rule(node=st.booleans(), cluster=st.booleans())
    def all_are_taken_back(self, node: bool, cluster: bool) -> None:
        self.update({} if node else dict(self.node), {} if cluster else dict(self.cluster))

    @invariant()
    def holds(self) -> None:
        assert (self.config.node, self.config.cluster) == (self.node, self.cluster)
        topic = self.config.topic_config({})
        own = self.config.topic_config({"retention.ms": "5"})
        for key in STARTS:
            assert self.read(key) == self.value(key)
            if (topic_key := TOPIC_KEYS.get(key)) is not None:
                assert topic[TOPIC_CONFIG[topic_key]] == self.value(key)
                assert own[TOPIC_CONFIG[topic_key]] == (5 if topic_key == "retention.ms" else self.value(key))
        assert self.heard == self.expected
        assert self.sets == self.expected_sets


TestLayers = Layers.TestCase
TestLayers.settings = settings(max_examples=80, stateful_step_count=12)


def test_a_rate_that_no_file_has_is_that_of_the_broker_else_of_all() -> None:
    key = "leader.replication.throttled.rate"
    config = DynamicBrokerConfig(standalone_config({"node.id": "1", "log.dirs": "/data"}))
    unlimited = config[NEVER_IN_A_FILE[key]]
    for node, cluster, rate in (("5", "6", 5), (None, "6", 6), ("5", None, 5), (None, None, unlimited), (None, "7", 7)):
        layers = [{} if text is None else {key: text} for text in (node, cluster)]
        assert config.update(layers[0], layers[1]) == []
        assert config[NEVER_IN_A_FILE[key]] == rate


def test_more_topics_than_are_remembered_have_their_own_settings_all_the_same() -> None:
    config = DynamicBrokerConfig(standalone_config({"node.id": "1", "log.dirs": "/data"}))
    for _ in range(2):
        for number in range(1100):
            assert config.topic_config({"retention.ms": str(number)}).retention_ms == number


def test_a_topics_value_comes_from_the_strongest_layer_and_there_from_the_finest_unit() -> None:
    factors = {"log.retention.ms": 1, "log.retention.minutes": 60_000, "log.retention.hours": 3_600_000}
    sources = {"node": SOURCE_DYNAMIC_BROKER, "cluster": SOURCE_DYNAMIC_DEFAULT_BROKER, "static": SOURCE_STATIC_BROKER}
    given = [dict[str, str](), {"log.retention.hours": "7"}, {"log.retention.hours": "7", "log.retention.minutes": "8"}]
    given += [{**given[2], "log.retention.ms": "9"}]
    for static in given:
        for cluster in given:
            for node in given:
                found = effective_topic_value(RETENTION_MS, static, cluster, node, {})
                expected = (str(7 * 24 * 3_600_000), SOURCE_DEFAULT)
                for name, layer in (("static", static), ("cluster", cluster), ("node", node)):
                    finest = next((key for key in factors if key in layer), None)
                    if finest is not None:
                        expected = (str(int(layer[finest]) * factors[finest]), sources[name])
                assert found == expected
                assert effective_topic_value(RETENTION_MS, static, cluster, node, {"retention.ms": "5"}) == ("5", SOURCE_TOPIC)
