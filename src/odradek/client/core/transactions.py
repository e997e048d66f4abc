"""A producer's transactions: what may be done when, and what the answers of coordinators mean (KIP-98, KIP-360, KIP-447, KIP-890, KIP-1050;
org.apache.kafka.clients.producer.internals.TransactionManager).

    uninitialized -> initializing -> ready -> in transaction -> committing -> ready
                                      ^            |   |              |
                                      |            |   v              v
                                      +- aborting <+- abortable error-+        any -> fatal error
                                                                  committing -> prepared (somebody else ends it)

- Under transaction version 1 the coordinator is told of every partition before its first batch. Under version 2 (`implicit`) the leader of
  the partition tells it, and every end of a transaction gives the producer its next epoch.
- After an abortable error nothing more is sent, and the application has to abort; after a fatal one it has to close the producer.
- When it is not known whether a batch was written, the sequence of its partition has a gap. The epoch that comes with the next transaction
  begins anew at 0: version 2 has it in any case, version 1 asks for it after the abort (`needs_epoch`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition


class TransactionError(KafkaError):
    """A transaction that cannot be committed. `abortable`: abort it, and begin anew; otherwise the producer is of no more use: close it."""

    def __init__(self, code: ErrorCode, message: str | None = None, *, abortable: bool) -> None:
        super().__init__(code, message)
        self.abortable = abortable

    def __reduce__(self) -> tuple[object, ...]:
        return _transaction_error, (self.code, self.message, self.abortable)


def _transaction_error(code: ErrorCode, message: str | None, abortable: bool) -> TransactionError:
    return TransactionError(code, message, abortable=abortable)


class TransactionAborted(OdradekError):
    """The outcome of a record that was not sent, because its transaction was aborted."""


class IllegalTransactionState(OdradekError):
    """A call that has no place here: the text says where the producer is."""


class PreparedTransaction(NamedTuple):
    """A transaction whose records are all written and that waits for its end; whoever has this can commit or abort it
    (`Admin.end_transactions`). It can be stored and sent to other processes.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    transaction_version: int
    """2 where every end of a transaction gives the producer its next epoch (KIP-890), else 1."""


class State(Enum):
    """Where the producer is."""

    UNINITIALIZED = "init_transactions was not called"
    INITIALIZING = "init_transactions is under way"
    READY = "no transaction has begun"
    IN_TRANSACTION = "a transaction is under way"
    COMMITTING = "the transaction is being committed"
    PREPARED = "the transaction is prepared, and ended by whoever it was handed to"
    ABORTING = "the transaction is being aborted"
    ABORTABLE = "the transaction has failed and must be aborted"
    FATAL = "the producer has failed and must be closed"


class Verdict(Enum):
    """What an answer of a coordinator means."""

    DONE = 0
    AGAIN = 1
    """After a pause."""
    SOON = 2
    """After a short one: the transaction before is about to end."""
    MOVED = 3
    """The coordinator has to be found again."""
    ABORTABLE = 4
    FATAL = 5


_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
_AGAIN = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION})
_ABORTABLE = frozenset({ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.UNKNOWN_PRODUCER_ID})
_ABORTABLE_OF_PARTITIONS = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OPERATION_NOT_ATTEMPTED})
_ABORTABLE_OF_OFFSETS = frozenset(
    {
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    }
)
_FATAL_OF_BATCHES = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


def judge(code: ErrorCode) -> Verdict:
    """Of InitProducerId and EndTxn."""
    if code is ErrorCode.NONE:
        return Verdict.DONE
    if code in _MOVED:
        return Verdict.MOVED
    if code is ErrorCode.CONCURRENT_TRANSACTIONS:
        return Verdict.SOON
    if code in _AGAIN:
        return Verdict.AGAIN
    return Verdict.ABORTABLE if code in _ABORTABLE else Verdict.FATAL


def judge_partition(code: ErrorCode) -> Verdict:
    """Of a partition in AddPartitionsToTxn."""
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return Verdict.AGAIN
    return Verdict.ABORTABLE if code in _ABORTABLE_OF_PARTITIONS else judge(code)


def judge_offsets(code: ErrorCode) -> Verdict:
    """Of AddOffsetsToTxn, and of a partition in TxnOffsetCommit."""
    if code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNSTABLE_OFFSET_COMMIT):
        return Verdict.AGAIN
    if code is ErrorCode.REQUEST_TIMED_OUT:
        return Verdict.MOVED
    return Verdict.ABORTABLE if code in _ABORTABLE_OF_OFFSETS else judge(code)


