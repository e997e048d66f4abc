"""Hashes of keys, partitions, odds of partitions and standard serializers of our clients are those of Java's clients."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interop.tools import JvmTools
from odradek.client.core.partitioner import PartitionLoad, StickyPartitioner, murmur2, odds, partition_for_key
from odradek.client.core.serialization import named_codec

pytestmark = pytest.mark.jvm

_JAVA = "org.apache.kafka.common.serialization."
_FEW = settings(max_examples=20, deadline=None)
"""Each example asks about many things: asking costs more than answering."""

NUMBERS: dict[str, st.SearchStrategy[Any]] = {
    "Short": st.integers(-(2**15), 2**15 - 1),
    "Integer": st.integers(-(2**31), 2**31 - 1),
    "Long": st.integers(-(2**63), 2**63 - 1),
    "Float": st.floats(width=32),
    "Double": st.floats(),
}
OTHERS: dict[str, st.SearchStrategy[Any]] = {
    "Boolean": st.booleans(),
    "UUID": st.uuids(),
    "String": st.text(st.characters(exclude_categories=["Cs"])),
    "Bytes": st.binary(),
    "ByteArray": st.binary(),
    "ByteBuffer": st.binary(),
}


def ask(tools: JvmTools, lines: Sequence[str]) -> list[str]:
    done = tools.run("ClientChoices", stdin="".join(f"{line}\n" for line in lines).encode())
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


def as_text(kind: str, value: Any) -> str:
    if kind in ("Float", "Double"):
        return struct.pack(">f" if kind == "Float" else ">d", value).hex()
    if isinstance(value, str):
        return value.encode().hex()
    return value.hex() if isinstance(value, bytes) else str(value).lower()


@_FEW
@given(st.lists(st.tuples(st.binary(max_size=70), st.integers(1, 2**31 - 1)), min_size=1, max_size=200))
def test_keys_go_where_java_sends_them(jvm_tools: JvmTools, keys: list[tuple[bytes, int]]) -> None:
    answers = ask(jvm_tools, [f"hash {key.hex()} {count}" for key, count in keys])
    assert answers == [f"{murmur2(key)} {partition_for_key(key, count)}" for key, count in keys]


@_FEW
@given(st.lists(st.tuples(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.integers(0, 3)), min_size=1, max_size=50))
def test_short_queues_have_the_odds_of_java(jvm_tools: JvmTools, worlds: list[tuple[list[int], int]]) -> None:
    answers = ask(jvm_tools, [f"odds {','.join(map(str, lengths))} {len(lengths) + gone}" for lengths, gone in worlds])
    for (lengths, gone), answer in zip(worlds, answers, strict=True):
        loads = [PartitionLoad(number, True, length) for number, length in enumerate(lengths)]
        loads += [PartitionLoad(len(lengths) + number, False, 0) for number in range(gone)]
        found = odds(loads)
        assert answer == ("none" if found is None else ",".join(map(str, accumulate(found.values()))))


@_FEW
@given(
    st.lists(
        st.tuples(st.integers(1, 300), st.lists(st.tuples(st.integers(0, 200), st.booleans()), min_size=1, max_size=40)),
        min_size=1,
        max_size=30,
    )
)
def test_the_partition_changes_when_it_does_with_java(jvm_tools: JvmTools, worlds: list[tuple[int, list[tuple[int, bool]]]]) -> None:
    lines = [f"moves {batch} {','.join(f'{size}+' if full else str(size) for size, full in appends)}" for batch, appends in worlds]
    loads = [PartitionLoad(0, True, 0)]
    for (batch, appends), answer in zip(worlds, ask(jvm_tools, lines), strict=True):
        sticky = StickyPartitioner(batch, random.Random(1))
        sticky.move(loads)
        found = ""
        for size, full in appends:
            sticky.took(size)
            over = sticky.is_over(filling=not full)
            if over:
                sticky.move(loads)
            found += "1" if over else "0"
        assert found == answer


@pytest.mark.parametrize("kind", [*NUMBERS, *OTHERS])
def test_standard_serializers_write_and_read_what_java_does(jvm_tools: JvmTools, kind: str) -> None:
    write = named_codec("value.serializer", f"{_JAVA}{kind}Serializer").write
    read = named_codec("value.deserializer", f"{_JAVA}{kind}Deserializer").read or bytes

    @_FEW
    @given(st.lists({**NUMBERS, **OTHERS}[kind], min_size=1, max_size=100))
    def same(values: list[Any]) -> None:
        written = [write(value).hex() for value in values]
        assert ask(jvm_tools, [f"write {kind} {as_text(kind, value)}" for value in values]) == written
        for value, data in zip(values, written, strict=True):
            back = read(bytes.fromhex(data))
            assert back == value or (back != back and value != value)

    same()


@pytest.mark.parametrize("kind", [*NUMBERS, "Boolean", "UUID"])
def test_what_java_does_not_read_is_refused(jvm_tools: JvmTools, kind: str) -> None:
    read = named_codec("value.deserializer", f"{_JAVA}{kind}Deserializer").read
    assert read is not None
    right = {"Short": 2, "Integer": 4, "Long": 8, "Float": 4, "Double": 8, "Boolean": 1, "UUID": 36}[kind]
    data = [bytes([7] * length) for length in (0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 36) if length != right or kind in ("Boolean", "UUID")]
    for each, answer in zip(data, ask(jvm_tools, [f"read {kind} {each.hex()}" for each in data]), strict=True):
        assert answer == "refused"
        with pytest.raises((ValueError, struct.error)):
            read(each)
