"""The transaction coordinator on logs in memory: single requests, and whole lives at random with moves, lost answers and lost markers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.coordinator.transaction.records import encoded_transaction
from odradek.coordinator.transaction.state import AT_REST, MAX_EPOCH, Transaction, TransactionState
from odradek.records.batch import encode_batch
from tests.coordinator.transaction.support import HOME, P0, P1, TransactionsWorld, code_of


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_leaves_its_markers(version: int, commit: bool) -> None:
    world = TransactionsWorld(version=version).load()
    who = world.begin()
    world.add(who, P0, P1)
    assert world.coordinator.verify("x", who.producer_id, 0, [P0, TopicPartition("t", 2)]) == {
        P0: ErrorCode.NONE,
        TopicPartition("t", 2): ErrorCode.TRANSACTION_ABORTABLE,
    }
    assert world.end(who, commit=commit) == (1000, 1 if version == 2 else 0)
    world.clock.run_due()
    assert world.leaders.markers == {each: [(1000, 1 if version == 2 else 0, commit, 1)] for each in (P0, P1)}
    assert world.coordinator.describe("x").state.label == ("CompleteCommit" if commit else "CompleteAbort")


def test_a_new_producer_with_the_same_id_ends_the_old_ones_transaction() -> None:
    world = TransactionsWorld().load()
    old = world.begin()
    world.add(old, P0)
    with pytest.raises(KafkaError) as error:
        world.begin()
    assert code_of(error) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.clock.run_due()
    new = world.begin()
    assert new.producer_epoch > old.producer_epoch
    assert world.leaders.markers[P0][0][2] is False
    with pytest.raises(KafkaError) as error:
        world.end(old, commit=True)
    assert code_of(error) is ErrorCode.PRODUCER_FENCED


def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    world = TransactionsWorld().load()
    who = world.begin(timeout_ms=5_000)
    world.add(who, P0)
    world.clock.advance_s(4.9)
    world.coordinator.abort_timed_out()
    assert world.coordinator.describe("x").state is TransactionState.ONGOING
    world.clock.advance_s(0.2)
    world.coordinator.abort_timed_out()
    world.clock.run_due()
    assert world.coordinator.describe("x").state is TransactionState.COMPLETE_ABORT
    with pytest.raises(KafkaError) as error:
        world.add(who, P0)
    assert code_of(error) is ErrorCode.PRODUCER_FENCED


def test_partitions_without_a_leader_are_asked_again_and_deleted_ones_are_not() -> None:
    world = TransactionsWorld().load()
    who = world.begin()
    world.add(who, P0, P1)
    world.leaders.leaderless.add(P0)
    world.leaders.missing.add(P1)
    world.end(who, commit=True)
    world.clock.advance_s(1)
    assert world.coordinator.describe("x").state is TransactionState.PREPARE_COMMIT
    world.leaders.leaderless.clear()
    world.clock.advance_s(1)
    assert world.coordinator.describe("x").state is TransactionState.COMPLETE_COMMIT
    assert list(world.leaders.markers) == [P0]


def test_the_next_coordinator_goes_on_with_what_was_decided() -> None:
    world = TransactionsWorld().load()
    who = world.begin()
    world.add(who, P0)
    world.leaders.answer = lambda: "lost"
    world.end(who, commit=True)
    world.clock.advance_s(1)
    world.coordinator.close()
    world.coordinator = world.new_coordinator()
    world.leaders.answer = lambda: "yes"
    world.load()
    world.clock.advance_s(1)
    assert world.leaders.markers[P0] == [(1000, 1, True, 2)]
    assert world.coordinator.describe("x").state is TransactionState.COMPLETE_COMMIT


def test_a_transaction_is_completed_as_soon_as_the_log_takes_the_record() -> None:
    world = TransactionsWorld().load()
    who = world.begin()
    world.add(who, P0)
    taken = world.leaders.take

    def take(*args: Any) -> ErrorCode:
        world.log.fail_with = ErrorCode.MESSAGE_TOO_LARGE
        return taken(*args)

    world.leaders.take = take  # type: ignore[method-assign]
    world.end(who, commit=True)
    world.clock.advance_s(2)
    assert world.coordinator.describe("x").state is TransactionState.PREPARE_COMMIT
    world.log.fail_with = None
    world.clock.advance_s(2)
    assert world.coordinator.describe("x").state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_late_repetition_of_complete_leaves_the_next_transaction_alone(version: int) -> None:
    world = TransactionsWorld(version=version).load()
    who = world.begin()
    world.add(who, P0)
    world.leaders.answer = lambda: "lost"
    _, epoch = world.end(who, commit=True)
    world.log.auto_commit = False
    world.leaders.answer = lambda: "yes"
    world.clock.advance_s(0.2)
    assert world.leaders.markers[P0], "from here on the record that says so waits to be replicated"
    world.clock.advance_s(5)
    world.log.auto_commit = True
    world.log.commit(world.log.log_end_offset)
    assert world.coordinator.describe("x").state is TransactionState.COMPLETE_COMMIT
    world.leaders.answer = lambda: "lost"
    world.add(who, P1, epoch=epoch)
    world.end(who, commit=True, epoch=epoch)
    world.clock.advance_s(1)
    assert P1 not in world.leaders.markers
    assert world.coordinator.describe("x").state is TransactionState.PREPARE_COMMIT, "complete without its markers"
    world.leaders.answer = lambda: "yes"
    world.clock.advance_s(1)
    assert len(world.leaders.markers[P1]) == 1
    assert world.coordinator.describe("x").state is TransactionState.COMPLETE_COMMIT


def test_the_log_of_version_0_takes_no_transactions_of_version_2() -> None:
    world = TransactionsWorld(version=0).load()
    who = world.begin()
    with pytest.raises(KafkaError) as error:
        world.ask(world.coordinator.add_partitions("x", who.producer_id, 0, [P0], 2))
    assert code_of(error) is ErrorCode.UNSUPPORTED_VERSION
    world.add(who, P0)
    with pytest.raises(KafkaError) as error:
        world.ask(world.coordinator.end("x", who.producer_id, 0, commit=True, client_version=2))
    assert code_of(error) is ErrorCode.UNSUPPORTED_VERSION
    assert world.end(who, commit=True) == (1000, 0)


@pytest.mark.parametrize("client_version", [0, 2])
def test_what_was_begun_before_the_feature_went_down_is_ended(client_version: int) -> None:
    world = TransactionsWorld().load()
    who = world.begin()
    world.add(who, P0)
    world.version = 0
    world.leaders.answer = lambda: "lost"
    world.ask(world.coordinator.add_partitions("x", who.producer_id, 0, [P1], 2))
    world.ask(world.coordinator.end("x", who.producer_id, 0, commit=True, client_version=client_version))
    world.coordinator.close()
    world.coordinator = world.new_coordinator()
    world.leaders.answer = lambda: "yes"
    world.load()
    world.clock.advance_s(1)
    assert world.leaders.markers == {each: [(1000, client_version // 2, True, 2)] for each in (P0, P1)}
    assert world.coordinator.describe("x").state is TransactionState.COMPLETE_COMMIT
    again = world.begin()
    with pytest.raises(KafkaError) as error:
        world.ask(world.coordinator.add_partitions("x", *again.owner, [P0], 2))
    assert code_of(error) is ErrorCode.UNSUPPORTED_VERSION
    world.add(again, P0)


def test_limits() -> None:
    world = TransactionsWorld().load()
    for timeout, code in ((0, ErrorCode.INVALID_TRANSACTION_TIMEOUT), (900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT)):
        with pytest.raises(KafkaError) as error:
            world.begin(timeout_ms=timeout)
        assert code_of(error) is code
    assert world.begin("longest", timeout_ms=900_000).timeout_ms == 900_000
    with pytest.raises(KafkaError) as error:
        world.begin("")
    assert code_of(error) is ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError) as error:
        world.ask(world.coordinator.initialize("x", 1, None, two_phase=True, keep_prepared=False))
    assert code_of(error) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError) as error:
        world.coordinator.describe("nobody")
    assert code_of(error) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_ids_that_nobody_uses_expire() -> None:
    world = TransactionsWorld().load()
    world.begin()
    world.clock.advance_s(7 * 86400 + 1)
    world.coordinator.remove_expired()
    world.clock.run_due()
    assert world.coordinator.all() == []


# -- what is not committed, or not ours ----------------------------------------------------------------------------------------------


def test_verification_knows_what_is_committed_alone() -> None:
    world = TransactionsWorld().load()
    who = world.begin()
    world.log.auto_commit = False
    added = world.coordinator.add_partitions("x", who.producer_id, 0, [P0], 2)
    world.clock.run_due()
    assert not added.done
    assert world.coordinator.verify("x", who.producer_id, 0, [P0]) == {P0: ErrorCode.TRANSACTION_ABORTABLE}
    world.log.commit(world.log.log_end_offset)
    assert world.coordinator.verify("x", who.producer_id, 0, [P0]) == {P0: ErrorCode.NONE}


def test_nothing_is_verified_for_a_transaction_that_is_being_ended() -> None:
    world = TransactionsWorld(version=0).load()
    who = world.begin()
    world.add(who, P0)
    world.leaders.answer = lambda: "lost"
    world.end(who, commit=True)
    with pytest.raises(KafkaError) as error:
        world.coordinator.verify("x", who.producer_id, 0, [P0])
    assert code_of(error) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_markers_follow_the_commit_of_the_decision() -> None:
    world = TransactionsWorld().load()
    who = world.begin()
    world.add(who, P0)
    world.log.auto_commit = False
    ended = world.coordinator.end("x", who.producer_id, 0, commit=True, client_version=2)
    world.clock.advance_s(1)
    assert world.leaders.requests == 0
    world.log.commit(world.log.log_end_offset)
    world.clock.run_due()
    assert ended.result() == (who.producer_id, 1)
    assert world.leaders.markers[P0] == [(who.producer_id, 1, True, 1)]


@pytest.mark.parametrize("mood", ["silent", "fenced"])
def test_a_transaction_is_complete_when_its_markers_are_written(mood: str) -> None:
    world = TransactionsWorld().load()
    who = world.begin()
    world.add(who, P0)
    world.leaders.answer = lambda: mood
    world.end(who, commit=True)
    world.clock.advance_s(0.05)
    assert world.leaders.requests == 1
    assert world.coordinator.describe("x").state is TransactionState.PREPARE_COMMIT
    world.leaders.answer = lambda: "yes"
    world.clock.advance_s(1)
    assert world.coordinator.describe("x").state is (
        TransactionState.COMPLETE_COMMIT if mood == "silent" else TransactionState.PREPARE_COMMIT
    ), "a fenced coordinator leaves it to its successor"


def test_a_new_leadership_writes_the_markers_under_its_own_epoch_and_a_lost_one_none() -> None:
    world = TransactionsWorld().load()
    who = world.begin()
    world.add(who, P0)
    world.leaders.answer = lambda: "lost"
    world.end(who, commit=True)
    world.log.reads = []
    world.load()
    world.leaders.answer = lambda: "yes"
    world.clock.advance_s(1)
    assert world.leaders.markers == {}, "nothing is sent before the state is loaded"
    reads, world.log.reads = world.log.reads, None
    world.log.read(0, world.log.log_end_offset, 1 << 20).add_callback(lambda found: reads[0].complete(found.result()))
    world.clock.advance_s(1)
    assert world.leaders.markers[P0] == [(who.producer_id, 1, True, 2)]
    again = world.begin()
    world.add(again, P0)
    world.leaders.answer = lambda: "lost"
    world.end(again, commit=True)
    world.coordinator.runtime.unload(HOME, 1)
    asked = world.leaders.requests
    world.clock.advance_s(1)
    assert world.leaders.requests > asked, "old news"
    world.coordinator.runtime.unload(HOME, 3)
    world.clock.advance_s(0.2)
    asked = world.leaders.requests
    world.clock.advance_s(10)
    assert world.leaders.requests == asked


def held_up_world(version: int = 2) -> tuple[TransactionsWorld, Transaction]:
    """A transaction that is decided, and whose markers get lost."""
    world = TransactionsWorld(version=version).load()
    who = world.begin()
    world.add(who, P0, P1)
    world.leaders.answer = lambda: "lost"
    world.end(who, commit=True)
    return world, who


def test_news_of_the_same_leadership_do_not_stop_the_markers() -> None:
    """As each change of the in-sync replicas brings them."""
    world, who = held_up_world()
    world.coordinator.runtime.load(HOME, 1)
    world.leaders.answer = lambda: "yes"
    world.clock.advance_s(1)
    assert world.leaders.markers == {each: [(who.producer_id, 1, True, 1)] for each in (P0, P1)}
    assert world.coordinator.describe("x").state is TransactionState.COMPLETE_COMMIT


def test_a_coordinator_that_leads_on_in_a_later_epoch_sends_its_markers_under_that() -> None:
    world, who = held_up_world()
    world.coordinator.runtime.load(HOME, 4)
    world.leaders.answer = lambda: "yes"
    world.clock.advance_s(1)
    assert world.leaders.markers == {each: [(who.producer_id, 1, True, 4)] for each in (P0, P1)}
    assert world.coordinator.describe("x").state is TransactionState.COMPLETE_COMMIT


def test_markers_that_were_all_written_are_not_written_again_in_a_later_epoch() -> None:
    """Below transaction version 2 they would end the producer's next transaction."""
    world = TransactionsWorld(version=0).load()
    who = world.begin()
    world.add(who, P0)

    def answer() -> str:
        world.log.auto_commit = False
        return "yes"

    world.leaders.answer = answer
    world.end(who, commit=True)
    world.clock.run_due()
    assert world.leaders.requests == 1
    assert world.coordinator.describe("x").state is TransactionState.PREPARE_COMMIT, "its completion is not committed yet"
    world.coordinator.runtime.load(HOME, 2)
    world.clock.advance_s(1)
    assert world.leaders.requests == 1
    world.log.commit(world.log.log_end_offset)
    assert world.coordinator.describe("x").state is TransactionState.COMPLETE_COMMIT


