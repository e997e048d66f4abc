"""What takes time before an image is published: images stay in order, clients are answered when they are shown, brokers at once."""

from __future__ import annotations

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core.context import ControllerContext
from odradek.controller.core.result import ControllerResult
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import MetadataImage
from tests.controller.kraft_cluster import Quorum, RecordingPublisher, set_config
from tests.controller.kraft_support import SHORT_LOG, write


class Preparation:
    """Of one node: each image waits until the test says so."""

    def __init__(self, quorum: Quorum, node: int = 1) -> None:
        self.publisher = RecordingPublisher()
        self.asked: list[tuple[MetadataDelta, MetadataImage]] = []
        self.waiting: list[Deferred[None]] = []
        quorum.nodes[node].add_publisher(self.publisher)
        quorum.nodes[node].loader.before_publishing = self.prepare
        self.told = len(self.publisher.images)

    def prepare(self, delta: MetadataDelta, image: MetadataImage) -> Deferred[None] | None:
        self.asked.append((delta, image))
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def done(self) -> None:
        self.waiting.pop(0).complete(None)

    @property
    def published(self) -> list[dict[str, str]]:
        return [dict(image.configs.of(4, "")) for image in self.publisher.images[self.told :]]


def started(nodes: int = 1) -> Quorum:
    quorum = Quorum(nodes)
    quorum.start()
    quorum.wait_for_leader()
    quorum.wait_for_all()
    return quorum


def nothing(_: ControllerContext) -> ControllerResult[str]:
    return ControllerResult([], "seen")


def test_an_image_is_published_and_answered_when_it_is_prepared() -> None:
    quorum = started()
    node = quorum.nodes[1]
    preparation = Preparation(quorum)
    answer = node.submit(set_config("a", "1"))
    quorum.clock.advance_s(1)
    assert preparation.published == []
    assert not answer.done
    preparation.done()
    assert preparation.published == [{"a": "1"}]
    assert answer.done
    assert preparation.publisher.images[-1] is preparation.asked[0][1]
    assert preparation.publisher.deltas[-1] is preparation.asked[0][0]


def test_images_are_prepared_one_after_the_other_and_published_in_order() -> None:
    quorum = started()
    node = quorum.nodes[1]
    preparation = Preparation(quorum)
    answers = [node.submit(set_config(name, "1")) for name in "abc"]
    for shown in range(3):
        quorum.clock.advance_s(1)
        assert len(preparation.asked) == shown + 1
        assert [answer.done for answer in answers] == [each < shown for each in range(3)]
        preparation.done()
    assert preparation.published == [{"a": "1"}, {"a": "1", "b": "1"}, {"a": "1", "b": "1", "c": "1"}]
    assert all(answer.done for answer in answers)


def test_what_needs_no_image_is_answered_while_one_is_prepared() -> None:
    quorum = started()
    node = quorum.nodes[1]
    preparation = Preparation(quorum)
    client = node.submit(set_config("a", "1"))
    assert node.submit(set_config("b", "1"), shown=False).done
    assert node.submit(nothing, shown=False).done
    assert not client.done
    assert not preparation.published


def test_what_has_only_been_looked_at_waits_for_what_it_has_seen() -> None:
    quorum = started()
    node = quorum.nodes[1]
    preparation = Preparation(quorum)
    node.submit(set_config("a", "1"))
    seen = node.submit(nothing)
    assert not seen.done
    preparation.done()
    assert seen.result() == "seen"
    assert node.submit(nothing).done, "there is nothing more to see"


@pytest.mark.parametrize("prepared", [None, Deferred.of(None)])
def test_what_is_done_at_once_delays_nothing(prepared: Deferred[None] | None) -> None:
    quorum = started()
    node = quorum.nodes[1]
    publisher = RecordingPublisher()
    node.add_publisher(publisher)
    node.loader.before_publishing = lambda delta, image: prepared
    for count in range(1, 4):
        assert node.submit(set_config("a", str(count))).done
        assert [image.configs.of(4, "").get("a") for image in publisher.images[-count:]] == [str(each + 1) for each in range(count)]


def test_a_preparation_that_fails_is_said_and_the_image_is_published(caplog: pytest.LogCaptureFixture) -> None:
    quorum = started()
    node = quorum.nodes[1]
    publisher = RecordingPublisher()
    node.add_publisher(publisher)

    def fail(delta: MetadataDelta, image: MetadataImage) -> None:
        raise ValueError("no such topic")

    node.loader.before_publishing = fail
    assert node.submit(set_config("a", "1")).done
    assert publisher.images[-1].configs.of(4, "")["a"] == "1"
    assert "could not be prepared" in caplog.text


