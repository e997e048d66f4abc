"""The consumer's fetch sessions (KIP-227): what is said again and what is not, errors, the end; without IO, scripted, and with a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client import TopicPartition
from odradek.client.core.fetch_session import FetchSession, SessionRequest
from odradek.client.core.fetcher import FetchTarget
from odradek.protocol.fetch_session import MAX_INT32
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.schema import Message
from odradek.testing import EmbeddedBroker, Topic
from odradek.testing.simulation.loop import SimulatedLoop
from tests.client.fetch_support import session_of_a_reader
from tests.client.fetcher_support import data
from tests.client.scripted import TOPIC, ScriptedBrokers, consumer, run

OLD_ID, NEW_ID = UUID(int=1), UUID(int=2)


def target(number: int, offset: int = 0, *, generation: int = 1, topic_id: UUID = OLD_ID) -> FetchTarget:
    return FetchTarget(TopicPartition("t", number), offset, 7, generation, 1000, topic_id)


def numbers(targets: Iterable[FetchTarget]) -> list[int]:
    return [each.topic_partition.partition for each in targets]


def ask(session: FetchSession, *targets: FetchTarget, by_id: bool = True) -> SessionRequest:
    return session.next_request(targets, by_id=by_id)


def granted(*targets: FetchTarget) -> FetchSession:
    """A session with the id 5 that has the targets."""
    session = FetchSession()
    asked = ask(session, *targets)
    assert (asked.session_id, asked.session_epoch, asked.named, asked.forgotten) == (0, 0, list(targets), [])
    assert session.answered(5, [each.topic_partition for each in targets])
    return session


class TestWhatIsSaid:
    def test_only_what_has_changed_is_named_again(self) -> None:
        session = granted(target(0), target(1), target(2))
        asked = ask(session, target(0), target(1, 9), target(2))
        assert (asked.session_id, asked.session_epoch) == (5, 1)
        assert numbers(asked.named) == [1]
        assert session.answered(5, [])
        asked = ask(session, target(0), target(1, 9), target(2))
        assert (asked.session_epoch, asked.named, asked.forgotten) == (2, [], [])

    @pytest.mark.parametrize("change", [{"leader_epoch": 8}, {"max_bytes": 2000}, {"offset": 1}])
    def test_whatever_changed(self, change: dict[str, int]) -> None:
        session = granted(target(0))
        assert numbers(ask(session, target(0)._replace(**change)).named) == [0]  # type: ignore[arg-type]

    def test_a_seek_to_the_same_offset_changes_nothing(self) -> None:
        session = granted(target(0))
        assert ask(session, target(0, generation=2)).named == []

    def test_new_partitions_are_named_and_others_forgotten(self) -> None:
        session = granted(target(0), target(1))
        asked = ask(session, target(1), target(2))
        assert numbers(asked.named) == [2]
        assert asked.forgotten == [(TopicPartition("t", 0), OLD_ID)]
        assert session.answered(5, [])
        asked = ask(session, target(0), target(1), target(2))
        assert numbers(asked.named) == [0], "what was forgotten is new again"

    def test_a_topic_that_was_made_anew_is_forgotten_and_named(self) -> None:
        session = granted(target(0), target(1))
        asked = ask(session, target(0, topic_id=NEW_ID), target(1))
        assert numbers(asked.named) == [0]
        assert asked.forgotten == [(TopicPartition("t", 0), OLD_ID)]

    def test_where_topics_have_names_it_is_only_named(self) -> None:
        session = FetchSession()
        ask(session, target(0), by_id=False)
        session.answered(5, [TopicPartition("t", 0)])
        asked = ask(session, target(0, topic_id=NEW_ID), by_id=False)
        assert (numbers(asked.named), asked.forgotten) == ([0], [])

    def test_between_names_and_ids_lies_a_new_session(self) -> None:
        session = granted(target(0))
        asked = ask(session, target(0), by_id=False)
        assert (asked.session_id, asked.session_epoch, numbers(asked.named), asked.forgotten) == (5, 0, [0], [])

    def test_epochs_begin_again_at_one(self) -> None:
        session = granted(target(0))
        session._session_epoch = MAX_INT32  # pyright: ignore[reportPrivateUsage]
        assert ask(session, target(0)).session_epoch == MAX_INT32
        assert session.answered(5, [])
        assert ask(session, target(0)).session_epoch == 1


class TestWhatIsAnswered:
    def test_without_a_session_everything_is_named_each_time(self) -> None:
        session = FetchSession()
        for _ in range(2):
            asked = ask(session, target(0), target(1))
            assert (asked.session_id, asked.session_epoch, numbers(asked.named)) == (0, 0, [0, 1])
            assert session.answered(0, [])

    def test_a_session_that_the_broker_ended_begins_anew(self) -> None:
        session = granted(target(0))
        ask(session, target(0))
        assert session.answered(0, [])
        asked = ask(session, target(0))
        assert (asked.session_id, asked.session_epoch, numbers(asked.named)) == (0, 0, [0])

    @pytest.mark.parametrize(
        ("error", "session_id"),
        [
            (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
            (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 5),
            (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 5),
            (ErrorCode.UNKNOWN_TOPIC_ID, 5),
        ],
    )
    def test_after_an_error_the_next_request_is_full(self, error: ErrorCode, session_id: int) -> None:
        session = granted(target(0), target(1))
        ask(session, target(0), target(1))
        session.refused(error)
        asked = ask(session, target(0), target(1))
        assert (asked.session_id, asked.session_epoch, numbers(asked.named), asked.forgotten) == (session_id, 0, [0, 1], [])

    def test_so_it_is_after_a_lost_one(self) -> None:
        session = granted(target(0))
        ask(session, target(0, 3))
        session.lost()
        asked = ask(session, target(0, 3))
        assert (asked.session_id, asked.session_epoch, numbers(asked.named)) == (5, 0, [0])

    def test_an_answer_about_others_is_not_believed(self) -> None:
        session = granted(target(0))
        ask(session, target(0))
        assert not session.answered(5, [TopicPartition("t", 3)])
        assert ask(session, target(0)).session_epoch == 0

    def test_nor_is_a_full_one_with_something_left_out(self) -> None:
        session = FetchSession()
        ask(session, target(0), target(1))
        assert not session.answered(5, [TopicPartition("t", 0)])
        asked = ask(session, target(0), target(1))
        assert (asked.session_id, asked.session_epoch) == (0, 0)

    def test_a_session_is_closed_once(self) -> None:
        session = granted(target(0))
        assert session.closing() == SessionRequest(5, -1, ())
        assert session.closing() is None
        assert FetchSession().closing() is None
        asked = ask(session, target(0))
        assert (asked.session_id, asked.session_epoch, numbers(asked.named)) == (0, 0, [0])


TURNS = st.lists(
    st.tuples(
        st.dictionaries(st.integers(0, 3), st.integers(0, 3), min_size=1),
        st.sampled_from(["answered", "answered", "answered", "lost", "evicted", "misunderstood"]),
    ),
    max_size=20,
)


@given(turns=TURNS)
def test_the_broker_always_knows_what_is_wanted(turns: list[tuple[dict[int, int], str]]) -> None:
    """A broker's session is what it was told: whatever happens, it reads exactly the partitions and offsets that are wanted."""
    session, known = FetchSession(), dict[TopicPartition, int]()
    session_id, epoch = 0, 0
    for wanted, happens in turns:
        asked = ask(session, *(target(number, offset) for number, offset in wanted.items()))
        if happens == "lost":
            session.lost()
            continue
        if asked.session_epoch == 0:
            session_id, epoch = session_id + 1, 0
            known.clear()
        elif happens == "evicted" or (asked.session_id, asked.session_epoch) != (session_id, epoch):
            assert happens == "evicted"
            session.refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            continue
        elif happens == "misunderstood":
            session.refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            continue
        for partition, _ in asked.forgotten:
            del known[partition]
        known.update({each.topic_partition: each.offset for each in asked.named})
        assert known == {TopicPartition("t", number): offset for number, offset in wanted.items()}
        assert session.answered(session_id, list(known) if asked.session_epoch == 0 else [])
        epoch += 1