def test_a_coordinator_whose_partition_is_lost_sends_no_markers() -> None:
    world, _ = held_up_world()
    world.log.lose()
    asked = world.leaders.requests
    world.leaders.answer = lambda: "yes"
    world.clock.advance_s(10)
    assert world.leaders.requests == asked


# -- time --------------------------------------------------------------------------------------------------------------------------


def test_a_transaction_has_all_of_its_time() -> None:
    world = TransactionsWorld().load()
    world.add(world.begin(timeout_ms=5_000), P0)
    world.clock.advance_s(5)
    world.coordinator.abort_timed_out()
    world.clock.run_due()
    assert world.coordinator.describe("x").state is TransactionState.ONGOING
    world.clock.advance_s(0.001)
    world.coordinator.abort_timed_out()
    world.clock.run_due()
    assert world.coordinator.describe("x").state is TransactionState.COMPLETE_ABORT


def test_an_abort_that_waited_for_an_id_spares_the_next_transaction() -> None:
    world = TransactionsWorld()
    begun = Transaction(
        "x",
        1000,
        MAX_EPOCH - 1,
        5_000,
        TransactionState.ONGOING,
        frozenset({P0}),
        world.clock.time_ms(),
        world.clock.time_ms(),
        client_version=2,
    )
    key, value = encoded_transaction(begun, 2)
    world.log.append(encode_batch([(0, key, value, ())]), 1)
    world.load()
    world.clock.advance_s(6)
    world.ids.later = []
    world.coordinator.abort_timed_out()
    ended = world.coordinator.end("x", 1000, MAX_EPOCH - 1, commit=True, client_version=2)
    for_the_abort, for_the_end = world.ids.later
    for_the_end.complete(2000)
    world.clock.run_due()
    assert ended.result() == (2000, 0)
    world.ask(world.coordinator.add_partitions("x", 2000, 0, [P1], 2))
    for_the_abort.complete(3000)
    world.clock.run_due()
    assert world.coordinator.describe("x").state is TransactionState.ONGOING
    assert world.leaders.markers[P0] == [(1000, MAX_EPOCH, True, 1)]