class Transactions:
    """The state of one transactional producer; guarded by the producer's lock."""

    __slots__ = ("_added", "_wanted", "error", "implicit", "needs_epoch", "started", "state", "transactional_id")

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = State.UNINITIALIZED
        self.error: TransactionError | None = None
        """Why the state is ABORTABLE or FATAL."""
        self.implicit = False
        """Whether transaction version 2 is in force."""
        self.needs_epoch = False
        self.started = False
        """Whether the coordinator has to hear of the end. Version 1 knows exactly, and has no end of what has not begun."""
        self._added: set[TopicPartition] = set()
        self._wanted: set[TopicPartition] = set()

    # -- what the application does ----------------------------------------------------------------------------------------------------

    def initialize(self) -> None:
        """Before InitProducerId."""
        self._must_be(State.UNINITIALIZED, what="init_transactions")
        self.state = State.INITIALIZING

    def begin(self, *, implicit: bool) -> None:
        """A transaction begins, without a word to anybody."""
        self._must_be(State.READY, what="begin_transaction")
        self.state = State.IN_TRANSACTION
        self.implicit = implicit
        self.started = self.needs_epoch = False

    def take(self) -> None:
        """Something is to become part of the transaction."""
        if self.state is not State.IN_TRANSACTION:
            self._must_be(State.IN_TRANSACTION, what="sending")
        if self.implicit:
            # A leader may tell the coordinator from now on.
            self.started = True

    def commit(self) -> None:
        """The transaction is complete; what waits is sent yet."""
        self._must_be(State.IN_TRANSACTION, what="commit_transaction")
        self.state = State.COMMITTING

    def prepare(self) -> None:
        """What waited was sent, and somebody else ends the transaction."""
        self._must_be(State.COMMITTING, what="prepare_transaction")
        self.state = State.PREPARED

    def abort(self) -> None:
        """Nothing more of the transaction is sent."""
        if self.state is not State.ABORTABLE:
            self._must_be(State.IN_TRANSACTION, what="abort_transaction")
        self.state = State.ABORTING

    def _must_be(self, state: State, *, what: str) -> None:
        if self.state is state:
            return
        if self.error is not None:
            raise self.error
        raise IllegalTransactionState(f"{what}: {self.state.value} (transactional.id {self.transactional_id})")

    # -- partitions -------------------------------------------------------------------------------------------------------------------

    @property
    def is_sending(self) -> bool:
        """Whether batches go out."""
        return self.state in (State.IN_TRANSACTION, State.COMMITTING)

    def admits(self, partition: TopicPartition) -> bool:
        """Whether a batch of the partition may go on the wire now; otherwise it is wanted in the transaction."""
        if not self.is_sending:
            return False
        if self.implicit or partition in self._added:
            return True
        self._wanted.add(partition)
        return False

    @property
    def wanted(self) -> list[TopicPartition]:
        """The partitions that the coordinator is to be told of."""
        return sorted(self._wanted) if self.is_sending else []

    def added(self, partitions: Iterable[TopicPartition]) -> None:
        """The coordinator knows of them."""
        self.started = True
        self._added.update(partitions)
        self._wanted.difference_update(partitions)

    # -- outcomes -----------------------------------------------------------------------------------------------------------------------

    def batch_failed(self, error: BaseException, *, certain: bool) -> None:
        """A batch was given up; `certain`: the broker does not have it, and nothing after it depends on it."""
        if not certain:
            self.needs_epoch = True
        if self.is_sending:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
            self.fail(code, str(error), abortable=code not in _FATAL_OF_BATCHES)

    def fail(self, code: ErrorCode, message: str, *, abortable: bool) -> TransactionError:
        """The transaction, or with `abortable` False the producer, has failed; the error that the application gets from now on."""
        if self.state is State.FATAL:
            assert self.error is not None
            return self.error
        if code in _FENCED and not abortable:
            code = ErrorCode.PRODUCER_FENCED
            message = f"another producer with transactional.id {self.transactional_id} has taken over"
        # Before and after a transaction there is nothing to abort.
        abortable = abortable and self.state not in (State.UNINITIALIZED, State.INITIALIZING, State.READY)
        self.error = TransactionError(code, message, abortable=abortable)
        self.state = State.ABORTABLE if abortable else State.FATAL
        return self.error

    def end(self) -> None:
        """The producer has its id and epoch, and no transaction is open."""
        self.state = State.READY
        self.error = None
        self.started = self.needs_epoch = False
        self._added.clear()
        self._wanted.clear()
