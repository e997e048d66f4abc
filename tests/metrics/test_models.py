"""Counts of topics and of clients that come, go and come back, beside plain models of them."""

from __future__ import annotations

import math
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import uuid_to_string
from odradek.config.client_metrics import subscription_of
from odradek.metrics.catalogue import CATALOGUE
from odradek.metrics.histogram import WINDOW_S, Histogram
from odradek.metrics.registry import Registry
from odradek.metrics.telemetry import Client, Telemetry
from odradek.metrics.traffic import Traffic
from tests.walks import step, walk

TOPICS = ("a", "b")


class Hosting(RuleBasedStateMachine):
    """Partitions of topics come and go; what was counted for a topic goes with its last, and the sum never falls."""

    def __init__(self) -> None:
        super().__init__()
        self.traffic = Traffic()
        self.partitions = dict.fromkeys(TOPICS, 0)
        self.counted = dict.fromkeys(TOPICS, 0)
        self.sum = 0

    @rule(topic=st.sampled_from(TOPICS))
    def comes(self, topic: str) -> None:
        assert self.traffic.add_partition(topic) is self.traffic.topics[topic]
        self.partitions[topic] += 1

    @rule(topic=st.sampled_from(TOPICS))
    def goes(self, topic: str) -> None:
        self.traffic.remove_partition(topic)
        self.partitions[topic] = max(self.partitions[topic] - 1, 0)
        if not self.partitions[topic]:
            self.counted[topic] = 0

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(1, 3))
    def lives(self, topic: str, count: int) -> None:
        """A partition comes, counts and goes."""
        self.comes(topic)
        self.counts(topic, count)
        self.goes(topic)

    @rule(topic=st.sampled_from((*TOPICS, "unhosted")), count=st.integers(1, 3))
    def counts(self, topic: str, count: int) -> None:
        if topic == "unhosted":
            self.traffic.unhosted.messages_in += count
        elif self.partitions[topic]:
            self.traffic.topics[topic].messages_in += count
            self.counted[topic] += count
        else:
            return
        self.sum += count

    @invariant()
    def adds_up(self) -> None:
        hosted = {topic for topic in TOPICS if self.partitions[topic]}
        assert {topic: each.messages_in for topic, each in self.traffic.topics.items()} == {topic: self.counted[topic] for topic in hosted}
        assert self.traffic.total().messages_in == self.sum


TestHosting = Hosting.TestCase
TestHosting.settings = settings(max_examples=60, stateful_step_count=25)


INTERVAL_MS = 1000
MOST = 2


class _Model:
    """What a broker has to know of one client."""

    def __init__(self, connection: str) -> None:
        self.connection = connection
        self.asked = self.pushed = float("-inf")
        self.ended = False


class Clients(RuleBasedStateMachine):
    """Clients ask, push, end and come back over other connections, and subscriptions change."""

    def __init__(self) -> None:
        super().__init__()
        self.telemetry = Telemetry(1000, uuid_to_string, most_clients=MOST)
        self.now = 0.0
        self.known: dict[int, _Model] = {}
        """The one that was silent for longest first."""
        self.connections = 0
        self.metrics = "a"
        self.subscribe("a")
        self.throttled = self.unknown = 0

    def subscribe(self, metrics: str) -> None:
        self.metrics = metrics
        self.telemetry.subscribe([subscription_of({"metrics": metrics, "interval.ms": str(INTERVAL_MS)})])

    def find(self, number: int) -> _Model:
        known = self.known.pop(number, None)
        if known is None:
            self.connections += 1
            known = _Model(f"c{self.connections}")
        self.known[number] = known
        if len(self.known) > MOST:
            del self.known[next(iter(self.known))]
        return known

    def client(self, number: int) -> Client:
        return Client(UUID(int=number), "app", "java", "4.3", "10.0.0.1", "5000")

    @rule(number=st.sampled_from((11, 12, 13)))
    def ask(self, number: int) -> None:
        known = self.find(number)
        early = self.now - max(known.asked, known.pushed) < INTERVAL_MS
        if early:
            with pytest.raises(KafkaError, match="THROTTLING_QUOTA_EXCEEDED"):
                self.telemetry.ask(self.client(number), known.connection, self.now)
            self.throttled += 1
        else:
            assert self.telemetry.ask(self.client(number), known.connection, self.now).metrics == (self.metrics,)
            known.asked = self.now

    @rule(number=st.sampled_from((11, 12, 13)), terminating=st.booleans(), old=st.booleans())
    def push(self, number: int, terminating: bool, old: bool) -> None:
        known = self.find(number)
        early = known.asked <= known.pushed and self.now - known.pushed < INTERVAL_MS
        wanted = ErrorCode.NONE
        if known.ended:
            wanted = ErrorCode.INVALID_REQUEST
        elif early and not terminating:
            wanted = ErrorCode.THROTTLING_QUOTA_EXCEEDED
            self.throttled += 1
        elif old:
            wanted = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
            self.unknown += 1
        # The subscription's id has no other way to be learned than by asking, which counts.
        current = Telemetry(1000, uuid_to_string)
        current.subscribe([subscription_of({"metrics": self.metrics, "interval.ms": str(INTERVAL_MS)})])
        subscription_id = current.ask(self.client(number), "c", 0.0).subscription_id
        code = ErrorCode.NONE
        try:
            self.telemetry.push(
                self.client(number),
                known.connection,
                self.now,
                subscription_id=subscription_id + old,
                compression=0,
                size=10,
                terminating=terminating,
            )
        except KafkaError as error:
            code = error.code
        assert code is wanted
        if not known.ended and not early:
            known.pushed = self.now
        known.ended = terminating

    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        connection = f"c{data.draw(st.integers(0, self.connections))}"
        self.telemetry.disconnected(connection)
        self.known = {number: each for number, each in self.known.items() if each.connection != connection}

    @rule(metrics=st.sampled_from("ab"))
    def subscriptions_change(self, metrics: str) -> None:
        self.subscribe(metrics)

    @rule(ms=st.sampled_from((1, 500, 999, 1000)))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @invariant()
    def counts(self) -> None:
        assert len(self.telemetry) == len(self.known)
        assert (self.telemetry.counts.throttled, self.telemetry.counts.unknown) == (self.throttled, self.unknown)