def test_ids_expire_in_their_time_and_not_all_at_once() -> None:
    world = TransactionsWorld().load()
    for number in range(3):
        world.begin(f"x{number}")
    world.clock.advance_s(7 * 86400 - 0.001)
    world.coordinator.remove_expired()
    world.clock.run_due()
    assert len(world.coordinator.all()) == 3
    world.clock.advance_s(0.001)
    some = world.coordinator.runtime.read(HOME, lambda shard: shard.remove_expired(604_800_000, limit=2))
    assert some.response == len(some.records) == 2
    world.coordinator.remove_expired()
    world.clock.run_due()
    assert world.coordinator.all() == []


def test_more_ids_than_a_batch_holds_expire_in_several() -> None:
    world = TransactionsWorld().load()
    for number in range(20):
        world.begin(f"x{number}")
    world.log.max_batch_bytes = 400
    world.clock.advance_s(8 * 86400)
    world.coordinator.remove_expired()
    world.clock.run_due()
    assert world.coordinator.all() == []


def test_an_id_with_an_open_transaction_does_not_expire() -> None:
    world = TransactionsWorld().load()
    world.add(world.begin(timeout_ms=900_000), P0)
    world.clock.advance_s(8 * 86400)
    world.coordinator.remove_expired()
    world.clock.run_due()
    assert world.coordinator.describe("x").state is TransactionState.ONGOING


