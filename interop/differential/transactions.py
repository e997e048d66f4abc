"""Cases of the transaction coordinator. Every case has transactional ids of its own, made by its `before`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from interop.differential.batches import batch
from interop.differential.case import Case
from interop.differential.groups import UNKNOWN_ID, call
from interop.differential.peer import Peer
from interop.waiting import eventually, until
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.messages.produce import ProduceRequest

LOADING = frozenset({14, 15, 16})
CONCURRENT_TRANSACTIONS = 51
TIMEOUT_MS = 900_000
"""transaction.max.timeout.ms: nothing is aborted by itself."""
DATA = "transactional"
"""A topic of three partitions."""

Producer = tuple[int, int]
"""(producer id, epoch)"""
Partitions = dict[str, tuple[int, ...]]
Before = Callable[[Peer, str], object]

known_producers: dict[tuple[str, str], Producer] = {}
"""(broker, transactional id) -> its producer as the broker said last."""


def fill_transactions(peer: Peer) -> None:
    """The topic, and a coordinator for every transactional id."""
    peer.create_topic(DATA, 3)
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])

    def found() -> bool:
        return not peer.call(ApiKey.FIND_COORDINATOR, 4, request).coordinators[0].error_code

    until(found, f"a transaction coordinator of {peer.name}", 60)
    for number in range(100):
        initialized(peer, f"warm-{number}")
    until(lambda: not peer.call(ApiKey.LIST_TRANSACTIONS, 0, ListTransactionsRequest()).error_code, f"{peer.name} to load transactions", 60)


# -- what happens before a case ----------------------------------------------------------------------------------------------------------


def initialized(peer: Peer, transactional_id: str, **options: Any) -> Producer:
    """A producer with this transactional id."""
    request = InitProducerIdRequest(**({"transactional_id": transactional_id, "transaction_timeout_ms": TIMEOUT_MS} | options))

    def attempt() -> Any:
        answer = call(peer, ApiKey.INIT_PRODUCER_ID, 4, request)
        return None if answer.error_code == CONCURRENT_TRANSACTIONS else answer

    answer = eventually(attempt, f"{peer.name} to end the transaction of {transactional_id}", 30)
    assert answer.error_code == 0, (peer.name, answer)
    return remembered(peer, transactional_id, answer)


def remembered(peer: Peer, transactional_id: str, answer: Any) -> Producer:
    peer.names.setdefault(("producer", answer.producer_id), f"producer of {transactional_id}")
    known_producers[(peer.name, transactional_id)] = answer.producer_id, answer.producer_epoch
    return answer.producer_id, answer.producer_epoch


def producer_of(peer: Peer, transactional_id: str) -> Producer:
    return known_producers.get((peer.name, transactional_id), (4_999_999_999, 0))


def added(peer: Peer, transactional_id: str, partitions: Partitions | None = None) -> None:
    """An open transaction of a producer that goes by transaction version 0."""
    producer_id, epoch = initialized(peer, transactional_id)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=_topics(partitions or {DATA: (0,)}),
    )
    answer = peer.call(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
    codes = [each.partition_error_code for topic in answer.results_by_topic_v3_and_below for each in topic.results_by_partition]
    assert not any(codes), (peer.name, answer)


def written(peer: Peer, transactional_id: str, topic: str = DATA) -> None:
    """An open transaction of a producer that goes by transaction version 2, with a batch in partition 0."""
    producer_id, epoch = initialized(peer, transactional_id)
    request = transactional_produce(peer, 12, transactional_id, {0: data_batch(producer_id, epoch, 0)}, topic)
    answer = peer.call(ApiKey.PRODUCE, 12, request)
    assert answer.responses[0].partition_responses[0].error_code == 0, (peer.name, answer)


def ended(peer: Peer, transactional_id: str, *, commit: bool, version: int) -> None:
    """The open transaction is ended, and its markers are written."""
    producer_id, epoch = producer_of(peer, transactional_id)
    request = EndTxnRequest(transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=commit)
    answer = peer.call(ApiKey.END_TXN, version, request)
    assert answer.error_code == 0, (peer.name, answer)
    if version >= 5:
        remembered(peer, transactional_id, answer)
    settled(peer, transactional_id)


def settled(peer: Peer, transactional_id: str) -> None:
    """Waits until the id is in no state that passes by itself."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

    def stays() -> bool:
        state = peer.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, request).transaction_states[0].transaction_state
        return not state.startswith("Prepare")

    until(stays, f"{peer.name} to complete the transaction of {transactional_id}", 30)


