"""Life of a dialled connection, by a model: requests end once and in order, none is sent too soon, and failures back off."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odradek.base.timing import Backoff
from odradek.network.dialled import TRANSITIONS, Attempts, Dialled, DialState, Verdict, renewal_in_s

BACKOFF_S, BACKOFF_MAX_S = 0.05, 0.5
SETUP_S, SETUP_MAX_S = 10.0, 30.0
IDLE_S = 4.0
MOST_WAITING = 3


def attempts() -> Attempts:
    return Attempts(Backoff(BACKOFF_S * 1000, BACKOFF_MAX_S * 1000), Backoff(SETUP_S * 1000, SETUP_MAX_S * 1000))


def doubled(base: float, most: float, times: int) -> float:
    return min(base * 2**times, most)


class LifeModel(RuleBasedStateMachine):
    """One connection between requests, a server that may fail, and time. `wire` has the requests that are in flight."""

    @initialize(patient=st.booleans())
    def begin(self, patient: bool) -> None:
        self.patient = patient
        self.life: Dialled[int] = Dialled(attempts(), patient=patient, idle_s=IDLE_S, most_waiting=MOST_WAITING)
        self.now_s = 100.0
        self.expected = self.seen = DialState.IDLE
        self.failures = self.setup_failures = 0
        self.retry_s = 0.0
        self.requests = 0
        self.waiting: list[int] = []
        """Requests without an end, oldest first."""
        self.wire = 0
        self.queued = 0
        """Requests in the paused connection."""
        self.used_s = 0.0

    @property
    def opening(self) -> bool:
        return self.expected in (DialState.DIALLING, DialState.GREETING)

    @property
    def open(self) -> bool:
        return self.expected in (DialState.READY, DialState.RENEWING)

    def released(self, requests: list[int]) -> None:
        """Each request that waited comes back once, in order."""
        assert requests == self.waiting
        self.waiting = []

    @rule(seconds=st.sampled_from([0.04, 0.05, 0.5, IDLE_S]))
    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds

    @rule()
    def ask(self) -> None:
        self.requests += 1
        verdict = self.life.ask(self.requests, self.now_s)
        if self.open:
            assert verdict is Verdict.SEND
            self.used_s = self.now_s
            if self.expected is DialState.READY:
                self.wire += 1
            else:
                self.queued += 1
        elif self.opening and len(self.waiting) < MOST_WAITING:
            assert verdict is Verdict.WAIT
            self.waiting.append(self.requests)
        elif self.opening or self.expected is DialState.CLOSED or (not self.patient and self.now_s < self.retry_s):
            assert verdict is Verdict.REFUSE
        else:
            assert verdict is Verdict.DIAL
            assert self.life.attempts.pause_s(self.now_s) == pytest.approx(max(self.retry_s - self.now_s, 0.0))
            assert self.life.attempts.timeout_s() == doubled(SETUP_S, SETUP_MAX_S, self.setup_failures)
            self.waiting.append(self.requests)
            self.expected = DialState.DIALLING

    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        """A request is late; when it was the last, the shell ends the attempt."""
        if not self.waiting:
            assert not self.life.give_up(0)
            return
        request = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(request)
        useless = self.life.give_up(request)
        assert useless == (not self.waiting)
        if useless:
            self.end(harm=True)

    @rule()
    def connect(self) -> None:
        assert self.life.enter(DialState.GREETING) == (self.expected is DialState.DIALLING)
        if self.expected is DialState.DIALLING:
            self.expected = DialState.GREETING

    @rule()
    def authenticate(self) -> None:
        """The exchange is over, or a late event of a connection that is gone comes."""
        if self.opening and self.expected is not DialState.GREETING:
            return  # no shell is ready without a connection
        requests = self.life.ready()
        if self.expected is DialState.GREETING:
            self.wire = len(self.waiting)
            self.used_s = self.now_s
        self.released(requests)
        if self.expected in (DialState.GREETING, DialState.RENEWING):
            self.expected = DialState.READY
            self.failures = self.setup_failures = 0
            self.retry_s = 0.0
            self.wire += self.queued
            self.queued = 0

    @precondition(lambda self: not self.open and self.expected is not DialState.CLOSED)
    @rule()
    def open_up(self) -> None:
        """All steps to READY at once, which chance seldom takes."""
        if not self.opening:
            self.now_s = max(self.now_s, self.retry_s)
            self.ask()
        for step in (self.connect, self.authenticate):
            self.the_state_is_that_of_the_model_and_came_by_the_table()
            step()

    @rule()
    def renew(self) -> None:
        """No request may be sent from now on: nothing that waited is told to go, and `ask` queues."""
        assert self.life.enter(DialState.RENEWING) == (self.expected is DialState.READY)
        if self.expected is DialState.READY:
            self.expected = DialState.RENEWING

    @precondition(lambda self: self.wire)
    @rule()
    def answer(self) -> None:
        self.wire -= 1
        self.used_s = self.now_s

    @rule(harm=st.booleans())
    def end(self, harm: bool) -> None:
        """The connection or the attempt fails, or a late event of one that is gone comes."""
        before = self.expected
        requests = self.life.ended(self.now_s, harm=harm)
        if self.opening or (self.open and harm and not self.patient):
            self.expected = DialState.BACKING_OFF
            self.retry_s = self.now_s + doubled(BACKOFF_S, BACKOFF_MAX_S, self.failures)
            self.failures += 1
            self.setup_failures = 0 if self.patient and before is DialState.GREETING else self.setup_failures + 1
        elif self.open:
            self.expected = DialState.IDLE
        self.released(requests)
        self.wire = self.queued = 0

    @precondition(lambda self: self.open)
    @rule(seconds=st.sampled_from([0.0, IDLE_S]))
    def look_whether_idle(self, seconds: float) -> None:
        self.now_s += seconds
        rest_s = self.life.idle_in_s(self.now_s, self.used_s, self.wire + self.queued)
        if rest_s > 0:
            assert self.wire + self.queued or self.now_s + rest_s == pytest.approx(self.used_s + IDLE_S)
        else:
            assert self.wire + self.queued == 0, "a request in flight is dropped"
            assert self.now_s - self.used_s >= IDLE_S
            self.end(harm=False)

    @precondition(lambda self: self.requests > 10)
    @rule()
    def close(self) -> None:
        self.released(self.life.close())
        self.expected = DialState.CLOSED
        self.wire = self.queued = 0

    @invariant()
    def the_state_is_that_of_the_model_and_came_by_the_table(self) -> None:
        state = self.life.state
        assert state is self.expected
        assert state is self.seen or state in TRANSITIONS[self.seen]
        self.seen = state

    def teardown(self) -> None:
        if hasattr(self, "life"):
            self.released(self.life.close())


TestLife = LifeModel.TestCase
TestLife.settings = settings(max_examples=100, stateful_step_count=40)


def test_connections_that_share_their_attempts_back_off_together() -> None:
    shared = attempts()
    first: Dialled[int] = Dialled(shared, patient=False)
    second: Dialled[int] = Dialled(shared, patient=False)
    first.ask(1, 0.0)
    first.ended(0.0, harm=True)
    assert second.ask(2, BACKOFF_S - 0.01) is Verdict.REFUSE
    assert second.ask(2, BACKOFF_S) is Verdict.DIAL


def test_pauses_and_time_limits_are_spread_within_their_bounds() -> None:
    spread = Attempts(Backoff(100, 1000, random.Random(1)), Backoff(10_000, 30_000, random.Random(2)))
    for expected in (0.1, 0.2, 0.4, 0.8, 1.0):
        spread.failed(5.0)
        assert 0.8 * expected <= spread.pause_s(5.0) <= min(1.2 * expected, 1.0)
    assert 24 <= spread.timeout_s() <= 30


def test_a_session_is_renewed_within_its_last_part() -> None:
    assert renewal_in_s(10_000, None) == 8.5
    parts = [renewal_in_s(10_000, random.Random(seed)) for seed in range(50)]
    assert 8.5 <= min(parts) < 8.7 < 9.3 < max(parts) <= 9.5
