"""Transactions kept for a successor (KIP-939): single steps, and an outer coordinator with producers that die at any moment."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.coordinator.transaction import state as step
from odradek.coordinator.transaction import two_phase
from odradek.coordinator.transaction.records import transaction_of, transaction_record
from odradek.coordinator.transaction.service import TransactionSettings
from odradek.coordinator.transaction.state import MAX_EPOCH, NEVER_MS, ProducerIdNeededError, Transaction
from odradek.protocol.messages.transaction_records import TransactionLogValue
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from tests.coordinator.transaction.support import P0, P1, Leaders, TransactionsWorld, code_of

DAY_S = 86_400.0


def ongoing(producer_id: int = 42, epoch: int = 7, timeout_ms: int = NEVER_MS) -> Transaction:
    begun = step.add_partitions(step.new_transaction("x", producer_id, timeout_ms, 0)._replace(producer_epoch=epoch), [P0], 2, 10)
    assert not begun.kept
    return begun


def keep(
    transaction: Transaction, expected: tuple[int, int] | None = None, new_id: int | None = None, timeout_ms: int = NEVER_MS
) -> Transaction:
    return two_phase.keep(transaction, expected, timeout_ms, 20, new_id)


def end(kept: Transaction, *, commit: bool = True, bump: bool = True, new_id: int | None = None) -> Transaction:
    return two_phase.end_kept(kept, 30, new_id, commit=commit, bump=bump)


def pair(transaction: Transaction) -> tuple[int, int]:
    return transaction.producer_id, transaction.producer_epoch


def again(transaction: Transaction, producer: tuple[int, int], *, commit: bool = True) -> Transaction:
    """EndTxn of version 5."""
    return step.end(transaction, *producer, commit=commit, client_version=2, now_ms=40, new_producer_id=None)


@pytest.mark.parametrize("commit", [True, False])
def test_the_successor_ends_what_it_finds(commit: bool) -> None:
    kept = keep(ongoing())
    assert (pair(kept), kept.owner, kept.kept, kept.partitions) == ((42, 7), (42, 8), True, {P0})
    prepared = end(kept, commit=commit)
    assert (pair(prepared), prepared.owner, prepared.result_is_commit) == ((42, 9), (42, 9), commit)
    assert not prepared.kept
    done = step.complete(prepared, 50)
    assert (pair(done), done.owner, done.next_producer_epoch) == ((42, 9), (42, 9), -1)
    assert again(done, (42, 8), commit=commit) is done, "the answer got lost"


def test_a_successor_may_have_successors() -> None:
    kept = keep(keep(keep(ongoing())))
    assert (pair(kept), kept.owner) == ((42, 7), (42, 10))
    with pytest.raises(KafkaError) as error:
        step.check_producer(kept, 42, 9)
    assert code_of(error) is ErrorCode.PRODUCER_FENCED
    assert pair(end(kept)) == (42, 11)


def test_used_up_epochs_lead_to_a_new_id_beside_that_of_the_records() -> None:
    last = ongoing(epoch=MAX_EPOCH - 1)
    with pytest.raises(ProducerIdNeededError):
        keep(last)
    kept = keep(last, new_id=73)
    assert (pair(kept), kept.owner) == ((42, MAX_EPOCH - 1), (73, 0))
    with pytest.raises(KafkaError) as error:
        step.check_producer(kept, 42, MAX_EPOCH - 1)
    assert code_of(error) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    prepared = end(kept)
    assert (pair(prepared), prepared.owner) == ((42, MAX_EPOCH), (73, 1))
    done = step.complete(prepared, 50)
    assert pair(done) == (73, 1)
    for at, expected in ((prepared, ErrorCode.CONCURRENT_TRANSACTIONS), (done, ErrorCode.INVALID_PRODUCER_ID_MAPPING)):
        with pytest.raises(KafkaError) as error:
            again(at, (42, MAX_EPOCH - 1))
        assert code_of(error) is expected
    with pytest.raises(KafkaError) as error:
        again(prepared, (73, 0))
    assert code_of(error) is ErrorCode.CONCURRENT_TRANSACTIONS, "it repeats itself while the markers are written"
    with pytest.raises(KafkaError) as error:
        again(prepared, (73, 0), commit=False)
    assert code_of(error) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert again(done, (73, 0)) is done


def test_both_ids_can_be_used_up() -> None:
    kept = keep(ongoing(epoch=MAX_EPOCH - 1), new_id=73)._replace(next_producer_epoch=MAX_EPOCH - 1)
    with pytest.raises(ProducerIdNeededError):
        end(kept)
    prepared = end(kept, new_id=99)
    assert (pair(prepared), prepared.owner) == ((42, MAX_EPOCH), (99, 0))
    with pytest.raises(KafkaError) as error:
        again(prepared, (73, MAX_EPOCH - 1))
    assert code_of(error) is ErrorCode.CONCURRENT_TRANSACTIONS
    done = step.complete(prepared, 50)
    assert pair(done) == (99, 0)
    assert again(done, (73, MAX_EPOCH - 1)) is done


def test_the_last_epoch_of_the_records_id_is_for_the_marker() -> None:
    kept = keep(ongoing(epoch=MAX_EPOCH - 2))
    assert kept.owner == (42, MAX_EPOCH - 1)
    prepared = end(kept, new_id=73)
    assert (pair(prepared), prepared.owner) == ((42, MAX_EPOCH), (73, 0))
    with pytest.raises(KafkaError) as error:
        again(prepared, (42, MAX_EPOCH - 1))
    assert code_of(error) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert again(step.complete(prepared, 50), (42, MAX_EPOCH - 1)).owner == (73, 0)


def test_an_older_request_ends_without_a_bump() -> None:
    assert (pair(end(keep(ongoing()), bump=False)), end(keep(ongoing()), bump=False).owner) == ((42, 8), (42, 8))
    other = end(keep(ongoing(epoch=MAX_EPOCH - 1), new_id=73), bump=False)
    assert (pair(other), other.owner) == ((42, MAX_EPOCH), (73, 0))
    assert pair(step.complete(other, 50)) == (73, 0)


def test_only_the_owner_may_name_itself() -> None:
    kept = keep(ongoing(), expected=(42, 7))
    assert kept.owner == (42, 8)
    assert keep(kept, expected=(42, 7)) is kept, "the answer got lost"
    assert keep(kept, expected=(42, 8)).owner == (42, 9)
    for stranger in ((42, 6), (41, 7), (42, 9)):
        with pytest.raises(KafkaError) as error:
            keep(kept, expected=stranger)
        assert code_of(error) is ErrorCode.PRODUCER_FENCED
    nameless = keep(ongoing())
    with pytest.raises(KafkaError) as error:
        keep(nameless, expected=(42, 7))
    assert code_of(error) is ErrorCode.PRODUCER_FENCED, "the dead producer has no right to what its successor was given"


def test_what_may_take_for_ever_goes_on_doing_so() -> None:
    assert keep(ongoing(), timeout_ms=1_000).timeout_ms == NEVER_MS
    assert keep(ongoing(timeout_ms=1_000)).timeout_ms == NEVER_MS
    bounded = keep(ongoing(timeout_ms=1_000), timeout_ms=5_000)
    assert not bounded.timed_out(5_010)
    assert bounded.timed_out(5_011)


@pytest.mark.parametrize("server_version", [0, 1, 2])
def test_the_log_holds_it(server_version: int) -> None:
    for transaction in (keep(ongoing()), end(keep(ongoing(epoch=MAX_EPOCH - 1), new_id=73))):
        record = transaction_record(transaction, server_version)
        assert record.value is not None
        value = TransactionLogValue.decode(record.value.encode(record.version), record.version)
        assert transaction_of("x", value) == transaction._replace(last_producer_epoch=-1)


class TwoPhaseWorld(TransactionsWorld):
    def settings(self) -> TransactionSettings:
        return TransactionSettings(max_timeout_ms=900_000, expiration_ms=604_800_000, two_phase_commit=True)

    def take(self, name: str = "x", *, two_phase: bool = True, expected: tuple[int, int] | None = None) -> Transaction:
        """InitProducerId that keeps what is there."""
        return cast(Transaction, self.ask(self.coordinator.initialize(name, 60_000, expected, two_phase=two_phase, keep_prepared=True)))

    def restart(self) -> None:
        self.coordinator.close()
        self.coordinator = self.new_coordinator()
        self.load()


def prepared_world() -> tuple[TwoPhaseWorld, Transaction]:
    world = TwoPhaseWorld()
    world.load()
    who = world.take()
    assert (who.owner, who.kept) == ((1000, 0), False)
    world.add(who, P0, P1)
    return world, who


@pytest.mark.parametrize("commit", [True, False])
def test_a_kept_transaction_survives_the_coordinator(commit: bool) -> None:
    world, _ = prepared_world()
    world.restart()
    assert world.take().owner == (1000, 1)
    world.restart()
    kept = world.take()
    assert (pair(kept), kept.owner) == ((1000, 0), (1000, 2))
    world.restart()
    ended = world.coordinator.end("x", *kept.owner, commit=commit, client_version=2)
    assert world.ask(ended) == (1000, 3)
    world.clock.run_due()
    assert world.leaders.markers == {each: [(1000, 3, commit, 4)] for each in (P0, P1)}


def test_the_clock_does_not_end_it() -> None:
    world, _ = prepared_world()
    world.clock.advance_s(1000 * DAY_S)
    world.coordinator.abort_timed_out()
    world.coordinator.remove_expired()
    world.clock.run_due()
    kept = world.take()
    assert kept.kept
    world.clock.advance_s(1000 * DAY_S)
    world.coordinator.abort_timed_out()
    world.clock.run_due()
    assert world.coordinator.describe("x").kept


def test_whoever_does_not_keep_aborts() -> None:
    world, _ = prepared_world()
    kept = world.take()
    with pytest.raises(KafkaError) as error:
        world.begin()
    assert code_of(error) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.clock.run_due()
    assert [marker[:3] for marker in world.leaders.markers[P0]] == [(1000, 2, False)]
    assert world.begin().owner == (1000, 3)
    with pytest.raises(KafkaError) as error:
        world.ask(world.coordinator.end("x", *kept.owner, commit=True, client_version=2))
    assert code_of(error) is ErrorCode.PRODUCER_FENCED


def test_nobody_writes_into_a_kept_transaction() -> None:
    world, who = prepared_world()
    kept = world.take()
    for producer, code in ((kept.owner, ErrorCode.INVALID_TXN_STATE), (pair(who), ErrorCode.PRODUCER_FENCED)):
        with pytest.raises(KafkaError) as error:
            world.ask(world.coordinator.add_partitions("x", *producer, [P0], 2))
        assert code_of(error) is code
        with pytest.raises(KafkaError) as error:
            world.coordinator.verify("x", *producer, [P0])
        assert code_of(error) is code


def test_the_dead_producer_cannot_have_it_aborted() -> None:
    world, who = prepared_world()
    world.take()
    with pytest.raises(KafkaError) as error:
        world.ask(world.coordinator.initialize("x", 60_000, pair(who), two_phase=True, keep_prepared=False))
    assert code_of(error) is ErrorCode.PRODUCER_FENCED
    assert world.coordinator.describe("x").kept


def test_two_phase_commit_may_be_turned_off_while_something_is_prepared() -> None:
    world, _ = prepared_world()
    world.settings = lambda: TransactionSettings(  # type: ignore[method-assign]
        max_timeout_ms=900_000, expiration_ms=604_800_000, two_phase_commit=False
    )
    world.restart()
    with pytest.raises(KafkaError) as error:
        world.take()
    assert code_of(error) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    kept = world.take(two_phase=False)
    assert kept.timeout_ms == NEVER_MS
    world.ask(world.coordinator.end("x", *kept.owner, commit=True, client_version=2))
    assert world.begin().timeout_ms == 60_000


def test_keeping_needs_epochs_that_tell_transactions_apart() -> None:
    world, _ = prepared_world()
    for version in (0, 1):
        world.version = version
        with pytest.raises(KafkaError) as error:
            world.take()
        assert code_of(error) is ErrorCode.UNSUPPORTED_VERSION


# -- an outer coordinator ------------------------------------------------------------------------------------------------------------------


class Partitions(Leaders):
    """Leaders that hold records and fence as logs do: a marker's epoch must be above that of the records it ends."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs: dict[tuple[TopicPartition, int], int] = {}
        self.open: dict[tuple[TopicPartition, int], list[int]] = {}
        self.verdicts: dict[int, list[bool]] = {}
        """Value -> what readers were told of it, once a partition it stands in."""

    def write(self, partition: TopicPartition, producer: tuple[int, int], value: int) -> bool:
        key = partition, producer[0]
        if producer[1] < self.epochs.get(key, 0):
            return False
        self.epochs[key] = producer[1]
        self.open.setdefault(key, []).append(value)
        return True

    def take(self, partition: TopicPartition, marker: WriteTxnMarkersRequest.WritableTxnMarker, mood: str) -> ErrorCode:
        code = super().take(partition, marker, mood)
        if code is not ErrorCode.NONE:
            return code
        key = partition, marker.producer_id
        values = self.open.pop(key, [])
        if values:
            assert marker.producer_epoch > self.epochs[key], "a marker that a log would not take"
        self.epochs[key] = marker.producer_epoch
        for value in values:
            self.verdicts.setdefault(value, []).append(marker.transaction_result)
        return code


