"""Checks of an exactly-once campaign. Names of the checks:

exactly-once        a partition of the output is the same partition of the input, transformed, each value once and in order;
input-complete      the input contains the values of the idempotent producer, each once and in order;
aborted-invisible   no read_committed reader sees a record of a transaction with an acknowledged abort;
committed-there     every record of a transaction with an acknowledged commit is read;
not-torn            of a transaction of unknown outcome, all records are read or none;
one-truth           a read_committed reader saw, during the disruptions, exactly the records that exist at the end;
lso-stuck           no last stable offset stays below the high watermark for longer than the transaction timeout and some grace;
goes-back           no last stable offset, high watermark or committed offset decreases; none exceeds its upper bound;
commits-complete    at the end the group's offsets are the ends of the input;
hanging             at the end no transaction is open: last stable offsets are high watermarks, ListTransactions shows only completed
                    transactions, DescribeProducers shows no first offset of a transaction;
history             the findings of the history checker.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.describe_producers import DescribeProducersRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.testing.history import Event, Poll, Send, iterate_history
from odradek.testing.history.anomalies import ALLOWED
from odradek.testing.history.checker import examine
from tests.campaigns.exactly_once_watch import Rows, Watch, reading

ALLOWED_HERE = frozenset(("two-owners", "unexplained-fencing"))
"""Allowed anomalies: a broker that is away, or a busy machine, may cost a member its session. The campaign of rebalances checks that."""
FINISHED = ("Empty", "CompleteCommit", "CompleteAbort")
GRACE_S = 5.0
"""Seconds beyond the transaction's timeout, for the coordinator's timer, markers, a broker's start, and sampling."""


class Stuck(Exception):
    """Campaign that makes no progress."""


def read_all(bootstrap: str, topic: str, partitions: Iterable[int], isolation_level: str) -> dict[int, Rows]:
    """Return all records of a topic that a reader of this isolation level sees. Raises Stuck when the reader does not reach the end."""
    consumer = Consumer(reading(bootstrap, isolation_level))
    found: dict[int, Rows] = {partition: [] for partition in partitions}
    consumer.assign([TopicPartition(topic, each, 0) for each in found])
    unfinished = set(found)
    deadline = time.monotonic() + 30
    while unfinished:
        messages = consumer.consume(10_000, 0.5)
        if messages:
            deadline = time.monotonic() + 30
        for message in messages:
            error = message.error()
            if error is None:
                found[message.partition()].append((message.offset(), message.value().decode()))
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(message.partition())
        if time.monotonic() > deadline:
            raise Stuck(f"{topic} is not read to its end with {isolation_level}: {sorted(unfinished)} are missing")
    consumer.close()
    return found


# -- checks ------------------------------------------------------------------------------------------------------------------------------


def judge(
    watch: Watch, counts: Sequence[int], history: Path, timeout_s: float, partitions_of_topics: Mapping[str, int]
) -> tuple[list[str], dict[str, object]]:
    """Run all checks, when nothing changes any longer. Return the problems, and figures of the run."""
    problems = list(watch.problems)
    given = read_all(watch.bootstrap, watch.input, watch.partitions, "read_committed")
    visible = read_all(watch.bootstrap, watch.output, watch.partitions, "read_committed")
    everything = read_all(watch.bootstrap, watch.output, watch.partitions, "read_uncommitted")
    for partition, count in enumerate(counts):
        wanted = [f"{partition}:{number}" for number in range(count)]
        problems += compare("input-complete", partition, wanted, [(offset, value) for offset, value in given[partition]])
        problems += compare("exactly-once", partition, wanted, [(offset, value.partition("@")[0]) for offset, value in visible[partition]])
        problems += _one_truth(partition, watch.reader.rows[partition], visible[partition])
    outcomes = read_outcomes(history)
    problems += judge_transactions(outcomes, visible)
    hidden = sum(map(len, everything.values())) - sum(map(len, visible.values()))
    longest, partition, offset = watch.longest
    if longest > timeout_s + GRACE_S:
        problems.append(f"lso-stuck: partition {partition} stood at {offset} for {longest:.1f} s, the timeout is {timeout_s:.0f} s")
    ends = dict(enumerate(counts))
    if watch.commits != ends:
        problems.append(f"commits-complete: the group has committed {watch.commits}, the input ends at {ends}")
    problems += hanging(watch, partitions_of_topics)
    problems += checked(watch, history, given, visible)
    return problems, {
        "transactions": dict(Counter(kind for kind, _ in outcomes.values())),
        "operations": watch.checked,
        "records read": sum(map(len, visible.values())),
        "aborted records in the log": hidden,
        "samples of the last stable offset": watch.samples,
        "longest that a last stable offset stood below the high watermark": f"{longest:.2f} s (partition {partition}, offset {offset})",
    }