def all_settled(peer: Peer) -> None:
    request = ListTransactionsRequest(state_filters=["PrepareCommit", "PrepareAbort", "PrepareEpochFence"])
    until(lambda: not peer.call(ApiKey.LIST_TRANSACTIONS, 0, request).transaction_states, f"{peer.name} to complete all transactions", 30)


def committed_0(peer: Peer, transactional_id: str) -> None:
    added(peer, transactional_id)
    ended(peer, transactional_id, commit=True, version=4)


def aborted_0(peer: Peer, transactional_id: str) -> None:
    added(peer, transactional_id)
    ended(peer, transactional_id, commit=False, version=4)


def committed_2(peer: Peer, transactional_id: str) -> None:
    written(peer, transactional_id)
    ended(peer, transactional_id, commit=True, version=5)


def aborted_2(peer: Peer, transactional_id: str) -> None:
    written(peer, transactional_id)
    ended(peer, transactional_id, commit=False, version=5)


def aborted_empty_2(peer: Peer, transactional_id: str) -> None:
    initialized(peer, transactional_id)
    ended(peer, transactional_id, commit=False, version=5)


STATES: dict[str, Before] = {
    "initialized": initialized,
    "ongoing": added,
    "ongoing with records": written,
    "committed": committed_0,
    "aborted": aborted_0,
    "committed by version 2": committed_2,
    "aborted by version 2": aborted_2,
    "aborted without a partition": aborted_empty_2,
}


def _topics(partitions: Partitions) -> list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]:
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    return [topic(name=name, partitions=list(numbers)) for name, numbers in partitions.items()]


def data_batch(producer_id: int, epoch: int, sequence: int, *, count: int = 2, transactional: bool = True) -> bytes:
    return batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional)


def transactional_produce(
    peer: Peer, version: int, transactional_id: str | None, records: dict[int, bytes], topic: str = DATA, *, acks: int = -1
) -> ProduceRequest:
    named = {"topic_id": peer.topic_ids.get(topic, UNKNOWN_ID)} if version >= 13 else {"name": topic}
    data = [ProduceRequest.PartitionProduceData(index=number, records=content) for number, content in records.items()]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=5_000,
        topic_data=[ProduceRequest.TopicProduceData(partition_data=data, **named)],
    )


class Cases:
    """The cases of one API in one version; `build` gets the peer, the case's transactional id and its producer."""

    def __init__(self, api_key: ApiKey, version: int) -> None:
        self.api_key, self.version = api_key, version

    def case(
        self,
        name: str,
        before: Before | None,
        build: Callable[[Peer, str, Producer], Any],
        *,
        transactional_id: str | None = None,
        after: Callable[[Peer, Any], None] | None = None,
        **options: Any,
    ) -> Case:
        own = f"{self.api_key.name.lower()}-{self.version}-{name.replace(' ', '-')}" if transactional_id is None else transactional_id
        return Case(
            self.api_key,
            self.version,
            name,
            lambda peer: build(peer, own, producer_of(peer, own)),
            before=None if before is None else lambda peer: _ignore(before(peer, own)),
            after=after,
            **options,
        )

    def id_of(self, name: str) -> str:
        return f"{self.api_key.name.lower()}-{self.version}-{name.replace(' ', '-')}"


def _ignore(_: object) -> None:
    """A `before` gives nothing."""


# -- APIs ----------------------------------------------------------------------------------------------------------------------------------