class Application:
    """Writes one value a transaction into two partitions, prepares, has an outer database decide, and ends. Every producer may die at
    every moment; the next one finds out from the database what is to become of what it finds.
    """

    def __init__(self, world: TwoPhaseWorld, name: str, rng: random.Random, values: Any) -> None:
        self.world, self.name, self.rng, self.values = world, name, rng, values
        self.prepared: tuple[int, int] | None = None
        """In the database: which transaction was prepared."""
        self.value = -1
        self.decision: bool | None = None
        self.decided: dict[int, bool] = {}
        """Value -> the database's word."""
        self.former: list[tuple[int, int]] = []
        self.die()

    def die(self) -> None:
        self.who: tuple[int, int] | None = None
        self.to_end: bool | None = None
        self.written: set[TopicPartition] = set()

    def step(self) -> None:
        try:
            self._step()
        except KafkaError as error:
            fatal = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE)
            if error.code in fatal:
                self.die()
        except TimeoutError:
            pass
        if self.rng.random() < 0.12:
            if self.who is not None:
                self.former.append(self.who)
            self.die()

    def _step(self) -> None:
        if self.who is None:
            self._initialize()
        elif self.to_end is not None:
            self._end(self.to_end)
        elif len(self.written) < 2:
            self._write()
        else:
            self.prepared, self.decision = self.who, None
            self.decision = self.to_end = self.decided[self.value] = self.rng.random() < 0.7

    def _initialize(self) -> None:
        asked = self.world.coordinator.initialize(self.name, -1, None, two_phase=True, keep_prepared=True)
        found = cast(Transaction, self._maybe_lose(asked))
        self.who, self.written = found.owner, set()
        if found.kept:
            self.to_end = bool(self.decision) if pair(found) == self.prepared else False
        else:
            self.prepared = self.to_end = None

    def _write(self) -> None:
        assert self.who is not None
        if not self.written:
            self.value, self.decision, self.prepared = next(self.values), None, None
        partition = P1 if P0 in self.written else P0
        self._maybe_lose(self.world.coordinator.add_partitions(self.name, *self.who, [partition], 2))
        leaders = cast(Partitions, self.world.leaders)
        if not leaders.write(partition, self.who, self.value):
            raise KafkaError(ErrorCode.PRODUCER_FENCED, "by the log")
        self.written.add(partition)

    def _end(self, commit: bool) -> None:
        assert self.who is not None
        ended = self.world.coordinator.end(self.name, *self.who, commit=commit, client_version=2)
        self.who = cast("tuple[int, int]", self._maybe_lose(ended))
        self.to_end, self.written = None, set()

    def haunt(self) -> None:
        """A producer that has a successor goes on with whatever it was about to do. It does not ask to begin anew, which it may."""
        if not self.former or self.who is None:
            return
        who = self.rng.choice(self.former)
        coordinator = self.world.coordinator
        try:
            match self.rng.randrange(5):
                case 0 | 1:
                    self.world.ask(coordinator.end(self.name, *who, commit=self.rng.random() < 0.5, client_version=self.rng.choice([0, 2])))
                case 2:
                    self.world.ask(coordinator.add_partitions(self.name, *who, [P0], 2))
                case 3:
                    self.world.ask(coordinator.initialize(self.name, -1, who, two_phase=True, keep_prepared=False))
                case _:
                    self.world.ask(coordinator.initialize(self.name, -1, who, two_phase=True, keep_prepared=True))
        except (KafkaError, TimeoutError):
            return

    def _maybe_lose(self, asked: Deferred[Any]) -> Any:
        self.world.clock.run_due()
        if not asked.done or self.rng.random() < 0.15:
            raise TimeoutError
        return asked.result()