TestClients = Clients.TestCase
TestClients.settings = settings(max_examples=80, stateful_step_count=20)


class Recent(RuleBasedStateMachine):
    """Values leave the percentiles of a histogram when they are old, those of the last five minutes never, and all stay in its count."""

    def __init__(self) -> None:
        super().__init__()
        self.histogram = Histogram()
        self.now = 0.0
        self.values: list[tuple[float, float]] = []
        """(when it was recorded, value)."""

    @rule(value=st.sampled_from((0.0, 1.0, 10.0, 1000.0)))
    def record(self, value: float) -> None:
        self.histogram.record(value, self.now)
        self.values.append((self.now, value))

    @rule(seconds=st.sampled_from((1.0, 50.0)))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(windows=st.integers(1, 7))
    def nothing_comes_for_long(self, windows: int) -> None:
        for _ in range(windows * 2):
            self.now += WINDOW_S / 2
            self.histogram.read(self.now)

    @invariant()
    def holds(self) -> None:
        found = self.histogram.read(self.now)
        assert found.count == len(self.values)
        recent = [value for at, value in self.values if self.now - at < WINDOW_S]
        possible = [value for at, value in self.values if self.now - at < 2 * WINDOW_S + 200]
        assert len(recent) <= found.recent <= len(possible)
        if recent:
            assert min(possible) <= found.smallest <= min(recent)
            assert max(recent) <= found.largest <= max(possible)
        if not possible:
            assert (found.recent, found.total, found.percentiles([0.5, 0.99])) == (0, 0.0, [0.0, 0.0])


TestRecent = Recent.TestCase
TestRecent.settings = settings(max_examples=60, stateful_step_count=30)


def test_the_end_of_a_connection_says_nothing_of_a_client_that_came_back_over_another() -> None:
    """Forgotten as there were too many, it is known again by its new connection."""
    telemetry = Telemetry(1000, uuid_to_string, most_clients=1)
    one, other = (Client(UUID(int=number), "app", "java", "4.3", "10.0.0.1", "5000") for number in (11, 12))
    for client, connection in ((one, "first"), (other, "other"), (one, "second")):
        telemetry.ask(client, connection, 0.0)
    telemetry.disconnected("first")
    assert len(telemetry) == 1
    telemetry.disconnected("second")
    assert len(telemetry) == 0


class Meters:
    """Series of a meter come, count, go and come back, and are looked at now and then."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.counts: dict[str, int] = {}
        self.averages: dict[str, tuple[float, int, tuple[float, ...] | None]] = {}
        """Series -> when it was looked at last, its count then, and its averages."""
        self.metric = next(each for each in CATALOGUE if each.name == "BytesInPerSec")
        self.registry = Registry([self.metric])
        self.registry.add(self.metric.key, lambda: [(("topic",), (name,), count) for name, count in self.counts.items()])

    @step(name="abc")
    def comes(self, name: str) -> None:
        self.counts.setdefault(name, 0)

    @step(name="abc")
    def goes(self, name: str) -> None:
        self.counts.pop(name, None)

    @step(name="abc", count=(1, 500))
    def happens(self, name: str, count: int) -> None:
        if name in self.counts:
            self.counts[name] += count

    @step(seconds=(1.0, 5.0, 7.5, 400.0))
    def look(self, seconds: float) -> None:
        self.now += seconds
        for _ in self.registry.update(self.now):
            pass
        before, self.averages = self.averages, {}
        for name, count in self.counts.items():
            if name not in before:
                self.averages[name] = (self.now, count, None)
                continue
            at, former, averages = before[name]
            passed = self.now - at
            if passed < 5:
                self.averages[name] = before[name]
                continue
            rate = (count - former) / passed
            weights = [math.e ** (-passed / (60 * minutes)) for minutes in (1, 5, 15)]
            mixed = [weight * old + (1 - weight) * rate for weight, old in zip(weights, averages or (rate,) * 3, strict=True)]
            self.averages[name] = (self.now, count, tuple(mixed))

    def holds(self) -> None:
        for name in "abc":
            rates = self.registry.rates(self.metric, ("topic",), (name,))
            if name not in self.averages:
                assert rates is None, "who is gone is forgotten at the next look"
                continue
            assert rates is not None
            assert rates.averages == pytest.approx(self.averages[name][2] or (0.0, 0.0, 0.0))


@pytest.mark.parametrize("seed", range(8))
def test_meters_in_any_order(seed: int) -> None:
    walk(Meters(), seed, 120)
