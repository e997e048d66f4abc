"""Whether the comparison would see a wrong answer beside what it excuses, or among what it takes for equal. Needs no JVM.

`recorded.json` has a pair of answers for each exception, as a run met it (`python -m interop.differential --record
tests/interop/recorded.json`, a second time with what `Excepted.elsewhere` names after --set). Our side is changed a little, one value at a
time, and each change must be complained about.
"""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from interop.differential.batches import batch, patched
from interop.differential.compare import (
    BY_NATURE,
    MISSING,
    MOMENTS,
    PRESENT_ONLY,
    UNORDERED,
    Difference,
    Excepted,
    Named,
    Plain,
    differences,
    which,
)
from interop.differential.document import PAGE, written
from interop.differential.exceptions import API_KEYS_TO_COME, EXCEPTIONS
from interop.differential.peer import CLOSED, SILENT, Peer
from interop.differential.record import Recorded, key_of, read
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.messages.metadata import MetadataResponse
from odradek.protocol.registry import response_class
from odradek.protocol.schema import Array, Struct
from odradek.records.batch import encode_batch

RECORDED = read(Path(__file__).with_name("recorded.json"))

Changed = tuple[str, Any]
"""Where a value was changed, and the answer with the change."""


def changed(value: Any, path: str = "", *, coarse: bool = False) -> Iterator[Changed]:
    """Every answer that is one small change away; `coarse`: a number or some bytes change beyond any bound."""
    if isinstance(value, dict):
        for key, inner in value.items():
            where = f"{path}[{key}]" if isinstance(value, Named) else f"{path}.{key}" if path else key
            for place, other in changed(inner, where, coarse=coarse):
                yield place, type(value)({**value, key: other})
        if isinstance(value, Named):
            for key in value:
                yield f"{path}[{key}]", Named({each: inner for each, inner in value.items() if each != key})
            yield f"{path}[nobody asked]", Named({**value, "nobody asked": {}})
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            for place, other in changed(inner, f"{path}[{index}]", coarse=coarse):
                yield place, [*value[:index], other, *value[index + 1 :]]
        yield path, [*value, "one more"]
        if value:
            yield path, value[:-1]
    else:
        for other in _other_values(value, coarse=coarse):
            yield path, other