def test_whoever_needs_an_id_that_cannot_be_had_hears_of_it() -> None:
    world = TransactionsWorld().load()
    world.ids.later = []
    asked = world.coordinator.initialize("x", 60_000, None, two_phase=False, keep_prepared=False)
    world.ids.later[0].fail(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    world.clock.run_due()
    with pytest.raises(KafkaError) as error:
        asked.result()
    assert code_of(error) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Life:
    """A producer that goes on whatever happens: transactions one after the other, requests repeated until they are answered."""

    def __init__(self, world: TransactionsWorld, name: str, rng: random.Random, history: dict[tuple[int, int], bool]) -> None:
        self.world, self.name, self.rng = world, name, rng
        self.committed = history
        self.partitions: dict[tuple[int, int], set[TopicPartition]] = {}
        """What was added for sure, by producer id and epoch."""
        self.who: tuple[int, int] | None = None
        self.open = False
        self.decision: bool | None = None

    def step(self) -> None:
        coordinator, version = self.world.coordinator, self.world.version
        try:
            if self.who is None:
                found = self.world.begin(self.name)
                self.who, self.open, self.decision = (found.producer_id, found.producer_epoch), False, None
            elif self.decision is None and (not self.open or self.rng.random() < 0.5):
                partitions = [partition for partition in (P0, P1) if self.rng.random() < 0.7] or [P0]
                self._maybe_lose(coordinator.add_partitions(self.name, *self.who, partitions, version))
                self.partitions.setdefault(self.who, set()).update(partitions)
                self.open = True
            else:
                if self.decision is None:
                    self.decision = self.rng.random() < 0.7
                ended = coordinator.end(self.name, *self.who, commit=self.decision, client_version=version)
                following = self._maybe_lose(ended)
                assert isinstance(following, tuple)
                self.committed[self.who] = self.decision
                self.who, self.open, self.decision = following, False, None
        except KafkaError as error:
            if error.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE):
                self.who = None
        except TimeoutError:
            pass

    def _maybe_lose(self, asked: Deferred[Any]) -> Any:
        self.world.clock.run_due()
        if not asked.done or self.rng.random() < 0.15:
            raise TimeoutError
        return asked.result()