def compare(name: str, partition: int, wanted: Sequence[str], rows: Rows) -> list[str]:
    """Return one line about missing, duplicate or misplaced values, with offsets, or nothing."""
    found = [value for _, value in rows]
    if found == list(wanted):
        return []
    counts = Counter(found)
    missing = [value for value in wanted if value not in counts]
    twice = [value for value, count in counts.items() if count > 1]
    strange = sorted(set(found) - set(wanted))
    places = [offset for offset, value in rows if value in set(twice[:3])]
    first = next((index for index, pair in enumerate(zip(found, wanted, strict=False)) if pair[0] != pair[1]), min(len(found), len(wanted)))
    return [
        f"{name}: partition {partition}: {len(found)} records instead of {len(wanted)}; {len(missing)} missing, first {missing[:3]}; "
        f"{len(twice)} twice, first {twice[:3]} at {places}; {len(strange)} strange, first {strange[:3]}; the first difference is record "
        f"{first}: {rows[first] if first < len(rows) else 'the end'}"
    ]


def _one_truth(partition: int, seen: Rows, final: Rows) -> list[str]:
    if seen == final:
        return []
    index = next((at for at, pair in enumerate(zip(seen, final, strict=False)) if pair[0] != pair[1]), min(len(seen), len(final)))
    return [
        f"one-truth: partition {partition}: record {index} was {seen[index : index + 3]} during the run and is {final[index : index + 3]}; "
        f"{len(seen)} were read then, {len(final)} now"
    ]


def read_outcomes(history: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the outcome of every transaction and the values that it sent. The outcome is "invoke" when the copier died."""
    outcomes: dict[str, tuple[str, frozenset[str]]] = {}
    for event in iterate_history(history.glob("copier*.jsonl")):
        if event.function == "txn":
            sent = frozenset(str(each.value) for each in event.micro_operations if isinstance(each, Send))
            outcomes[str(event.extra["id"])] = (event.kind, sent)
    return outcomes


def judge_transactions(outcomes: Mapping[str, tuple[str, frozenset[str]]], visible: Mapping[int, Rows]) -> list[str]:
    """Check that records of aborted transactions are invisible, those of committed ones are read, and those of others all or none."""
    problems: list[str] = []
    read: dict[str, set[str]] = {}
    for rows in visible.values():
        for _, value in rows:
            read.setdefault(value.partition("@")[2], set()).add(value)
    for name, (kind, sent) in outcomes.items():
        seen = read.pop(name, set())
        if kind == "fail" and seen:
            problems.append(f"aborted-invisible: {len(seen)} records of {name}, which was aborted, are read, first {min(seen)}")
        elif kind == "ok" and seen != sent:
            problems.append(f"committed-there: {len(sent - seen)} of {len(sent)} records of {name} are not read, first {min(sent - seen)}")
        elif seen and seen != sent:
            problems.append(f"not-torn: {len(seen)} of {len(sent)} records of {name} ({kind}) are read, missing is {min(sent - seen)}")
    problems += [f"not-torn: records of {name} are read, of which no history tells" for name in read]
    return problems


def hanging(watch: Watch, partitions: Mapping[str, int]) -> list[str]:
    """Return the open transactions of the topics, according to the coordinators' lists and the producers of partition leaders."""
    listed = [
        each for answer in watch.brokers.ask(ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest()) for each in answer.transaction_states
    ]
    problems = [f"hanging: ListTransactions: {each}" for each in listed if each.transaction_state not in FINISHED]
    asked = [DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=list(range(count))) for topic, count in partitions.items()]
    unanswered = {(topic, number): "nobody answered" for topic, count in partitions.items() for number in range(count)}
    for answer in watch.brokers.ask(ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest(topics=asked)):
        for topic in answer.topics:
            for partition in topic.partitions:
                place = (topic.name, partition.partition_index)
                if not partition.error_code:
                    unanswered.pop(place, None)
                elif place in unanswered:
                    unanswered[place] = partition.error_message
                for producer in partition.active_producers:
                    if producer.current_txn_start_offset >= 0:
                        problems.append(f"hanging: DescribeProducers: {topic.name}-{partition.partition_index}: {producer}")
    return problems + [f"hanging: DescribeProducers: {topic}-{number}: {why}" for (topic, number), why in unanswered.items()]


def checked(watch: Watch, history: Path, given: Mapping[int, Rows], visible: Mapping[int, Rows]) -> list[str]:
    """Return the findings of the history checker."""
    now = time.monotonic()
    final = [
        Event(now, f"final reader of {topic}-{partition}", "ok", "poll", tuple(Poll(topic, partition, *row) for row in rows))
        for topic, found in ((watch.input, given), (watch.output, visible))
        for partition, rows in found.items()
    ]
    report = examine(iterate_history(history.glob("*.jsonl")), final_read=final, read_committed=True, allow=ALLOWED | ALLOWED_HERE, limit=5)
    watch.checked = dict(report.operations)
    return [f"history: {name}, {report.counts[name]} times" for name in report.counts] + [
        f"history: {str(anomaly)[:2000]}" for anomaly in report.anomalies
    ]
