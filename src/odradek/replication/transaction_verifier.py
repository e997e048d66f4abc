"""Questions of leaders to transaction coordinators: whether partitions are in a transaction, or requests to add them (KIP-890).

Questions that arise while a request to their coordinator is under way are sent with the next request, so that many producers share a
request. Partitions of a producer with transaction version 2 are added with its first records. While the producer's last transaction is
still ending, the coordinator answers CONCURRENT_TRANSACTIONS; the request is repeated for a short time before the producer gets that error.
(org.apache.kafka.server.transaction.AddPartitionsToTxnManager)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.base.ids import TopicPartition
from odradek.base.timing import PerNode
from odradek.metrics.histogram import Histogram
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest

if TYPE_CHECKING:
    from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
    from odradek.protocol.schema import Message
    from odradek.replication.verification import Again, Support

Codes = Mapping[TopicPartition, ErrorCode]

_VERSION = 5
_PER_REQUEST = 1_000
"""Transactions in one request."""


class CoordinatorHere(Protocol):
    """Transactions that this broker coordinates."""

    node_id: int

    def ask(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition], *, verify_only: bool
    ) -> Deferred[Codes | ErrorCode]:
        """Return a code for each partition, or one code for all: whether it is in the transaction or, without `verify_only`, has been
        added.

        Never fails.
        """
        ...


class Send(Protocol):
    """Sender of the inter-broker channel."""

    def __call__(self, node: int, request: AddPartitionsToTxnRequest, version: int, /) -> Deferred[Message]: ...


class _Question:
    __slots__ = ("answer", "partitions", "producer_epoch", "producer_id", "support", "transactional_id")

    def __init__(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition], support: Support
    ):
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.partitions = partitions
        self.support = support
        self.answer: Deferred[Codes] = Deferred()

    def fail(self, code: ErrorCode) -> None:
        self.answer.complete(dict.fromkeys(self.partitions, code))


class ChannelVerifier:
    """A `replication.verification.TransactionVerifier`. Times are in milliseconds."""

    def __init__(
        self,
        clock: Clock,
        send: Send,
        coordinator_of: Callable[[str], int | None],
        *,
        retry_ms: Callable[[], int],
        retry_max_ms: Callable[[], int],
        here: CoordinatorHere | None = None,
    ) -> None:
        """`coordinator_of` returns the coordinator's node of a transactional id, None when it is unknown. Without `here` this broker's own
        coordinator is asked through the channel, too.
        """
        self._clock = clock
        self._send = send
        self._coordinator_of = coordinator_of
        self._retry_ms = retry_ms
        self._retry_max_ms = retry_max_ms
        self._here = here
        self._requests: PerNode[str, _Question, Message] = PerNode(clock, self._request, self._answered, most=_PER_REQUEST)
        self.failures = 0
        """Number of partitions that a coordinator has refused, or could not be asked about."""
        self.times_ms = Histogram()

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        support: Support,
        again: Again | None = None,
    ) -> Deferred[Codes]:
        """Return the partitions that may not be written, with the reason. Never fails."""
        question = _Question(transactional_id, producer_id, producer_epoch, partitions, support)
        begun = self._clock.monotonic()
        question.answer.add_callback(lambda done: self._count(begun, done))
        if again is None:
            return self._ask(question)
        result: Deferred[Codes] = Deferred()
        deadline = self._clock.monotonic() + self._retry_max_ms() / 1000

        def answered(done: Deferred[Codes]) -> None:
            codes = done.result()
            if ErrorCode.CONCURRENT_TRANSACTIONS in codes.values() and self._clock.monotonic() < deadline:
                self._clock.call_later(self._retry_ms() / 1000, ask_again)
            else:
                result.complete(codes)

        def ask_again() -> None:
            named = again()
            if not named:
                result.complete({})
                return
            self._ask(_Question(transactional_id, producer_id, producer_epoch, named, support)).add_callback(answered)

        self._ask(question).add_callback(answered)
        return result

    def _count(self, begun: float, done: Deferred[Codes]) -> None:
        now = self._clock.monotonic()
        self.times_ms.record((now - begun) * 1000, now)
        self.failures += len(done.result())

    def _ask(self, question: _Question) -> Deferred[Codes]:
        node = self._coordinator_of(question.transactional_id)
        if node is None:
            question.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return question.answer
        if self._here is not None and node == self._here.node_id:
            self._ask_here(self._here, question)
            return question.answer
        queue = self._requests.waiting(node)
        waiting = queue.get(question.transactional_id)
        if waiting is not None:
            if waiting.producer_epoch > question.producer_epoch:
                question.fail(ErrorCode.INVALID_PRODUCER_EPOCH)
                return question.answer
            # A repeated request of the same producer, or a request of its successor, replaces the waiting question, which fails.
            same = waiting.producer_epoch == question.producer_epoch
            waiting.fail(ErrorCode.NETWORK_EXCEPTION if same else ErrorCode.INVALID_PRODUCER_EPOCH)
            del queue[question.transactional_id]
        self._requests.put(node, question.transactional_id, question)
        return question.answer

    def _ask_here(self, here: CoordinatorHere, question: _Question) -> None:
        def answered(done: Deferred[Codes | ErrorCode]) -> None:
            codes = done.result()
            if isinstance(codes, ErrorCode):
                codes = {} if codes is ErrorCode.NONE else dict.fromkeys(question.partitions, codes)
            refused = {partition: code for partition, code in codes.items() if code is not ErrorCode.NONE}
            question.answer.complete({partition: _for_producer(code, question.support) for partition, code in refused.items()})

        here.ask(
            question.transactional_id,
            question.producer_id,
            question.producer_epoch,
            question.partitions,
            verify_only=not question.support.adds,
        ).add_callback(answered)

    def _request(self, node: int, batch: dict[str, _Question]) -> Deferred[Message]:
        request = AddPartitionsToTxnRequest(transactions=[_transaction(question) for question in batch.values()])
        return self._send(node, request, _VERSION)

    def _answered(self, node: int, batch: Mapping[str, _Question], done: Deferred[Message]) -> None:
        if done.error is not None:
            unsupported = isinstance(done.error, KafkaError) and done.error.code is ErrorCode.UNSUPPORTED_VERSION
            for question in batch.values():
                if unsupported and not question.support.adds:
                    # A coordinator from before KIP-890 cannot verify: its producers write unverified, as they did then.
                    question.answer.complete({})
                else:
                    question.fail(ErrorCode.NETWORK_EXCEPTION)
        else:
            response = cast("AddPartitionsToTxnResponse", done.result())
            if response.error_code:
                refused = response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                for question in batch.values():
                    question.fail(ErrorCode.INVALID_TXN_STATE if refused else code_of(response.error_code))
            for result in response.results_by_transaction:
                found = batch.get(result.transactional_id)
                if found is not None:
                    found.answer.complete(
                        {
                            TopicPartition(topic.name, each.partition_index): _for_producer(
                                code_of(each.partition_error_code), found.support
                            )
                            for topic in result.topic_results
                            for each in topic.results_by_partition
                            if each.partition_error_code
                        }
                    )
            for question in batch.values():
                question.fail(ErrorCode.UNKNOWN_SERVER_ERROR)  # no effect, unless the response left out the question


def _transaction(question: _Question) -> AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for topic, partition in question.partitions:
        topics.setdefault(topic, []).append(partition)
    return AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.producer_epoch,
        verify_only=not question.support.adds,
        topics=[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()],
    )


def _for_producer(code: ErrorCode, support: Support) -> ErrorCode:
    """Return the code that producers with `support` know."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not support.knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