def _other_values(value: Any, *, coarse: bool) -> list[Any]:
    if value in (CLOSED, SILENT):
        return [SILENT if value == CLOSED else CLOSED]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [each for each in (0, value // 2, value * 2 + 1000) if each != value] if coarse else [value - 1, value + 1]
    if isinstance(value, bytes):
        return [each for each in ((b"", value * 2 + bytes(40)) if coarse else (value[:-1], value + b"\0")) if each != value]
    return ["x"] if value is None else [f"{value}x"]


def bounded(label: str, path: str) -> bool:
    """Whether a number at this place may differ within a bound."""
    return any(e.together is not None and re.fullmatch(e.case, label) and re.fullmatch(e.path, path) for e in EXCEPTIONS)


def unexplained(label: str, ours: Any, theirs: Any) -> list[Difference]:
    return [difference for difference in differences(ours, theirs) if which(EXCEPTIONS, label, difference) is None]


def our_answers_nearby(pair: Recorded) -> Iterator[Changed]:
    """Our answer with one change: a value changed, a missing one added, or an answer where there was none."""
    for place, other in changed(pair.ours):
        if not bounded(pair.label, place):
            yield place, other
    for place, other in changed(pair.ours, coarse=True):
        if bounded(pair.label, place):
            yield place, other
    for difference in differences(pair.ours, pair.theirs):
        if difference.ours == MISSING or difference.path == "":
            for place, other in changed(difference.theirs):
                yield f"{difference.path}{place}", _with(pair.ours, difference.path, other)


def _with(answer: Any, path: str, value: Any) -> Any:
    """The answer with a value where it had none."""
    if not path:
        return value
    steps = [step.strip("[].") for step in re.findall(r"\[[^]]+\]|[^.\[\]]+", path)]
    answer = copy.deepcopy(answer)
    inner = answer
    for step in steps[:-1]:
        inner = inner[int(step)] if isinstance(inner, list) else inner[step]
    inner[steps[-1]] = value
    return answer


@pytest.mark.parametrize("entry", EXCEPTIONS, ids=key_of)
def test_what_is_beside_an_exception_is_seen(entry: Excepted) -> None:
    pair = RECORDED[key_of(entry)]
    assert unexplained(pair.label, pair.ours, pair.theirs) == []
    met = [difference for difference in differences(pair.ours, pair.theirs) if entry.covers(pair.label, difference)]
    assert met, "the exception excuses nothing in the answers that were recorded for it"
    excused = {difference.path for difference in differences(pair.ours, pair.theirs)}
    tried = 0
    for place, wrong in our_answers_nearby(pair):
        left = {difference.path for difference in differences(wrong, pair.theirs)}
        if left < excused:
            continue  # nearer to JVM Kafka than our answer was
        tried += 1
        assert unexplained(pair.label, wrong, pair.theirs), f"{place}: nobody would see {wrong!r:.300}"
    assert tried


@pytest.mark.parametrize("entry", [e for e in EXCEPTIONS if e.together is None], ids=key_of)
def test_an_exception_knows_the_value_of_jvm_kafka_too(entry: Excepted) -> None:
    pair = RECORDED[key_of(entry)]
    for difference in differences(pair.ours, pair.theirs):
        if not entry.covers(pair.label, difference) or (difference.ours == CLOSED and isinstance(difference.theirs, dict)):
            continue  # what JVM Kafka answers to bytes that we refuse is compared once more, with what they are meant to be
        for place, other in changed(difference.theirs):
            if other != difference.ours and place != "api_key":  # by which the entry was found
                assert not entry.covers(pair.label, difference._replace(theirs=other)), f"{place}: {other!r:.300}"


def test_there_is_a_pair_for_each_exception_and_no_other() -> None:
    assert RECORDED.keys() == {key_of(entry) for entry in EXCEPTIONS}
    assert len({key_of(entry) for entry in EXCEPTIONS}) == len(EXCEPTIONS)


# -- what is taken for equal --------------------------------------------------------------------------------------------------------------

OURS, THEIRS = Peer("ours", 9001, {"9001": "(port)", "/a": "(folder)"}), Peer("theirs", 9002, {"9002": "(port)", "/b": "(folder)"})
KNOWN = UUID(int=5)
THEIRS.names[KNOWN] = OURS.names[UUID(int=6)] = "id of a topic"


def structs(api_key: ApiKey) -> list[type[Struct]]:
    message = response_class(api_key)
    return [message, *(value for value in vars(message).values() if isinstance(value, type) and issubclass(value, Struct))]


def compared(api_key: ApiKey, ours: Any, theirs: Any) -> list[Difference]:
    return list(differences(Plain(OURS, api_key).value(ours), Plain(THEIRS, api_key).value(theirs)))


def lists_named(api_key: ApiKey, field: str) -> Iterator[tuple[type[Struct], type[Struct]]]:
    """(what has the list, what the entries are)"""
    for struct in structs(api_key):
        for item in struct.FIELDS:
            if item.name == field and isinstance(item.type, Array):
                yield struct, getattr(response_class(api_key), str(item.type.element))


@pytest.mark.parametrize(("api_key", "field"), UNORDERED, ids=lambda value: getattr(value, "name", value))
def test_a_list_without_order_has_the_same_entries_all_the_same(api_key: ApiKey, field: str) -> None:
    holders = list(lists_named(api_key, field))
    assert holders
    for holder, element in holders:
        names = UNORDERED[api_key, field]
        identity = next(item for item in element.FIELDS if item.name in names)
        values = (1, 2) if isinstance(getattr(element(), identity.name), int) else ("a", "b")
        if isinstance(getattr(element(), identity.name), UUID):
            values = (KNOWN, UUID(int=0))

        def entry(value: Any, holder: Any = element, name: str = identity.name) -> Any:
            return holder(**{name: value})

        here = [entry(UUID(int=6) if value == KNOWN else value) for value in values]
        there = [entry(value) for value in values]
        assert compared(api_key, holder(**{field: here}), holder(**{field: there[::-1]})) == []
        assert compared(api_key, holder(**{field: here[:1]}), holder(**{field: there})), "an entry that is missing"
        assert compared(api_key, holder(**{field: [*here, here[0]]}), holder(**{field: there})), "an entry that stands twice"
        for item in element.FIELDS:
            wrong = entry(here[0].__getattribute__(identity.name))
            default = getattr(wrong, item.name)
            if item.name != identity.name and isinstance(default, int) and not isinstance(default, bool) and item.name != "producer_id":
                setattr(wrong, item.name, default + 77)
                assert compared(api_key, holder(**{field: [wrong, here[1]]}), holder(**{field: there[::-1]})), item.name


def test_lists_keep_their_order_where_nobody_says_otherwise() -> None:
    brokers = [MetadataResponse.MetadataResponseBroker(node_id=node) for node in (1, 2)]
    assert compared(ApiKey.METADATA, MetadataResponse(brokers=brokers), MetadataResponse(brokers=brokers[::-1]))


@pytest.mark.parametrize(("api_key", "field"), [(api, field) for api, fields in BY_NATURE.items() for field in sorted(fields)])
def test_numbers_that_cannot_be_equal_have_their_sign_in_common(api_key: ApiKey, field: str) -> None:
    holders = [struct for struct in structs(api_key) if any(item.name == field for item in struct.FIELDS)]
    assert holders
    for holder in holders:
        assert compared(api_key, holder(**{field: 7}), holder(**{field: 9})) == []
        assert compared(api_key, holder(**{field: -1}), holder(**{field: 9}))
        assert compared(api_key, holder(**{field: 9}), holder(**{field: -1}))


@pytest.mark.parametrize("field", sorted(MOMENTS))
def test_moments_are_now_or_equal(field: str) -> None:
    now = int(time.time() * 1000)
    ours, theirs = Plain(OURS, None), Plain(THEIRS, None)
    assert ours.value(now - 5, field) == theirs.value(now - 5_000, field)
    for wrong in (-1, 0, now - 3_600_000, now + 60_000, now // 1000):
        assert ours.value(wrong, field) != theirs.value(now, field)
        assert ours.value(wrong, field) == theirs.value(wrong, field)


@pytest.mark.parametrize("field", sorted(PRESENT_ONLY))
def test_sentences_are_there_empty_or_null_on_both_sides(field: str) -> None:
    ours, theirs = Plain(OURS, None), Plain(THEIRS, None)
    assert ours.value("It is so.", field) == theirs.value("So it is.", field)
    assert len({repr(ours.value(text, field)) for text in ("a", "", None)}) == 3


def test_ids_ports_and_folders_are_each_brokers_own_and_no_other() -> None:
    ours, theirs = Plain(OURS, ApiKey.METADATA), Plain(THEIRS, ApiKey.METADATA)
    assert ours.value(9001, "port") == theirs.value(9002, "port") == "(port)"
    assert ours.value(9002, "port") != theirs.value(9002, "port")
    assert ours.value(UUID(int=6)) == theirs.value(KNOWN) != theirs.value(UUID(int=0))
    assert ours.value(KNOWN) != theirs.value(KNOWN)
    assert ours.value("/a/x") == theirs.value("/b/x") != theirs.value("/a/x")
    member = "differential-01234567-0123-0123-0123-0123456789ab"
    assert ours.value(member) == theirs.value(member.replace("7", "9")) != theirs.value(f"{member}0")


def test_numbers_that_a_broker_hands_out() -> None:
    ours, theirs = Plain(OURS, None), Plain(THEIRS, None)
    assert ours.value(3, "session_id") == theirs.value(4, "session_id") != theirs.value(0, "session_id")
    assert ours.value(3, "producer_id") == theirs.value(4, "producer_id") != theirs.value(-1, "producer_id")
    assert ours.value(4_000_001, "producer_id") != theirs.value(4_000_002, "producer_id")
    OURS.names["producer", 8] = "producer of a"
    assert ours.value(8, "producer_id") != theirs.value(8, "producer_id")


# -- records ------------------------------------------------------------------------------------------------------------------------------


def stored(data: bytes) -> Any:
    return Plain(OURS, ApiKey.FETCH).value(data, "records")


@pytest.mark.parametrize(
    ("offset", "form", "value"),
    [
        (0, ">q", 7),
        (12, ">i", 3),
        (21, ">h", 16),
        (23, ">i", 9),
        (27, ">q", 5),
        (35, ">q", 5),
        (43, ">q", 4_000_001),
        (51, ">h", 1),
        (53, ">i", 4),
    ],
)
def test_every_field_of_a_batch_counts(offset: int, form: str, value: int) -> None:
    assert list(differences(stored(batch()), stored(patched(batch(), offset, form, value))))


def test_what_is_in_a_batch_and_after_it_counts() -> None:
    good = stored(batch())
    for other in (batch(value=b"other"), batch(key=b"other"), batch(4), batch() + batch(), batch() + batch()[:40], b""):
        assert list(differences(good, stored(other)))
    assert [d.path for d in differences(good, stored(patched(batch(), 17, ">I", 1, fix_crc=False)))] == ["batches[0].crc"]


def test_times_of_the_brokers_clock_are_now() -> None:
    def stamped(time_ms: int) -> Any:
        return stored(bytes(encode_batch([(time_ms, b"k", b"v", ())], timestamp_type=1)))

    now = int(time.time() * 1000)
    assert list(differences(stamped(now), stamped(now - 2_000))) == []
    assert {d.path for d in differences(stamped(now), stamped(-1))} >= {"batches[0].base_timestamp", "batches[0].content[0].timestamp"}


def test_the_page_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page), "run: python -m interop.differential.document"
    assert all(f"`{API_INFO[key].name}`" in page for key in API_KEYS_TO_COME)
    assert all(entry.why in page for entry in EXCEPTIONS)
