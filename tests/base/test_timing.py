"""Alarms, back-offs, and requests to nodes one at a time."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from math import inf
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.timing import Alarm, Backoff, PerNode
from tests.clock import ManualClock

# -- alarms -------------------------------------------------------------------------------------------------------------------------------

# Eighths of a second, so that sums of floats are exact.
DELAYS = st.integers(-8, 40).map(lambda eighths: eighths / 8)


Action = tuple[str, float]
"""What `ring` does: "set" with a delay, "cancel" or "close"."""


class AlarmModel(RuleBasedStateMachine):
    """An alarm, beside a model that only knows when the alarm has to ring."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(now_s=100.0)
        self.rung: list[float] = []
        self.planned: list[Action] = []
        self.alarm = Alarm(self.clock, self.ring)
        self.now_s, self.due_s, self.closed = 100.0, inf, False
        self.expected: list[float] = []
        self.expected_actions: list[Action] = []

    def ring(self) -> None:
        assert not self.alarm.is_set
        self.rung.append(self.clock.now_s)
        if self.planned:
            action, delay_s = self.planned.pop(0)
            if action == "set":
                self.alarm.set(delay_s)
            else:
                getattr(self.alarm, action)()

    def apply(self, action: Action) -> None:
        name, delay_s = action
        self.closed = self.closed or name == "close"
        self.due_s = self.now_s + delay_s if name == "set" and not self.closed else inf

    @rule(delay_s=DELAYS, absolute=st.booleans())
    def set(self, delay_s: float, absolute: bool) -> None:
        if absolute:
            self.alarm.set_at(self.now_s + delay_s)
        else:
            self.alarm.set(delay_s)
        self.apply(("set", delay_s))

    @rule()
    def set_to_the_same_time(self) -> None:
        self.alarm.set_at(self.alarm.due_s)

    @rule(way=st.sampled_from(["cancel", "never", "close"]))
    def end(self, way: str) -> None:
        if way == "never":
            self.alarm.set_at(inf)
        else:
            getattr(self.alarm, way)()
        self.apply((way, 0.0))

    @rule()
    def begin_anew(self) -> None:
        self.alarm.close()
        self.alarm = Alarm(self.clock, self.ring)
        self.due_s, self.closed = inf, False

    @rule(action=st.sampled_from(["set", "set", "set", "cancel", "close"]), delay_s=DELAYS)
    def plan(self, action: str, delay_s: float) -> None:
        self.planned.append((action, delay_s))
        self.expected_actions.append((action, delay_s))

    @rule(seconds=st.integers(0, 48).map(lambda eighths: eighths / 8))
    def advance(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.due_s <= end_s:
            self.now_s, self.due_s = max(self.now_s, self.due_s), inf
            self.expected.append(self.now_s)
            if self.expected_actions:
                self.apply(self.expected_actions.pop(0))
        self.now_s = end_s
        self.clock.advance_s(seconds)
        assert self.rung == self.expected

    @rule(seconds=st.integers(1, 48).map(lambda eighths: eighths / 8))
    def stall(self, seconds: float) -> None:
        """Let time pass in which the loop runs no timers."""
        self.clock.stall_s(seconds)
        self.now_s += seconds

    @invariant()
    def tells_when_it_rings(self) -> None:
        assert self.alarm.due_s == self.due_s
        assert self.alarm.is_set == (self.due_s < inf)


TestAlarmModel = AlarmModel.TestCase


class CountingClock(ManualClock):
    """Clock that counts its timers."""

    timers = 0

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Any:
        self.timers += 1
        return super().call_later(delay_s, callback, *args)


def test_moving_an_alarm_to_a_later_time_sets_no_timer_of_the_clock() -> None:
    clock = CountingClock()
    rung: list[float] = []
    alarm = Alarm(clock, lambda: rung.append(clock.now_s))
    alarm.set(10)
    for _ in range(100):
        clock.advance_s(0.0625)
        alarm.set(10)
    assert clock.timers == 1
    clock.advance_s(30)
    assert rung == [16.25]
    assert clock.timers == 2, "the timer is set once for the time that was set last"


def test_an_alarm_that_is_set_earlier_rings_earlier_and_once() -> None:
    clock = ManualClock()
    rung: list[float] = []
    alarm = Alarm(clock, lambda: rung.append(clock.now_s))
    alarm.set_at(20)
    alarm.set_at(5)
    clock.advance_s(30)
    assert rung == [5]
    assert clock.pending == []


def test_a_timer_that_fires_early_rings() -> None:
    """Loops count in milliseconds, so the clock may show a time just before the one that was set."""

    class Early(ManualClock):
        def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Any:
            return super().call_later(delay_s - 0.001, callback, *args)

    clock = Early()
    rung: list[float] = []
    Alarm(clock, lambda: rung.append(clock.now_s)).set(1)
    clock.advance_s(0.999)
    assert rung == [0.999]


def test_an_error_of_ring_leaves_an_alarm_that_can_be_set() -> None:
    clock = ManualClock()

    def ring() -> None:
        raise ValueError("a bug")

    alarm = Alarm(clock, ring)
    for _ in range(2):
        alarm.set(1)
        with pytest.raises(ValueError, match="a bug"):
            clock.advance_s(1)
        assert not alarm.is_set


def test_a_closed_alarm_does_not_hold_its_owner() -> None:
    class Owner:
        def __init__(self) -> None:
            self.alarm = Alarm(ManualClock(), self.ring)

        def ring(self) -> None:
            pass

    gc.disable()
    try:
        owner = Owner()
        held = weakref.ref(owner)
        owner.alarm.set(1)
        owner.alarm.close()
        del owner
        assert held() is None
    finally:
        gc.enable()


# -- back-offs ----------------------------------------------------------------------------------------------------------------------------


def test_pauses_double_up_to_the_longest_and_begin_again_after_a_success() -> None:
    backoff = Backoff(50, 400)
    for _ in range(2):
        assert [backoff.next_s() for _ in range(6)] == [0.05, 0.1, 0.2, 0.4, 0.4, 0.4]
        assert backoff.failures == 6
        backoff.reset()


def test_a_pause_follows_from_the_failures_alone() -> None:
    backoff = Backoff(100, 10_000)
    assert [backoff.delay_ms(failures) for failures in (-1, 0, 1, 2, 7, 8, 9, 1_000_000)] == [0, 0, 100, 200, 6400, 10_000, 10_000, 10_000]
    assert [backoff.delay_s(failures) for failures in (0, 1, 2, 8)] == [0, 0.1, 0.2, 10]
    assert backoff.failures == 0
    assert Backoff(1000, inf).delay_s(1_000_000) == 2**30


@pytest.mark.parametrize(("spread", "least", "most"), [((0.8, 1.2), 0.8, 1.2), ((0.98, 1.02), 0.98, 1.02), ((0.0, 1.0), 0.0, 1.0)])
def test_a_spread_keeps_peers_apart_and_under_the_longest_pause(spread: tuple[float, float], least: float, most: float) -> None:
    backoff = Backoff(100, 1000, random.Random(1), spread=spread)
    for failures, pause_s in ((1, 0.1), (2, 0.2), (4, 0.8), (5, 1.0), (60, 1.0)):
        pauses = [backoff.delay_s(failures) for _ in range(200)]
        assert all(pause_s * least <= each <= min(pause_s * most, 1.0) for each in pauses)
        assert len(set(pauses)) > 10
        assert max(pauses) - min(pauses) > (min(most * pause_s, 1.0) - least * pause_s) / 2
    assert backoff.delay_s(0) == 0


def test_clients_have_the_spread_of_kip_580_in_whole_milliseconds() -> None:
    backoff = Backoff(100, 1000, random.Random(1))
    for failures, pause_ms in ((1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (60, 1000)):
        delays = [backoff.delay_ms(failures) for _ in range(200)]
        assert all(type(delay) is int and pause_ms * 0.8 - 1 <= delay <= min(pause_ms * 1.2, 1000) for delay in delays)
        assert len(set(delays)) > 10, "clients that failed together come back apart"


def test_the_longest_pause_bounds_the_first() -> None:
    assert Backoff(100, 10).delay_ms(1) == 10
    assert Backoff(100, 10, random.Random(1)).delay_ms(1) <= 10


# -- one request to a node at a time ------------------------------------------------------------------------------------------------------


class Requests:
    """Nodes that answer when the test says so."""

    def __init__(self, most: int = 3) -> None:
        self.clock = ManualClock()
        self.under_way: dict[int, tuple[dict[str, int], Deferred[str]]] = {}
        self.sent: list[tuple[int, dict[str, int]]] = []
        self.answers: list[tuple[int, dict[str, int], str | BaseException]] = []
        self.on_answer: Callable[[int], object] = lambda node: None
        self.refused: BaseException | None = None
        self.queues: PerNode[str, int, str] = PerNode(self.clock, self.send, self.answered, most=most)

    def send(self, node: int, entries: dict[str, int]) -> Deferred[str]:
        assert node not in self.under_way
        assert entries
        self.sent.append((node, dict(entries)))
        if self.refused is not None:
            raise self.refused
        answer: Deferred[str] = Deferred()
        self.under_way[node] = entries, answer
        return answer

    def answered(self, node: int, entries: dict[str, int], done: Deferred[str]) -> None:
        self.answers.append((node, entries, done.result() if done.error is None else done.error))
        self.on_answer(node)

    def answer(self, node: int, text: str = "done") -> None:
        self.under_way.pop(node)[1].complete(text)

    def fail(self, node: int, error: BaseException) -> None:
        self.under_way.pop(node)[1].fail(error)


def test_entries_of_an_iteration_share_a_request_and_later_ones_wait_for_its_answer() -> None:
    nodes = Requests()
    nodes.queues.put(1, "a", 1)
    nodes.queues.put(1, "b", 2)
    nodes.queues.put(2, "c", 3)
    assert nodes.sent == []
    nodes.clock.run_due()
    assert nodes.sent == [(1, {"a": 1, "b": 2}), (2, {"c": 3})]
    nodes.queues.put(1, "a", 4)
    nodes.queues.put(1, "d", 5)
    nodes.queues.put(1, "a", 6)
    nodes.clock.advance_s(100)
    assert len(nodes.sent) == 2
    assert nodes.queues.waiting(1) == {"a": 6, "d": 5}
    nodes.answer(2)
    nodes.clock.run_due()
    assert nodes.queues.under_way == 1
    nodes.answer(1)
    assert len(nodes.sent) == 2, "the next request is sent in an iteration of its own"
    nodes.clock.run_due()
    assert nodes.sent[2:] == [(1, {"a": 6, "d": 5})]
    nodes.answer(1)
    assert nodes.queues.under_way == 0
    assert nodes.answers == [(2, {"c": 3}, "done"), (1, {"a": 1, "b": 2}, "done"), (1, {"a": 6, "d": 5}, "done")]


def test_a_request_takes_the_oldest_entries_up_to_its_limit() -> None:
    nodes = Requests(most=2)
    for number, key in enumerate("abcde"):
        nodes.queues.put(1, key, number)
    for expected in ({"a": 0, "b": 1}, {"c": 2, "d": 3}, {"e": 4}):
        nodes.clock.run_due()
        assert nodes.sent[-1] == (1, expected)
        nodes.answer(1)
    assert len(nodes.sent) == 3
    assert nodes.queues.under_way == 0


def test_a_node_that_goes_away_fails_its_entries_and_gets_the_next_request() -> None:
    nodes = Requests()
    gone = KafkaError(ErrorCode.NETWORK_EXCEPTION, "it is gone")
    nodes.on_answer = lambda node: len(nodes.answers) > 2 or nodes.queues.put(node, "a", 7)
    nodes.queues.put(1, "a", 1)
    for _ in range(2):
        nodes.clock.run_due()
        nodes.fail(1, gone)
    nodes.clock.run_due()
    nodes.answer(1)
    assert nodes.answers == [(1, {"a": 1}, gone), (1, {"a": 7}, gone), (1, {"a": 7}, "done")]
    assert nodes.queues.under_way == 0


def test_a_request_that_cannot_be_sent_fails_its_entries_only() -> None:
    nodes = Requests()
    nodes.refused = ValueError("it cannot be encoded")
    nodes.queues.put(1, "a", 1)
    nodes.clock.run_due()
    assert nodes.answers == [(1, {"a": 1}, nodes.refused)]
    assert nodes.queues.under_way == 0
    nodes.refused = None
    nodes.queues.put(1, "b", 2)
    nodes.clock.run_due()
    nodes.answer(1)
    assert nodes.answers[1:] == [(1, {"b": 2}, "done")]


def test_an_error_in_the_completion_keeps_no_later_entry_waiting() -> None:
    nodes = Requests()

    def raise_once(node: int) -> None:
        nodes.on_answer = lambda node: None
        raise RuntimeError("a bug")

    nodes.on_answer = raise_once
    nodes.queues.put(1, "a", 1)
    nodes.clock.run_due()
    nodes.queues.put(1, "b", 2)
    with pytest.raises(RuntimeError, match="a bug"):
        nodes.answer(1)
    nodes.clock.run_due()
    nodes.answer(1)
    assert nodes.sent == [(1, {"a": 1}), (1, {"b": 2})]
    assert nodes.queues.under_way == 0


def test_answers_at_once_do_not_recurse() -> None:
    """Many requests to the node itself, each of which is answered before `send` returns and puts the next entry."""
    clock = ManualClock()
    served: list[int] = []

    def serve(node: int, entries: dict[int, None]) -> Deferred[None] | None:
        served.extend(entries)
        if len(served) < 5000:
            queues.put(node, len(served), None)
        return None if len(served) % 2 else Deferred.of(None)

    answered: list[int] = []
    queues: PerNode[int, None, None] = PerNode(clock, serve, lambda node, entries, done: answered.extend(entries), most=1)
    queues.put(0, 0, None)
    clock.run_due()
    assert served == list(range(5000))
    assert answered == list(range(1, 5000, 2)), "what was served without a request has no answer"
    assert queues.under_way == 0


class PerNodeModel(RuleBasedStateMachine):
    """Queues of three nodes, beside a list of the entries that wait for each."""

    MOST = 2

    def __init__(self) -> None:
        super().__init__()
        self.nodes = Requests(most=self.MOST)
        self.waiting: dict[int, dict[str, int]] = {node: {} for node in range(3)}
        self.under_way: dict[int, dict[str, int]] = {}
        self.due: set[int] = set()
        self.value = 0

    @rule(node=st.integers(0, 2), key=st.sampled_from("abcd"))
    def put(self, node: int, key: str) -> None:
        self.value += 1
        self.nodes.queues.put(node, key, self.value)
        self.waiting[node][key] = self.value
        if node not in self.under_way:
            self.due.add(node)

    @rule(node=st.integers(0, 2), key=st.sampled_from("abcd"))
    def withdraw(self, node: int, key: str) -> None:
        assert self.nodes.queues.waiting(node).pop(key, None) == self.waiting[node].pop(key, None)

    @rule()
    def run_an_iteration(self) -> None:
        self.nodes.clock.turn()
        for node in self.due:
            taken = list(self.waiting[node])[: self.MOST]
            if taken:
                self.under_way[node] = {key: self.waiting[node].pop(key) for key in taken}
        self.due.clear()

    @rule(node=st.integers(0, 2), way=st.sampled_from(["answer", "fail", "raise"]))
    def end(self, node: int, way: str) -> None:
        if node not in self.under_way:
            return
        entries = self.under_way.pop(node)
        error = KafkaError(ErrorCode.NETWORK_EXCEPTION, "lost")
        if way == "raise":

            def raise_once(_: int) -> None:
                self.nodes.on_answer = lambda node: None
                raise RuntimeError("a bug")

            self.nodes.on_answer = raise_once
            with pytest.raises(RuntimeError, match="a bug"):
                self.nodes.answer(node)
        elif way == "fail":
            self.nodes.fail(node, error)
        else:
            self.nodes.answer(node)
        assert self.nodes.answers[-1] == (node, entries, error if way == "fail" else "done")
        if self.waiting[node]:
            self.due.add(node)

    @invariant()
    def agrees(self) -> None:
        assert {node: entries for node, (entries, _) in self.nodes.under_way.items()} == self.under_way
        assert [list(self.nodes.queues.waiting(node).items()) for node in range(3)] == [
            list(self.waiting[node].items()) for node in range(3)
        ]
        assert self.nodes.queues.under_way == len(self.under_way.keys() | self.due)


TestPerNodeModel = PerNodeModel.TestCase