def initialize(version: int) -> Iterator[Case]:
    """InitProducerId with transactional ids; the idempotent cases stand in `cases`."""
    cases = Cases(ApiKey.INIT_PRODUCER_ID, version)

    def case(
        name: str,
        before: Before | None = None,
        go_on: Callable[[Producer], Producer] | None = None,
        *,
        transactional_id: str | None = None,
        **options: Any,
    ) -> Case:
        def build(peer: Peer, own: str, producer: Producer) -> InitProducerIdRequest:
            values: dict[str, Any] = {"transactional_id": own, "transaction_timeout_ms": 60_000}
            if go_on is not None:
                values["producer_id"], values["producer_epoch"] = go_on(producer)
            return InitProducerIdRequest(**(values | options))

        def after(peer: Peer, answer: Any) -> None:
            if answer.error_code == 0:
                remembered(peer, transactional_id if transactional_id is not None else cases.id_of(name), answer)

        return cases.case(name, before, build, transactional_id=transactional_id, after=after)

    yield case("new id")
    yield case("no timeout", transaction_timeout_ms=0)
    yield case("negative timeout", transaction_timeout_ms=-1)
    yield case("longest timeout", transaction_timeout_ms=900_000)
    yield case("timeout too long", transaction_timeout_ms=900_001)
    yield case("empty id and bad timeout", transactional_id="", transaction_timeout_ms=0)
    for state, before in STATES.items():
        yield case(f"again, {state}", before)
        if version >= 3:
            yield case(f"goes on, {state}", before, lambda producer: producer)
            yield case(
                f"goes on with the epoch before, {state}", before, lambda producer: (producer[0], producer[1] - 1 if producer[1] else 9)
            )
            yield case(f"goes on with a later epoch, {state}", before, lambda producer: (producer[0], producer[1] + 1))
            yield case(f"goes on with another id, {state}", before, lambda producer: (4_000_000_000, producer[1]))
    if version >= 3:
        yield case("goes on, unknown", None, lambda _: (4_000_000_000, 3))
        yield case("goes on with an id without epoch", initialized, lambda producer: (producer[0], -1))
        yield case("goes on with an epoch without id", initialized, lambda producer: (-1, producer[1]))
        twice = "init-twice"
        yield case("goes on the first time", initialized, lambda producer: (producer[0], 0), transactional_id=f"{twice}-{version}")
        yield case("goes on a second time", None, lambda producer: (producer[0], 0), transactional_id=f"{twice}-{version}")
        yield case("goes on a third time", None, lambda producer: (producer[0], 7), transactional_id=f"{twice}-{version}")
    if version >= 6:
        yield case("two-phase commit", enable2_pc=True)
        yield case("keeps what is prepared", keep_prepared_txn=True)
        for timeout in (0, -1, 2**31 - 1):
            yield case(f"two-phase commit and timeout {timeout}", enable2_pc=True, transaction_timeout_ms=timeout)
            yield case(f"keeps and timeout {timeout}", keep_prepared_txn=True, transaction_timeout_ms=timeout)
        for state, before in STATES.items():
            yield case(f"two-phase commit, {state}", before, enable2_pc=True)
        yield case("keeps, without a name", transactional_id="", keep_prepared_txn=True, enable2_pc=True)


