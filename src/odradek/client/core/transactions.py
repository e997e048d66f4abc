"""Transactions of a producer: calls that each state allows, and the meaning of the coordinators' error codes.

    uninitialized -> initializing -> ready -> in transaction -> committing -> ready
                                      ^            |   |              |
                                      |            |   v              v
                                      +- aborting <+- abortable error-+        any -> fatal error
                                                                  committing -> prepared (somebody else ends it)

- Under transaction version 1 the producer tells the coordinator of every partition before the partition's first batch.
- Under version 2 (`implicit`) the partition's leader tells the coordinator, and every end of a transaction gives the producer its next
  epoch.
- After an abortable error the producer sends nothing, and the application has to abort. After a fatal error it has to close the producer.
- When it is unknown whether a batch was written, the sequence of its partition has a gap. The epoch of the next transaction starts
  sequences at 0 again. Version 2 gets that epoch in any case, version 1 asks for it after the abort (`needs_epoch`).

Source: KIP-98, KIP-360, KIP-447, KIP-890, KIP-1050; org.apache.kafka.clients.producer.internals.TransactionManager.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition


class TransactionError(KafkaError):
    """Error after which the transaction cannot be committed.

    `abortable`: abort the transaction and begin another. Otherwise the producer cannot be used any more: close it.
    """

    def __init__(self, code: ErrorCode, message: str | None = None, *, abortable: bool) -> None:
        super().__init__(code, message)
        self.abortable = abortable

    def __reduce__(self) -> tuple[object, ...]:
        return _transaction_error, (self.code, self.message, self.abortable)


def _transaction_error(code: ErrorCode, message: str | None, abortable: bool) -> TransactionError:
    return TransactionError(code, message, abortable=abortable)


class TransactionAborted(OdradekError):
    """Outcome of a record that was not sent because its transaction was aborted."""


class IllegalTransactionState(OdradekError):
    """Call that the producer's state does not allow; the message names the state."""


class PreparedTransaction(NamedTuple):
    """Transaction whose records are all written and that waits for its end.

    Any holder can commit or abort the transaction (`Admin.end_transactions`). The object can be stored and sent to other processes.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    transaction_version: int
    """2 where every end of a transaction gives the producer its next epoch (KIP-890), else 1."""


class State(Enum):
    """State of the producer."""

    UNINITIALIZED = "init_transactions was not called"
    INITIALIZING = "init_transactions is under way"
    READY = "no transaction has begun"
    IN_TRANSACTION = "a transaction is under way"
    COMMITTING = "the transaction is being committed"
    PREPARED = "the transaction is prepared, and an external coordinator ends it"
    ABORTING = "the transaction is being aborted"
    ABORTABLE = "the transaction has failed and must be aborted"
    FATAL = "the producer has failed and must be closed"


class Verdict(Enum):
    """Meaning of a coordinator's error code."""

    DONE = 0
    AGAIN = 1
    """Retry after a pause."""
    SOON = 2
    """Retry after a short pause: the previous transaction is about to end."""
    MOVED = 3
    """Look up the coordinator again."""
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
    """Return the meaning of an error code of InitProducerId or EndTxn."""
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
    """Return the meaning of a partition's error code in AddPartitionsToTxn."""
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return Verdict.AGAIN
    return Verdict.ABORTABLE if code in _ABORTABLE_OF_PARTITIONS else judge(code)


def judge_offsets(code: ErrorCode) -> Verdict:
    """Return the meaning of an error code of AddOffsetsToTxn, or of a partition's error code in TxnOffsetCommit."""
    if code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNSTABLE_OFFSET_COMMIT):
        return Verdict.AGAIN
    if code is ErrorCode.REQUEST_TIMED_OUT:
        return Verdict.MOVED
    return Verdict.ABORTABLE if code in _ABORTABLE_OF_OFFSETS else judge(code)