def run(seed: int, steps: int) -> None:
    rng = random.Random(seed)
    world = TwoPhaseWorld(auto_commit=False)
    world.leaders = leaders = Partitions()
    world.coordinator = world.new_coordinator()
    world.load()
    leaders.answer = lambda: rng.choice(["yes", "yes", "yes", "lost", "answer lost", "no leader"])
    values = iter(range(1_000_000))
    applications = [Application(world, name, rng, values) for name in ("a", "b")]
    for _ in range(steps):
        world.log.auto_commit = rng.random() < 0.85
        if world.log.auto_commit:
            world.log.commit(world.log.log_end_offset)
        application = rng.choice(applications)
        application.step()
        chance = rng.random()
        if chance < 0.2:
            world.log.commit(rng.choice(world.log.boundaries()))
        elif chance < 0.23:
            world.log.fail_with = None if world.log.fail_with else ErrorCode.NOT_ENOUGH_REPLICAS
        elif chance < 0.27:
            world.coordinator.close()
            world.log.truncate(rng.choice(world.log.boundaries()))
            world.log.high_watermark = min(world.log.high_watermark, world.log.log_end_offset)
            world.coordinator = world.new_coordinator()
            world.load()
        elif chance < 0.35:
            application.haunt()
        elif chance < 0.37:
            world.clock.advance_s(20)
            world.coordinator.abort_timed_out()
        world.clock.advance_s(0.05)
    leaders.answer = lambda: "yes"
    world.log.fail_with, world.log.auto_commit = None, True
    for application in applications:
        application.rng = random.Random(1)
        application.rng.random = lambda: 0.5  # type: ignore[method-assign]
        application.die()
        for _ in range(40):
            world.log.commit(world.log.log_end_offset)
            application.step()
            world.log.commit(world.log.log_end_offset)
            world.clock.advance_s(1)
            if application.who is not None and application.to_end is None and not application.written:
                break
        else:
            raise AssertionError("a transaction cannot be ended")
    assert not any(leaders.open.values())
    decided = {value: word for application in applications for value, word in application.decided.items()}
    assert decided, "the test itself has come to a standstill"
    for value, verdicts in leaders.verdicts.items():
        assert set(verdicts) == {decided.get(value, False)}, f"value {value}"
    for value, word in decided.items():
        if word:
            assert leaders.verdicts[value] == [True, True], f"value {value} was to be committed in both partitions"


@pytest.mark.parametrize("seed", range(30))
def test_an_outer_coordinators_word_is_kept(seed: int) -> None:
    """What the database says is committed is committed in every partition, nothing else is, whoever dies or comes back."""
    run(seed, 300)


@pytest.mark.parametrize("seed", range(30))
def test_ids_that_are_used_up_all_the_time(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where an id has six epochs."""
    monkeypatch.setattr(step, "MAX_EPOCH", 6)
    monkeypatch.setattr(two_phase, "MAX_EPOCH", 6)
    run(seed, 300)