def add_partitions(version: int) -> Iterator[Case]:
    cases = Cases(ApiKey.ADD_PARTITIONS_TO_TXN, version)

    def request_of(own: str, producer: Producer, partitions: Partitions, verify: bool) -> AddPartitionsToTxnRequest:
        if version <= 3:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=own,
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=_topics(partitions),
            )
        return AddPartitionsToTxnRequest(transactions=[transaction_of(own, producer, partitions, verify)])

    def case(
        name: str,
        before: Before | None,
        partitions: Partitions | None = None,
        change: Callable[[Producer], Producer] = lambda producer: producer,
        *,
        verify: bool = False,
        transactional_id: str | None = None,
    ) -> Case:
        wanted = {DATA: (0,)} if partitions is None else partitions

        def build(peer: Peer, own: str, producer: Producer) -> AddPartitionsToTxnRequest:
            return request_of(own, change(producer), wanted, verify)

        return cases.case(name, before, build, transactional_id=transactional_id)

    asks = (False,) if version <= 3 else (False, True)
    for verify in asks:
        way = "verify" if verify else "add"
        yield case(f"{way}, unknown id", None, verify=verify)
        yield case(f"{way}, empty id", None, verify=verify, transactional_id="")
        yield case(f"{way}, unknown topic", initialized, {"nowhere": (0,), DATA: (0,)}, verify=verify)
        yield case(f"{way}, unknown partition", initialized, {DATA: (0, 3, 1)}, verify=verify)
        yield case(f"{way}, unknown partition and empty id", None, {DATA: (3,)}, verify=verify, transactional_id="")
        yield case(f"{way}, internal topic", initialized, {"__consumer_offsets": (0,), DATA: (1,)}, verify=verify)
        yield case(f"{way}, no topics", initialized, {}, verify=verify)
        yield case(f"{way}, no partitions", initialized, {DATA: ()}, verify=verify)
        yield case(f"{way}, a partition twice", initialized, {DATA: (1, 1, 0)}, verify=verify)
        yield case(f"{way}, partly added", added, {DATA: (0, 1, 2), "three": (1,)}, verify=verify)
        for state, before in STATES.items():
            yield case(f"{way}, {state}", before, verify=verify)
            yield case(f"{way}, older epoch, {state}", before, None, lambda p: (p[0], p[1] - 1), verify=verify)
            yield case(f"{way}, later epoch, {state}", before, None, lambda p: (p[0], p[1] + 1), verify=verify)
            yield case(f"{way}, other producer, {state}", before, None, lambda p: (4_000_000_000, p[1]), verify=verify)
    if version >= 4:
        yield cases.case("no transactions", None, lambda *_: AddPartitionsToTxnRequest())
        yield cases.case("several transactions", written, lambda peer, own, p: several(own, p))
        yield cases.case(
            "the same id twice",
            added,
            lambda peer, own, p: AddPartitionsToTxnRequest(
                transactions=[transaction_of(own, p, {DATA: (0,)}, True), transaction_of(own, p, {DATA: (1,)}, True)]
            ),
        )


def several(own: str, producer: Producer) -> AddPartitionsToTxnRequest:
    """Transactions of which some can be found."""
    return AddPartitionsToTxnRequest(
        transactions=[
            transaction_of(own, producer, {DATA: (0, 1)}, True),
            transaction_of("nobody's", producer, {DATA: (0,)}, True),
            transaction_of("nobody's either", producer, {DATA: (0,)}, False),
            transaction_of("an unknown topic", producer, {"nowhere": (0,)}, False),
        ]
    )


def transaction_of(
    transactional_id: str, producer: Producer, partitions: Partitions, verify: bool
) -> AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=verify,
        topics=_topics(partitions),
    )


def add_offsets(version: int) -> Iterator[Case]:
    cases = Cases(ApiKey.ADD_OFFSETS_TO_TXN, version)

    def case(
        name: str,
        before: Before | None,
        change: Callable[[Producer], Producer] = lambda producer: producer,
        *,
        group: str = "g",
        transactional_id: str | None = None,
    ) -> Case:
        def build(peer: Peer, own: str, producer: Producer) -> AddOffsetsToTxnRequest:
            producer_id, epoch = change(producer)
            return AddOffsetsToTxnRequest(transactional_id=own, producer_id=producer_id, producer_epoch=epoch, group_id=group)

        return cases.case(name, before, build, transactional_id=transactional_id)

    yield case("unknown id", None)
    yield case("empty id", None, transactional_id="")
    yield case("empty group", initialized, group="")
    for state, before in STATES.items():
        yield case(state, before)
        yield case(f"older epoch, {state}", before, lambda p: (p[0], p[1] - 1))
        yield case(f"other producer, {state}", before, lambda p: (4_000_000_000, p[1]))