class Sessions:
    """A broker of two partitions that grants sessions, and answers the numbered requests with an error."""

    def __init__(self, loop: SimulatedLoop, errors: dict[int, ErrorCode] | None = None) -> None:
        self.errors = errors or {}
        self.asked: list[tuple[int, int, list[int], list[int]]] = []
        """(session id, epoch, partitions named, partitions forgotten)."""
        self.times: list[float] = []
        self.loop = loop
        self.ends = {0: 1, 1: 1}
        self.offsets: dict[int, int] = {}
        self.brokers = ScriptedBrokers(loop, 1, self.answer)

    def answer(self, _: int, request: Message) -> Message | None:
        if isinstance(request, MetadataRequest):
            return self.brokers.metadata(leader=1, partitions=2)
        assert isinstance(request, FetchRequest)
        named = {each.partition: each.fetch_offset for topic in request.topics for each in topic.partitions}
        forgotten = [number for topic in request.forgotten_topics_data for number in topic.partitions]
        self.times.append(self.loop.time())
        self.asked.append((request.session_id, request.session_epoch, list(named), forgotten))
        error = self.errors.get(len(self.asked))
        if error is not None:
            return FetchResponse(error_code=error)
        if request.session_epoch == -1:
            return FetchResponse()
        if request.session_epoch == 0:
            self.offsets.clear()
        for number in forgotten:
            self.offsets.pop(number, None)
        self.offsets.update(named)
        parts = [
            FetchResponse.PartitionData(partition_index=number, high_watermark=self.ends[number], records=self.records(number, offset))
            for number, offset in self.offsets.items()
            if request.session_epoch == 0 or offset < self.ends[number]
        ]
        topics = [FetchResponse.FetchableTopicResponse(topic=TOPIC, partitions=parts)] if parts else []
        return FetchResponse(session_id=5, responses=topics)

    def records(self, number: int, offset: int) -> bytes:
        return b"".join(data(at, b"%d-%d" % (number, at)) for at in range(offset, self.ends[number]))


