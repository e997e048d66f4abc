"""Producer ids: nobody has one twice and nobody waits for good, whatever the controller answers, and however often the blocks run out."""

from __future__ import annotations

from typing import cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from odradek.server.cluster.channel import InterBrokerChannel
from odradek.server.cluster.producer_ids import ProducerIdManager
from tests.server.registration_support import FakeChannel


class Ids(RuleBasedStateMachine):
    """Producers ask, and a controller gives blocks, refuses, or is not reached."""

    def __init__(self) -> None:
        super().__init__()
        self.channel = FakeChannel()
        self.manager = ProducerIdManager(cast(InterBrokerChannel, self.channel), 1, lambda: 5)
        self.asked: list[Deferred[int]] = []
        self.blocks: list[int] = []
        """All ids that the controller has given, in order."""
        self.given = 0

    @rule(count=st.integers(1, 12))
    def producers_ask(self, count: int) -> None:
        self.asked += [self.manager.next_id() for _ in range(count)]

    @precondition(lambda self: self.channel.sent)
    @rule(length=st.integers(1, 10))
    def a_block_is_given(self, length: int) -> None:
        start = (len(self.blocks) + 1) * 1000
        self.blocks += range(start, start + length)
        self.channel.answer(AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=length))

    @precondition(lambda self: self.channel.sent)
    @rule(code=st.sampled_from((ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NOT_CONTROLLER, None)))
    def no_block_is_given(self, code: ErrorCode | None) -> None:
        waiting = [each for each in self.asked if not each.done]
        if code is None:
            self.channel.fail()
        else:
            self.channel.answer(AllocateProducerIdsResponse(error_code=code))
        for each in waiting:
            assert isinstance(each.error, KafkaError)
            assert each.error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the client asks again"

    @invariant()
    def holds(self) -> None:
        assert len(self.channel.sent) <= 1, "one question at a time"
        got = [each.result() for each in self.asked if each.done and each.error is None]
        assert got == self.blocks[: len(got)], "each once, to those who asked first"
        waiting = [each for each in self.asked if not each.done]
        if waiting:
            assert self.channel.sent
            assert len(got) == len(self.blocks), "nobody waits while there are ids"


TestIds = Ids.TestCase
TestIds.settings = settings(max_examples=80, stateful_step_count=20)


def test_the_queue_may_be_full_again_after_it_was_emptied() -> None:
    channel = FakeChannel()
    manager = ProducerIdManager(cast(InterBrokerChannel, channel), 1, lambda: 5)
    for _ in range(3):
        waiting = [manager.next_id() for _ in range(10_000)]
        assert not any(each.done for each in waiting)
        assert isinstance(manager.next_id().error, KafkaError), "one too many"
        channel.fail()
        assert all(each.done for each in waiting)