@pytest.mark.parametrize("seed", range(40))
def test_lives_at_random(seed: int) -> None:
    """Coordinators move and lose what is not committed, appends fail, answers and markers get lost. Then: every partition hears one and the
    same verdict on a transaction, epochs in markers never go back, what a producer was told was committed is committed, what it was told
    was aborted is aborted, and in the end nothing hangs.
    """
    rng = random.Random(seed)
    world = TransactionsWorld(auto_commit=False).load()
    world.leaders.answer = lambda: rng.choice(["yes", "yes", "yes", "lost", "answer lost", "no leader"])
    told: dict[str, dict[tuple[int, int], bool]] = {"a": {}, "b": {}}
    lives = [Life(world, name, rng, told[name]) for name in told]
    for _ in range(400):
        world.log.auto_commit = rng.random() < 0.85
        if world.log.auto_commit:
            world.log.commit(world.log.log_end_offset)
        rng.choice(lives).step()
        chance = rng.random()
        if chance < 0.3:
            world.log.commit(rng.choice(world.log.boundaries()))
        elif chance < 0.33:
            world.log.fail_with = None if world.log.fail_with else ErrorCode.NOT_ENOUGH_REPLICAS
        elif chance < 0.36:
            world.coordinator.close()
            world.log.truncate(rng.choice(world.log.boundaries()))
            world.log.high_watermark = min(world.log.high_watermark, world.log.log_end_offset)
            world.coordinator = world.new_coordinator()
            world.load()
        elif chance < 0.4:
            world.clock.advance_s(70)
            world.coordinator.abort_timed_out()
        world.clock.advance_s(0.05)
    world.leaders.answer = lambda: "yes"
    world.log.fail_with = None
    for _ in range(40):
        world.log.commit(world.log.log_end_offset)
        world.clock.advance_s(4)
        world.coordinator.abort_timed_out()
    assert all(transaction.state in AT_REST for transaction in world.coordinator.all())
    verdicts: dict[tuple[int, int], set[bool]] = {}
    for markers in world.leaders.markers.values():
        highest: dict[int, int] = {}
        for producer_id, epoch, commit, _ in markers:
            assert epoch >= highest.get(producer_id, -1)
            highest[producer_id] = epoch
            verdicts.setdefault((producer_id, epoch), set()).add(commit)
    assert all(len(verdict) == 1 for verdict in verdicts.values())
    assert sum(map(len, told.values())) > 10, "the test itself has come to a standstill"
    for life in lives:
        for (producer_id, epoch), commit in life.committed.items():
            assert verdicts[producer_id, epoch + 1] == {commit}
            for partition in life.partitions[producer_id, epoch]:
                assert (producer_id, epoch + 1) in [marker[:2] for marker in world.leaders.markers[partition]]