async def reads(loop: SimulatedLoop, errors: dict[int, ErrorCode] | None = None) -> tuple[Sessions, list[bytes]]:
    """Reads both partitions, then what comes to the second."""
    world = Sessions(loop, errors)
    values: list[bytes] = []
    async with consumer(loop) as client:
        client.assign([TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)])
        for number in (0, 1):
            client.seek(TopicPartition(TOPIC, number), 0)
        async with asyncio.timeout(20):
            while len(values) < 3:
                values += [record.value for record in await client.poll(200)]
                world.ends[1] = 2
    return world, values


def test_a_consumer_says_only_what_is_new_and_closes_its_session() -> None:
    world, values = run(reads)
    assert sorted(values) == [b"0-0", b"1-0", b"1-1"]
    first, second, *rest = world.asked
    assert first == (0, 0, [0, 1], [])
    assert second[:2] == (5, 1)
    assert sorted(second[2]) == [0, 1]
    *between, last = rest
    assert [asked[:2] for asked in between] == [(5, 2 + turn) for turn in range(len(between))]
    assert all(asked[2] in ([], [1]) for asked in between)
    assert last == (5, -1, [], [])


@pytest.mark.parametrize(
    ("error", "session_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 5),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 5),
    ],
)
def test_a_session_error_costs_one_request_and_no_time(error: ErrorCode, session_id: int) -> None:
    world, values = run(lambda loop: reads(loop, {2: error}))
    assert sorted(values) == [b"0-0", b"1-0", b"1-1"]
    assert world.asked[2][:2] == (session_id, 0)
    assert sorted(world.asked[2][2]) == [0, 1]
    assert world.times[2] - world.times[1] < 0.01, "no pause"


def test_after_an_answer_that_made_no_sense_the_next_request_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    def nonsense(*_: object) -> None:
        monkeypatch.undo()
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION)

    async def story(loop: SimulatedLoop) -> Sessions:
        world = Sessions(loop)
        async with consumer(loop) as client:
            client.assign([TopicPartition(TOPIC, 0)])
            client.seek(TopicPartition(TOPIC, 0), 0)
            while world.ends[0] < 3:
                if await client.poll(200):
                    if world.ends[0] == 1:
                        monkeypatch.setattr("odradek.client.consumer.fetching.fetched_partitions", nonsense)
                    world.ends[0] += 1
        return world

    epochs = [epoch for _, epoch, _, _ in run(story).asked]
    assert epochs[0] == 0
    assert 0 in epochs[1:]
    assert epochs[epochs.index(0, 1) - 1] > 0


def test_a_broker_that_refuses_full_requests_is_not_stormed() -> None:
    async def story(loop: SimulatedLoop) -> int:
        world = Sessions(loop, dict.fromkeys(range(1, 1000), ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        async with consumer(loop) as client:
            client.assign([TopicPartition(TOPIC, 0)])
            client.seek(TopicPartition(TOPIC, 0), 0)
            assert await client.poll(1000) == []
        return len(world.asked)

    assert run(story) < 20


def test_a_broker_has_a_session_as_long_as_the_consumer_is_open() -> None:
    with EmbeddedBroker(topics=[Topic("t", 3)], memory=True) as broker:
        session_id, before, after = asyncio.run(session_of_a_reader(broker.bootstrap_servers))
    assert session_id != 0
    assert (before, after) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