def end_txn(version: int) -> Iterator[Case]:
    cases = Cases(ApiKey.END_TXN, version)

    def case(
        name: str,
        before: Before | None,
        commit: bool,
        change: Callable[[Producer], Producer] = lambda producer: producer,
        *,
        transactional_id: str | None = None,
    ) -> Case:
        def build(peer: Peer, own: str, producer: Producer) -> EndTxnRequest:
            producer_id, epoch = change(producer)
            return EndTxnRequest(transactional_id=own, producer_id=producer_id, producer_epoch=epoch, committed=commit)

        def after(peer: Peer, answer: Any) -> None:
            if transactional_id is None:
                settled(peer, cases.id_of(name))

        return cases.case(name, before, build, transactional_id=transactional_id, after=after)

    for commit in (True, False):
        verb = "commit" if commit else "abort"
        yield case(f"{verb}, unknown id", None, commit)
        yield case(f"{verb}, empty id", None, commit, transactional_id="")
        for state, before in STATES.items():
            yield case(f"{verb}, {state}", before, commit)
            yield case(f"{verb}, older epoch, {state}", before, commit, lambda p: (p[0], p[1] - 1))
            yield case(f"{verb}, later epoch, {state}", before, commit, lambda p: (p[0], p[1] + 1))
            yield case(f"{verb}, other producer, {state}", before, commit, lambda p: (4_000_000_000, p[1]))
            yield described(f"after EndTxn v{version} {verb}, {state}", cases.id_of(f"{verb}, {state}"))


def described(name: str, transactional_id: str) -> Case:
    """What DescribeTransactions says of an id."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    return Case(ApiKey.DESCRIBE_TRANSACTIONS, 0, name, lambda _: request)


def describe_transactions(version: int) -> Iterator[Case]:
    cases = Cases(ApiKey.DESCRIBE_TRANSACTIONS, version)

    def case(name: str, before: Before | None, *transactional_ids: str) -> Case:
        return cases.case(
            name, before, lambda _peer, own, _: DescribeTransactionsRequest(transactional_ids=list(transactional_ids) or [own])
        )

    yield case("unknown", None)
    yield case("empty id", None, "")
    yield case("several", added, cases.id_of("several"), "unknown", "", cases.id_of("several"))
    yield cases.case("nothing", None, lambda *_: DescribeTransactionsRequest())
    for state, before in STATES.items():
        yield case(state, before)
    yield case("many partitions", lambda peer, own: added(peer, own, {DATA: (2, 0, 1), "three": (1,), "plain": (0,)}))


def list_transactions(version: int) -> Iterator[Case]:
    cases = Cases(ApiKey.LIST_TRANSACTIONS, version)

    def case(name: str, **options: Any) -> Case:
        return cases.case(name, lambda peer, _: all_settled(peer), lambda *_: ListTransactionsRequest(**options))

    def setup(peer: Peer, own: str) -> None:
        for name, before in STATES.items():
            before(peer, f"listed-{version}-{name.replace(' ', '-')}")
        all_settled(peer)

    yield cases.case("all", setup, lambda *_: ListTransactionsRequest())
    for state in ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence", "empty", "Lost", ""):
        yield case(f"in state {state}", state_filters=[state])
    yield case("in two states", state_filters=["Empty", "Ongoing", "Lost"])
    yield case("of an unknown producer", producer_id_filters=[4_000_000_000])
    yield case("of a negative producer", producer_id_filters=[-1])
    yield cases.case(
        "of a producer",
        None,
        lambda peer, _own, _p: ListTransactionsRequest(producer_id_filters=[producer_of(peer, f"listed-{version}-ongoing")[0]]),
    )
    yield cases.case(
        "of a producer in a state",
        None,
        lambda peer, _own, _p: ListTransactionsRequest(
            producer_id_filters=[producer_of(peer, f"listed-{version}-ongoing")[0]], state_filters=["Empty"]
        ),
    )
    if version >= 1:
        yield case("for 0 ms", duration_filter=0)
        yield case("for an hour", duration_filter=3_600_000)
        yield case("for -5 ms", duration_filter=-5)
        yield case("for 0 ms and open", duration_filter=0, state_filters=["Ongoing"])
    if version >= 2:
        for pattern in (
            "",
            ".*",
            "warm-1.*",
            "warm",
            "^warm-2$",
            "(warm-3|listed-2-.*)",
            "[",
            "(?=x)",
            "*",
            r"\d+",
            r"warm-\d",
            "(?i)WARM-1",
            "warm-[1-3]|x",
        ):
            yield case(f"named {pattern!r}", transactional_id_pattern=pattern)
        yield case("named and in a state", transactional_id_pattern="listed-2-.*", state_filters=["Ongoing"])
