"""Anomalies that are put into clean histories, which the checker has to find."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TypeAlias

from odradek.testing.history import Assigned, Commit, Event, Poll, Revoked, Send
from odradek.testing.history.events import MicroOperation
from tests.campaigns.history_world import GROUP, copied

Seed: TypeAlias = Callable[["Editor"], bool]
"""Function that changes a history. Returns False when the history has no place for the anomaly."""

Place: TypeAlias = tuple[str, int]


class Editor:
    """History that can be changed."""

    def __init__(self, events: list[Event], seed: int) -> None:
        self.events = list(events)
        self.random = random.Random(seed)

    # -- searches -----------------------------------------------------------------------------------------------------------------------

    def where(self, wanted: Callable[[Event], object]) -> list[int]:
        return [index for index, event in enumerate(self.events) if wanted(event)]

    def one(self, wanted: Callable[[Event], object]) -> int:
        """Return the index of a random matching event, or -1."""
        found = self.where(wanted)
        return self.random.choice(found) if found else -1

    def invocation(self, index: int) -> int:
        """Return the index of the invocation of a completion."""
        event = self.events[index]
        while index >= 0:
            index -= 1
            other = self.events[index]
            if other.process == event.process and other.function == event.function and other.kind == "invoke":
                return index
        raise AssertionError("no invocation")

    def polls(self, place: Place | None = None) -> list[tuple[int, Poll]]:
        """Return all successful polls at read_committed: (index of the event, poll)."""
        return [
            (index, each)
            for index, event in enumerate(self.events)
            if event.kind == "ok" and event.extra.get("isolation") == "read_committed"
            for each in event.micro_operations
            if isinstance(each, Poll) and place in (None, (each.topic, each.partition))
        ]

    def acked(self) -> list[tuple[int, Send]]:
        """Return all successful sends: (index of the event, send)."""
        return [
            (index, each)
            for index, event in enumerate(self.events)
            if event.kind == "ok"
            for each in event.micro_operations
            if isinstance(each, Send)
        ]

    def end(self, place: Place) -> int:
        """Return an offset after all other offsets of a partition."""
        offsets = [
            each.offset
            for event in self.events
            for each in event.micro_operations
            if isinstance(each, Send | Poll) and each.offset is not None and (each.topic, each.partition) == place
        ]
        return max(offsets, default=0) + 1

    # -- changes ------------------------------------------------------------------------------------------------------------------------

    def put(self, index: int, *micro_operations: MicroOperation) -> None:
        self.events[index] = self.events[index]._replace(micro_operations=tuple(micro_operations))

    def swap(self, index: int, old: MicroOperation, *new: MicroOperation) -> None:
        """Replace a micro-operation of an event by others."""
        there = self.events[index].micro_operations
        place = there.index(old)
        self.put(index, *there[:place], *new, *there[place + 1 :])

    def unpoll(self, gone: Callable[[Poll], bool]) -> None:
        """Remove polls from all events."""
        for index, event in enumerate(self.events):
            if any(isinstance(each, Poll) and gone(each) for each in event.micro_operations):
                self.put(index, *(each for each in event.micro_operations if not (isinstance(each, Poll) and gone(each))))

    def finally_polled(self, *polls: Poll) -> None:
        """Add polls to the final read."""
        index = self.where(lambda event: event.extra.get("final") and event.function == "poll")[-1]
        self.put(index, *self.events[index].micro_operations, *polls)

    def insert(self, index: int, *events: Event) -> None:
        self.events[index:index] = events


def _lasting(each: Poll | Send) -> bool:
    return each.topic in ("in", "out")


def inconsistent_offsets(editor: Editor) -> bool:
    index, poll = editor.random.choice([each for each in editor.polls() if _lasting(each[1])])
    other = editor.random.choice([each for _, each in editor.polls((poll.topic, poll.partition)) if each.value != poll.value])
    editor.swap(index, poll, poll._replace(value=other.value))
    return sum(each.offset == poll.offset for _, each in editor.polls((poll.topic, poll.partition))) > 1


def duplicate(editor: Editor) -> bool:
    _, poll = editor.random.choice(editor.polls())
    editor.finally_polled(poll._replace(offset=editor.end((poll.topic, poll.partition))))
    return True


def aborted_read(editor: Editor) -> bool:
    sends = [
        each
        for event in editor.events
        if event.kind == "fail" and event.function in ("send", "txn") and event.process.startswith(("producer", "transactions"))
        for each in event.micro_operations
        if isinstance(each, Send)
    ]
    if not sends:
        return False
    send = editor.random.choice(sends)
    editor.finally_polled(Poll(send.topic, send.partition, editor.end((send.topic, send.partition)), send.value))
    return True


def precommitted_read(editor: Editor) -> bool:
    index = editor.one(
        lambda event: event.function == "txn" and event.kind == "ok" and any(isinstance(e, Send) for e in event.micro_operations)
    )
    event = editor.events[index]
    send = editor.random.choice([each for each in event.micro_operations if isinstance(each, Send)])
    assert send.offset is not None
    editor.put(index, *event.micro_operations, Poll(send.topic, send.partition, send.offset, send.value))
    editor.events[index] = editor.events[index]._replace(extra={**event.extra, "isolation": "read_committed"})
    return True


def lost_write(editor: Editor) -> bool:
    sends = [each for _, each in editor.acked() if _lasting(each) and each.offset is not None]
    tops = {place: max(poll.offset for _, poll in editor.polls(place)) for place in {(each.topic, each.partition) for each in sends}}
    sends = [each for each in sends if each.offset < tops[(each.topic, each.partition)]]
    send = editor.random.choice(sends)
    editor.unpoll(lambda poll: (poll.topic, poll.partition, poll.value) == (send.topic, send.partition, send.value))
    return True


def torn_transaction(editor: Editor) -> bool:
    """Leave unread one record of a transaction of unknown outcome, while a record in another partition is read."""
    read = {poll.value for _, poll in editor.polls()}
    found: list[Send] = []
    for event in editor.events:
        sends = [each for each in event.micro_operations if isinstance(each, Send) and each.value in read]
        if event.function == "txn" and event.kind == "info" and len({each.partition for each in sends}) > 1:
            found += sends
    if not found:
        return False
    send = editor.random.choice(found)
    later = [poll for _, poll in editor.polls((send.topic, send.partition)) if send.offset is not None and poll.offset > send.offset]
    editor.unpoll(lambda poll: (poll.topic, poll.partition, poll.value) == (send.topic, send.partition, send.value))
    return bool(later)


def unseen(editor: Editor) -> bool:
    sends = [each for _, each in editor.acked() if _lasting(each)]
    send = max(sends, key=lambda each: (each.offset or 0, each.topic))
    assert send.offset is not None
    lowest = send.offset
    editor.unpoll(lambda poll: (poll.topic, poll.partition) == (send.topic, send.partition) and poll.offset >= lowest)
    return True


def vanished(editor: Editor) -> bool:
    early = {(poll.topic, poll.partition, poll.value) for index, poll in editor.polls() if not editor.events[index].extra.get("final")}
    finals = [(index, poll) for index, poll in editor.polls() if editor.events[index].extra.get("final") and _lasting(poll)]
    finals = [(index, poll) for index, poll in finals if (poll.topic, poll.partition, poll.value) in early]
    index, poll = editor.random.choice(finals)
    editor.swap(index, poll)
    return True


def phantom(editor: Editor) -> bool:
    place = editor.random.choice([("in", 0), ("out", 1)])
    editor.finally_polled(Poll(*place, editor.end(place), "never sent"))
    return True


def _turns(editor: Editor) -> list[tuple[int, Poll, int, Poll]]:
    """Return neighbouring operations of readers: in a partition, the last poll of one operation and the first poll of the next."""
    found: list[tuple[int, Poll, int, Poll]] = []
    last: dict[tuple[str, str, int], tuple[int, Poll]] = {}
    for index, event in enumerate(editor.events):
        if event.process.startswith(("reader-1", "reader-2", "final")) and event.kind in ("ok", "info"):
            first: dict[tuple[str, str, int], Poll] = {}
            for each in event.micro_operations:
                if isinstance(each, Poll):
                    first.setdefault((event.process, each.topic, each.partition), each)
            for key, poll in first.items():
                if key in last and event.kind == "ok":
                    found.append((*last[key], index, poll))
                last.pop(key, None)
            if event.kind == "ok":
                for each in event.micro_operations:
                    if isinstance(each, Poll):
                        last[(event.process, each.topic, each.partition)] = (index, each)
    return found


def poll_skip(editor: Editor) -> bool:
    found: list[tuple[int, Poll]] = []
    for _, _, index, poll in _turns(editor):
        mine = [each for each in editor.events[index].micro_operations if isinstance(each, Poll) and each.topic == poll.topic]
        if _lasting(poll) and [each.partition for each in mine].count(poll.partition) > 1:
            found.append((index, poll))
    if not found:
        return False
    index, poll = editor.random.choice(found)
    editor.swap(index, poll)
    return any(each.value == poll.value for _, each in editor.polls((poll.topic, poll.partition)))


def nonmonotonic_poll(editor: Editor) -> bool:
    found = _turns(editor)
    if not found:
        return False
    _, last, index, poll = editor.random.choice(found)
    editor.swap(index, poll, last, poll)
    return True


def _triples(editor: Editor) -> list[tuple[int, Poll, Poll, Poll]]:
    found: list[tuple[int, Poll, Poll, Poll]] = []
    for index, event in enumerate(editor.events):
        if event.kind == "ok" and event.extra.get("isolation") == "read_committed" and event.function == "poll":
            polls = [each for each in event.micro_operations if isinstance(each, Poll)]
            for one, two, three in zip(polls, polls[1:], polls[2:], strict=False):
                if _lasting(two) and (one.topic, one.partition) == (two.topic, two.partition) == (three.topic, three.partition):
                    found.append((index, one, two, three))
    return found


def int_poll_skip(editor: Editor) -> bool:
    index, _, middle, _ = editor.random.choice(_triples(editor))
    editor.swap(index, middle)
    return any(each.value == middle.value for _, each in editor.polls((middle.topic, middle.partition)))


def int_nonmonotonic_poll(editor: Editor) -> bool:
    index, one, middle, _ = editor.random.choice(_triples(editor))
    there = [each for each in editor.events[index].micro_operations if each not in (one, middle)]
    editor.put(index, middle, one, *there)
    return True


def _swap_in_log(editor: Editor, one: Send, two: Send) -> None:
    """Exchange the offsets of two sends, as if they had been appended in the other order."""
    places = {one.value: two.offset, two.value: one.offset}
    place = (one.topic, one.partition)
    for index, event in enumerate(editor.events):
        changed = [
            each._replace(offset=places[each.value])
            if isinstance(each, Send | Poll) and (each.topic, each.partition) == place and each.value in places and each.offset is not None
            else each
            for each in event.micro_operations
        ]
        if list(event.micro_operations) != changed:
            polls = [slot for slot, each in enumerate(changed) if isinstance(each, Poll) and (each.topic, each.partition) == place]
            for slot, each in zip(polls, sorted((changed[slot] for slot in polls), key=lambda e: e.offset), strict=True):
                changed[slot] = each
            editor.put(index, *changed)


def int_nonmonotonic_send(editor: Editor) -> bool:
    found: list[tuple[Send, Send]] = []
    for event in editor.events:
        if event.kind == "ok" and event.process.startswith("transactions"):
            sends = [each for each in event.micro_operations if isinstance(each, Send)]
            found += [(one, two) for one, two in pairwise(sends) if one.partition == two.partition]
    if not found:
        return False
    _swap_in_log(editor, *editor.random.choice(found))
    return True


def _successive(editor: Editor) -> list[tuple[int, Send, int, Send]]:
    """Return pairs of successive sends of one producer to one partition."""
    found: list[tuple[int, Send, int, Send]] = []
    last: dict[tuple[str, str, int], tuple[int, Send]] = {}
    for index, send in editor.acked():
        process = editor.events[index].process
        if process.startswith("producer") and send.topic == "in":
            key = (process, send.topic, send.partition)
            if key in last:
                found.append((*last[key], index, send))
            last[key] = (index, send)
    return found


def nonmonotonic_send(editor: Editor) -> bool:
    found = _successive(editor)
    if not found:
        return False
    _, one, _, two = editor.random.choice(found)
    _swap_in_log(editor, one, two)
    return True


def acked_offset_regression(editor: Editor) -> bool:
    return nonmonotonic_send(editor)


def _transactional_sends(editor: Editor) -> list[tuple[int, Send]]:
    return [(index, send) for index, send in editor.acked() if editor.events[index].function == "txn" and send.offset is not None]


def _add_poll(editor: Editor, index: int, send: Send) -> None:
    assert send.offset is not None
    event = editor.events[index]
    editor.events[index] = event._replace(
        micro_operations=(*event.micro_operations, Poll(send.topic, send.partition, send.offset, send.value)),
        extra={**event.extra, "isolation": "read_committed"},
    )


def read_cycle(editor: Editor) -> bool:
    sends = _transactional_sends(editor)
    one, first = editor.random.choice(sends)
    rest = [(index, send) for index, send in sends if index != one]
    two, second = editor.random.choice(rest)
    _add_poll(editor, one, second)
    _add_poll(editor, two, first)
    return True


def _reads_of_transactions(editor: Editor) -> list[tuple[int, int]]:
    """Return transactions without reads, with the operations that read them."""
    writers = {
        (send.topic, send.partition, send.value): index
        for index, send in _transactional_sends(editor)
        if editor.events[index].process.startswith("transactions")
    }
    found = {(writers.get((poll.topic, poll.partition, poll.value), -1), index) for index, poll in editor.polls()}
    return sorted((writer, reader) for writer, reader in found if 0 <= writer < reader)


def read_cycle_by_process(editor: Editor) -> bool:
    """Make a cycle: R reads T, then R's process does S, and T reads S."""
    reads = _reads_of_transactions(editor)
    found = [
        (writer, index, send)
        for writer, reader in reads
        for index, send in _transactional_sends(editor)
        if editor.events[index].process == editor.events[reader].process and editor.invocation(index) > reader
        if (writer, index) not in reads
    ]
    if not found:
        return False
    writer, _, send = editor.random.choice(found)
    _add_poll(editor, writer, send)
    return True