class Transactions:
    """State of one transactional producer; guarded by the producer's lock."""

    __slots__ = ("_added", "_wanted", "error", "implicit", "needs_epoch", "started", "state", "transactional_id")

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = State.UNINITIALIZED
        self.error: TransactionError | None = None
        """Reason why the state is ABORTABLE or FATAL."""
        self.implicit = False
        """True when transaction version 2 is in force."""
        self.needs_epoch = False
        self.started = False
        """True when the coordinator has to be told of the end.

        Exact under version 1, where the coordinator cannot end a transaction that has not begun.
        """
        self._added: set[TopicPartition] = set()
        self._wanted: set[TopicPartition] = set()

    # -- calls of the application -----------------------------------------------------------------------------------------------------

    def initialize(self) -> None:
        """Change to INITIALIZING before InitProducerId is sent. Raises IllegalTransactionState in any state but UNINITIALIZED."""
        self._must_be(State.UNINITIALIZED, what="init_transactions")
        self.state = State.INITIALIZING

    def begin(self, *, implicit: bool) -> None:
        """Begin a transaction; no request is sent.

        Raises IllegalTransactionState or the producer's TransactionError unless the state is READY.
        """
        self._must_be(State.READY, what="begin_transaction")
        self.state = State.IN_TRANSACTION
        self.implicit = implicit
        self.started = self.needs_epoch = False

    def take(self) -> None:
        """Check that a record or offsets may join the transaction.

        Raises IllegalTransactionState or the producer's TransactionError unless a transaction is under way.
        """
        if self.state is not State.IN_TRANSACTION:
            self._must_be(State.IN_TRANSACTION, what="sending")
        if self.implicit:
            # From now on a partition leader may tell the coordinator of the transaction.
            self.started = True

    def commit(self) -> None:
        """Change to COMMITTING; waiting batches are still sent. Raises as `take`."""
        self._must_be(State.IN_TRANSACTION, what="commit_transaction")
        self.state = State.COMMITTING

    def prepare(self) -> None:
        """Change to PREPARED after all waiting batches were sent: another process will end the transaction."""
        self._must_be(State.COMMITTING, what="prepare_transaction")
        self.state = State.PREPARED

    def abort(self) -> None:
        """Change to ABORTING: no further batch of the transaction is sent. Raises as `take`, but not in the state ABORTABLE."""
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
        """Return whether batches may be sent."""
        return self.state in (State.IN_TRANSACTION, State.COMMITTING)

    def admits(self, partition: TopicPartition) -> bool:
        """Return whether a batch of the partition may be sent now. If not, note that the partition has to be added to the transaction."""
        if not self.is_sending:
            return False
        if self.implicit or partition in self._added:
            return True
        self._wanted.add(partition)
        return False

    @property
    def wanted(self) -> list[TopicPartition]:
        """Partitions that AddPartitionsToTxn has to add."""
        return sorted(self._wanted) if self.is_sending else []

    def added(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the coordinator has added the partitions to the transaction."""
        self.started = True
        self._added.update(partitions)
        self._wanted.difference_update(partitions)

    # -- outcomes -----------------------------------------------------------------------------------------------------------------------

    def batch_failed(self, error: BaseException, *, certain: bool) -> None:
        """Process the failure of a batch. `certain`: the broker does not have the batch, and no later batch depends on it."""
        if not certain:
            self.needs_epoch = True
        if self.is_sending:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
            self.fail(code, str(error), abortable=code not in _FATAL_OF_BATCHES)

    def fail(self, code: ErrorCode, message: str, *, abortable: bool) -> TransactionError:
        """Fail the transaction, or with `abortable` False the producer. Return the error that the application gets from now on."""
        if self.state is State.FATAL:
            assert self.error is not None
            return self.error
        if code in _FENCED and not abortable:
            code = ErrorCode.PRODUCER_FENCED
            message = f"another producer with transactional.id {self.transactional_id} has taken over"
        # Outside of a transaction there is nothing to abort.
        abortable = abortable and self.state not in (State.UNINITIALIZED, State.INITIALIZING, State.READY)
        self.error = TransactionError(code, message, abortable=abortable)
        self.state = State.ABORTABLE if abortable else State.FATAL
        return self.error

    def end(self) -> None:
        """Change to READY: the producer has its id and epoch, and no transaction is open."""
        self.state = State.READY
        self.error = None
        self.started = self.needs_epoch = False
        self._added.clear()
        self._wanted.clear()