def test_a_publisher_that_comes_meanwhile_is_told_what_the_others_know_first() -> None:
    quorum = started()
    node = quorum.nodes[1]
    preparation = Preparation(quorum)
    node.submit(set_config("a", "1"))
    late = RecordingPublisher()
    node.add_publisher(late)
    assert [dict(image.configs.of(4, "")) for image in late.images] == [{}]
    preparation.done()
    assert [dict(image.configs.of(4, "")) for image in late.images] == [{}, {"a": "1"}]
    assert late.deltas[-1] is preparation.publisher.deltas[-1]


def test_no_more_than_so_many_images_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.controller.kraft.loader._MOST_UNPUBLISHED", 3)
    quorum = started()
    node = quorum.nodes[1]
    preparation = Preparation(quorum)
    of_clients = [node.submit(set_config(f"key{number}", "1")) for number in range(3)]
    of_brokers = [node.submit(set_config(f"key{number}", "1"), shown=False) for number in range(3, 6)]
    assert not any(answer.done for answer in of_brokers), "nothing more is read"
    assert len(preparation.asked) == 1
    while preparation.waiting:
        preparation.done()
        quorum.clock.advance_s(1)
    assert all(answer.done for answer in (*of_clients, *of_brokers))
    assert len(preparation.published[-1]) == 6


@pytest.mark.parametrize("records", [0, 1])
def test_a_controller_that_is_deposed_meanwhile_keeps_what_is_committed(records: int) -> None:
    quorum = started(3)
    leader = quorum.active
    preparation = Preparation(quorum, leader.node_id)
    answer = leader.submit(set_config("a", "1"))
    quorum.wait_for(lambda: bool(preparation.asked))
    later = leader.submit(set_config("b", "1") if records else nothing)
    quorum.cut.add(leader.node_id)
    quorum.wait_for(lambda: not leader.is_active_controller)
    assert answer.done
    assert answer.error is None, "it is certain"
    if records:
        assert isinstance(later.error, KafkaError)
        assert later.error.code is ErrorCode.NOT_CONTROLLER
    quorum.cut.clear()
    while preparation.waiting:
        preparation.done()
        quorum.clock.advance_s(1)
    leader.loader.before_publishing = None
    quorum.wait_for_all()
    assert preparation.published[0] == {"a": "1"}
    other = quorum.active
    assert leader.controller is not None
    assert other.controller is not None
    assert leader.controller.core.state.comparable() == other.controller.core.state.comparable()
    assert leader.image.equal_state(other.image)
    assert leader.image.configs.of(4, "")["a"] == "1"
    assert not quorum.faults


def test_a_node_that_stops_meanwhile_is_done_with_it() -> None:
    quorum = started()
    node = quorum.nodes[1]
    preparation = Preparation(quorum)
    node.submit(set_config("a", "1"))
    node.stop()
    preparation.done()
    assert preparation.published == []
    assert not quorum.faults


def test_a_snapshot_that_comes_meanwhile_is_published_after_it() -> None:
    quorum = Quorum(3, settings=SHORT_LOG)
    quorum.start()
    leader = quorum.wait_for_leader()
    quorum.wait_for_all()
    node = next(each for each in quorum.nodes.values() if each is not leader)
    preparation = Preparation(quorum, node.node_id)
    leader.submit(set_config("first", "1"))
    quorum.wait_for(lambda: bool(preparation.asked))
    quorum.cut.add(node.node_id)
    for _ in range(3):
        answer = leader.submit(write(1000))
        quorum.wait_for(lambda answer=answer: answer.done)
    assert leader.log.start_offset > node.next_offset
    loaded = node.loader.snapshots_loaded
    quorum.cut.clear()
    quorum.wait_for_all()
    assert node.image.equal_state(quorum.active.image)
    assert node.loader.snapshots_loaded > loaded
    assert preparation.published == []
    node.loader.before_publishing = None
    preparation.done()
    assert preparation.published[0] == {"first": "1"}
    assert len(preparation.published[-1]) == 1001
    assert preparation.publisher.images[-1] is node.image
    assert not quorum.faults