def read_cycle_by_time(editor: Editor) -> bool:
    """Make a cycle: R reads T, S begins after R's end, and T reads S."""
    found = [
        (writer, send)
        for writer, reader in _reads_of_transactions(editor)
        for index, send in _transactional_sends(editor)
        if index > reader and editor.invocation(index) > reader and editor.events[index].process.startswith("transactions")
        if editor.events[index].process != editor.events[writer].process
    ]
    if not found:
        return False
    writer, send = editor.random.choice(found)
    _add_poll(editor, writer, send)
    return True


def watermark_regression(editor: Editor) -> bool:
    found = editor.where(lambda event: event.kind == "ok" and event.function == "poll" and "watermarks" in event.extra)
    index = editor.random.choice(found[len(found) // 2 :])
    event = editor.events[index]
    samples: list[list[int | str]] = [list(each) for each in event.extra["watermarks"]]
    sample = editor.random.choice(samples)
    sample[2:] = [0, 1, 0]
    editor.events[index] = event._replace(extra={**event.extra, "watermarks": samples})
    began = editor.invocation(index)
    return any(each.extra.get("watermarks") for each in editor.events[:began]) and any(
        other[0] == sample[0] and other[1] == sample[1] and int(other[3]) > 1
        for each in editor.events[:began]
        if each.kind == "ok"
        for other in each.extra.get("watermarks", ())
    )


def watermark_order(editor: Editor) -> bool:
    index = editor.one(lambda event: event.kind == "ok" and event.function == "poll" and "watermarks" in event.extra)
    event = editor.events[index]
    samples: list[list[int]] = [list(each) for each in event.extra["watermarks"]]
    sample = editor.random.choice(samples)
    sample[4] = sample[3] + 1
    editor.events[index] = event._replace(extra={**event.extra, "watermarks": samples})
    return True


def unavailable(editor: Editor) -> bool:
    """Stop the cluster for 100 seconds in the middle of a send."""
    index = editor.one(lambda event: event.kind == "ok" and event.function == "send")
    editor.events[index:] = [event._replace(time=event.time + 100) for event in editor.events[index:]]
    return True


def _output(editor: Editor) -> Poll:
    found = [poll for index, poll in editor.polls() if poll.topic == "out" and editor.events[index].extra.get("final")]
    return editor.random.choice(found)


def not_copied(editor: Editor) -> bool:
    value = _output(editor).value
    editor.unpoll(lambda poll: poll.topic == "out" and poll.value == value)
    for index, event in enumerate(editor.events):
        kept = [each for each in event.micro_operations if not (isinstance(each, Send) and each.value == value)]
        if len(kept) < len(event.micro_operations):
            editor.put(index, *kept)
    return True


def copied_twice(editor: Editor) -> bool:
    poll = _output(editor)
    place = ("out", editor.random.choice((0, 1)))
    editor.finally_polled(Poll(*place, editor.end(place), poll.value))
    return True


def copied_from_nothing(editor: Editor) -> bool:
    editor.finally_polled(Poll("out", 0, editor.end(("out", 0)), copied("nothing")))
    return True


def copy_order(editor: Editor) -> bool:
    polls = [poll for index, poll in editor.polls(("out", 0)) if editor.events[index].extra.get("final")]
    if len(polls) < 2:
        return False
    place = editor.random.randrange(len(polls) - 1)
    one, two = polls[place], polls[place + 1]
    _swap_in_log(editor, Send(*one), Send(*two))
    return True


def _commits(editor: Editor, kind: str = "ok") -> list[tuple[int, Commit]]:
    return [
        (index, each)
        for index, event in enumerate(editor.events)
        if event.kind == kind
        for each in event.micro_operations
        if isinstance(each, Commit)
    ]


def commit_regression(editor: Editor) -> bool:
    found = _commits(editor)
    index, commit = editor.random.choice(found)
    began = editor.invocation(index)
    before = [each.offset for other, each in found if other < began and each.partition == commit.partition]
    if not before or max(before) == 0:
        return False
    editor.swap(index, commit, commit._replace(offset=editor.random.randrange(max(before))))
    return True


def lost_commit(editor: Editor) -> bool:
    index = editor.one(lambda event: event.process == "admin" and event.kind == "ok")
    acked = [commit for _, commit in _commits(editor) if commit.offset > 0]
    commit = editor.random.choice(acked)
    lower = [GROUP, "in", commit.partition, editor.random.choice((commit.offset - 1, None))]
    editor.events[index] = editor.events[index]._replace(extra={"committed": [lower]})
    return True


def fenced_commit_accepted(editor: Editor) -> bool:
    """Acknowledge a commit of a member that was removed from its group while it was paused."""
    found: list[int] = []
    for index, commit in _commits(editor, "fail"):
        event = editor.events[index]
        if event.function == "commit":
            began = editor.invocation(index)
            generation = editor.events[began].extra["generation"]
            for other in editor.events[:began]:
                given = [
                    each
                    for each in other.micro_operations
                    if isinstance(each, Assigned) and each.group and each.partition == commit.partition
                ]
                if other.process != event.process and any(each.generation > generation for each in given):
                    found.append(index)
    if not found:
        return False
    index = editor.random.choice(found)
    editor.events[index] = editor.events[index]._replace(kind="ok", extra={})
    return True


def _moves(editor: Editor) -> list[tuple[int, int, Revoked]]:
    """Return partitions that one member gives up in order, with the event that gives them to the next member."""
    found: list[tuple[int, int, Revoked]] = []
    for index, event in enumerate(editor.events):
        for each in event.micro_operations:
            if isinstance(each, Revoked) and not event.extra.get("lost"):
                for later in range(index + 1, len(editor.events)):
                    other = editor.events[later]
                    if any(isinstance(one, Assigned) and one[:3] == each[:3] for one in other.micro_operations):
                        if other.process != event.process and other.extra.get("static") != event.extra.get("static", ""):
                            found.append((index, later, each))
                        break
    struck = {event.extra.get("process") for event in editor.events if event.function == "crash"}
    return [(index, later, each) for index, later, each in found if editor.events[index].process not in struck]


def two_owners(editor: Editor) -> bool:
    """Let a member give up a partition only after another member has it."""
    found = _moves(editor)
    if not found:
        return False
    index, later, revoked = editor.random.choice(found)
    event, time = editor.events[index], editor.events[later].time
    editor.swap(index, revoked)
    editor.insert(later + 1, event._replace(time=time, micro_operations=(revoked,)))
    return True


def never_gives_up(editor: Editor) -> bool:
    """Never let a member give up a partition that another member gets."""
    found = _moves(editor)
    if not found:
        return False
    index, _, revoked = editor.random.choice(found)
    editor.swap(index, revoked)
    return True


def two_owners_in_generation(editor: Editor) -> bool:
    given = [
        (index, each)
        for index, event in enumerate(editor.events)
        for each in event.micro_operations
        if isinstance(each, Assigned) and each.group is not None
    ]
    found = [
        (other, two, one)
        for place, (index, one) in enumerate(given)
        for other, two in given[place + 1 :]
        if one.partition == two.partition and _member(editor.events[index]) != _member(editor.events[other])
    ]
    if not found:
        return False
    index, two, one = editor.random.choice(found)
    editor.swap(index, two, two._replace(generation=one.generation))
    return True


def _member(event: Event) -> object:
    return event.extra.get("static", event.process)


def generation_regression(editor: Editor) -> bool:
    last: dict[object, int] = {}
    found: list[tuple[int, Assigned]] = []
    for index, event in enumerate(editor.events):
        for each in event.micro_operations:
            if isinstance(each, Assigned) and each.generation is not None:
                if last.get(_member(event), each.generation) < each.generation:
                    found.append((index, each))
                last[_member(event)] = each.generation
    if not found:
        return False
    index, assigned = editor.random.choice(found)
    editor.swap(index, assigned, assigned._replace(generation=0))
    return True


def _static_returns(editor: Editor) -> list[tuple[int, int]]:
    """Return kills of a static member with the event that returns its partitions, if no other member changes the group in between."""
    found: list[tuple[int, int]] = []
    instances = {event.process: event.extra["static"] for event in editor.events if "static" in event.extra}
    for index, event in enumerate(editor.events):
        name = instances.get(str(event.extra.get("process")))
        if event.function == "crash" and name is not None:
            for later in range(index + 1, len(editor.events)):
                other = editor.events[later]
                if other.extra.get("static") == name and other.function == "rebalance":
                    if any(isinstance(each, Assigned) for each in other.micro_operations):
                        found.append((index, later))
                    break
                if other.function in ("crash", "rebalance", "subscribe") and other.extra.get("static") != name:
                    break
    return found


def static_rebalance(editor: Editor) -> bool:
    found = _static_returns(editor)
    if not found:
        return False
    _, index = editor.random.choice(found)
    event = editor.events[index]
    generation = event.extra["generation"]
    assert isinstance(generation, int)
    raised = [each._replace(generation=generation + 1) for each in event.micro_operations if isinstance(each, Assigned)]
    editor.events[index] = event._replace(micro_operations=tuple(raised), extra={**event.extra, "generation": generation + 1})
    return True


def unexplained_fencing(editor: Editor) -> bool:
    struck = {event.extra.get("process") for event in editor.events if event.function == "crash"}
    index = editor.one(
        lambda event: (
            event.function == "rebalance"
            and event.process not in struck
            and "static" not in event.extra
            and any(isinstance(each, Revoked) for each in event.micro_operations)
        )
    )
    if index < 0:
        return False
    event = editor.events[index]
    editor.events[index] = event._replace(extra={**event.extra, "lost": True})
    return True


SEEDS: Mapping[str, tuple[str, Seed]] = {
    function.__name__: (name, function)
    for name, function in (
        ("inconsistent-offsets", inconsistent_offsets),
        ("duplicate", duplicate),
        ("G1a", aborted_read),
        ("precommitted-read", precommitted_read),
        ("lost-write", lost_write),
        ("lost-write", torn_transaction),
        ("unseen", unseen),
        ("vanished", vanished),
        ("phantom", phantom),
        ("poll-skip", poll_skip),
        ("nonmonotonic-poll", nonmonotonic_poll),
        ("int-poll-skip", int_poll_skip),
        ("int-nonmonotonic-poll", int_nonmonotonic_poll),
        ("nonmonotonic-send", nonmonotonic_send),
        ("int-nonmonotonic-send", int_nonmonotonic_send),
        ("G1c", read_cycle),
        ("G1c-process", read_cycle_by_process),
        ("G1c-realtime", read_cycle_by_time),
        ("acked-offset-regression", acked_offset_regression),
        ("watermark-regression", watermark_regression),
        ("watermark-order", watermark_order),
        ("unavailable", unavailable),
        ("not-copied", not_copied),
        ("copied-twice", copied_twice),
        ("copied-from-nothing", copied_from_nothing),
        ("copy-order", copy_order),
        ("commit-regression", commit_regression),
        ("lost-commit", lost_commit),
        ("fenced-commit-accepted", fenced_commit_accepted),
        ("two-owners", two_owners),
        ("two-owners", never_gives_up),
        ("two-owners-in-generation", two_owners_in_generation),
        ("generation-regression", generation_regression),
        ("static-rebalance", static_rebalance),
        ("unexplained-fencing", unexplained_fencing),
    )
}
"""Name of the function -> (its anomaly, the function)."""
