"""A short slice of the campaign with whole controllers, and the proof that its invariants notice what once was wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.consensus import raft, replication
from odradek.consensus.messages import Propose
from odradek.controller.kraft.active import MetadataController
from odradek.controller.kraft.execution import Performer
from odradek.controller.kraft.group_commit import GroupCommit
from odradek.controller.kraft.records import encode_record, split_values
from odradek.metadata.versioned import VersionedRecord
from tests.campaigns.controllers import run

SEEDS = range(1, 16)


def test_invariants_hold_under_random_faults() -> None:
    for seed in SEEDS:
        run(seed)


def test_the_same_seed_gives_the_same_history() -> None:
    first, second = run(7), run(7)
    assert (first.committed, first.answered, first.blocks) == (second.committed, second.answered, second.blocks)


def _former_append(self: MetadataController, records: list[VersionedRecord], *, atomic: bool) -> bool:
    """Believes in its leadership as long as the log takes the batch, and does not look again."""
    values = [encode_record(record) for record in records]
    position = 0
    for batch in split_values(values, max_bytes=self._max_batch_bytes) if values else ():
        epoch, base = self.active_epoch, self._writer.next_offset
        for index in range(len(batch)):
            self._replay(records[position + index].message, base + index)
        self.replayed_to = base + len(batch)
        if not self._writer.append_values(batch, epoch):
            self.deactivate()
            return False
        position += len(batch)
    return True


def _trusts_its_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader appends until the timer says that it leads no more."""

    def on_propose(core: raft.Raft, event: Propose) -> None:
        if core.is_leader and event.epoch == core.epoch:
            core.append(event.record_count, event.epoch, payload=event.payload)
            replication.after_local_progress(core)

    monkeypatch.setattr(replication, "on_propose", on_propose)
    monkeypatch.setattr(Performer, "tick_if_due", lambda self: None)


def _answers_what_it_may_have_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    _trusts_its_timers(monkeypatch)
    monkeypatch.setattr(MetadataController, "_append", _former_append)


def _keeps_what_it_has_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, but for the answer: what it replayed after its leadership was gone stays in its state."""
    _trusts_its_timers(monkeypatch)

    def append(self: MetadataController, records: list[VersionedRecord], *, atomic: bool) -> bool:
        epoch = self.active_epoch
        return _former_append(self, records, atomic=atomic) and self.active_epoch == epoch

    monkeypatch.setattr(MetadataController, "_append", append)


def _answers_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(self: MetadataController, deferred: object, response: object) -> None:
        deferred.complete(response)  # type: ignore[attr-defined]

    monkeypatch.setattr(MetadataController, "_wait", wait)


def _calls_durable_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def flush(self: GroupCommit) -> None:
        if not self._closed:
            self._queue.put(lambda: self._on_durable(self._log.log.log_end_offset))

    monkeypatch.setattr(GroupCommit, "flush", flush)


PLANTED: list[tuple[Callable[[pytest.MonkeyPatch], None], int]] = [
    (_answers_what_it_may_have_lost, 1),
    (_keeps_what_it_has_lost, 31),
    (_answers_before_the_commit, 1),
    (_calls_durable_what_is_not, 1),
]
"""And the seed from which on to look: those before are known to find nothing."""


@pytest.mark.parametrize(("plant", "first"), PLANTED, ids=[plant.__name__.strip("_") for plant, _ in PLANTED])
def test_a_controller_that_breaks_its_word_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(first, first + 200):
        try:
            run(seed)
        except AssertionError as error:
            print(f"seed {seed}: {error}")
            return
    pytest.fail("200 histories went by and no invariant broke")
