"""Tests of the invariants of `interleavings`: legal steps pass, and violations are reported."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from odradek.base.errors import ErrorCode
from odradek.coordinator.markers import marker_batch
from odradek.protocol.messages.sync_group import SyncGroupResponse
from odradek.records.batch import encode_batch
from odradek.records.compression import Compression
from tests.campaigns.interleavings import classic, consumer, transactions
from tests.campaigns.interleavings.groups import Node
from tests.campaigns.interleavings.world import ScriptLog, ViolationError


def _batch(key: bytes, producer: int = -1) -> bytes:
    records: list[tuple[int, bytes | None, bytes | None, tuple[()]]] = [(0, key, b"v", ())]
    return encode_batch(
        records, compression=Compression.NONE, producer_id=producer, producer_epoch=0 if producer >= 0 else -1, transactional=producer >= 0
    )


@pytest.mark.parametrize(("committed", "kept"), [(False, [0, 1, 2, 3]), (True, [0, 2, 3])])
def test_an_aborted_transaction_is_cleaned_once_its_marker_is_committed(committed: bool, kept: list[int]) -> None:
    log = ScriptLog()
    view = log.open(0)
    view.append(_batch(b"a"), 0)
    view.append(_batch(b"b", producer=1), 0)
    view.append(_batch(b"c"), 0)
    log.auto_commit = False
    view.append(marker_batch(1, 0, 0, committed=False, now_ms=0), 0)
    if committed:
        log.commit_all()
    found = set()
    for seed in range(20):
        batches = list(log.batches)
        log.compact(random.Random(seed))
        found.add(tuple(batch.base_offset for batch in log.batches))
        log.batches = batches
    assert found <= {tuple(kept), (0, 1, 2, 3)}
    assert tuple(kept) in found


def _told(story: classic.Story, generation: int, node: Node, partitions: bytes = b"\0") -> None:
    story.assigned("m", generation, node.coordinator, SyncGroupResponse(error_code=ErrorCode.NONE, assignment=partitions))


def test_only_a_deposed_coordinator_may_tell_of_a_generation_that_is_over() -> None:
    story = classic.Story(random.Random(1))
    former = story.nodes[-1]
    _told(story, 1, former)
    story.nodes.append(Node(story, story.clock))
    _told(story, 2, story.nodes[-1])
    _told(story, 1, former)
    with pytest.raises(ViolationError, match="generation-monotonic"):
        _told(story, 1, story.nodes[-1])


def _member(story: classic.Story, static: bool = False) -> classic.Member:
    member = classic.Member(story, f"n{len(story.members)}", static=static)
    story.members.append(member)
    return member


def test_two_members_whose_sessions_live_own_nothing_together() -> None:
    story = classic.Story(random.Random(1))
    first, second = _member(story), _member(story)
    for member in (first, second):
        member.given = (2,)
    story.clock.advance_s(20)
    first.hears(story.clock.now_s)
    second.heard_at = story.clock.now_s
    assert second.owned == (), "an assignment alone is not taken"
    with pytest.raises(ViolationError, match="one-living-owner"):
        second.hears(story.clock.now_s)


def _synced(removed: Callable[[consumer.Old], None]) -> consumer.Old:
    """Return a member of the classic protocol whose SyncGroup was answered, after `removed` has acted on the member before the answer
    arrives.
    """
    story = consumer.Story(random.Random(3))
    member = consumer.Old(story)
    member.member_id, member.generation = "c", 3
    told_at = member.removals
    removed(member)
    member.is_synced(SyncGroupResponse(error_code=ErrorCode.NONE, assignment=consumer.shares_of([0])), told_at)
    return member


def test_an_epoch_says_nothing_of_a_member_that_was_removed_since() -> None:
    assert _synced(lambda _: None).synced == 3
    assert _synced(lambda member: member.removed()).synced == -1


def test_only_a_deposed_coordinator_may_tell_of_an_epoch_that_is_over() -> None:
    for deposed in (True, False):
        story = transactions.Story(random.Random(1))
        story.handed("x", (1000, 3), 1)
        story.handed("x", (1000, 7), 2)
        story.handed("x", (1000, 4), 1, deposed=deposed)
        assert story.latest("x") == ((1000, 7) if deposed else (1000, 4))
        with pytest.raises(ViolationError, match="epoch-fencing"):
            story.fencing("x", (1000, 4 if deposed else 7), story.latest("x"), "partitions were added")
