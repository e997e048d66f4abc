"""Hostile bytes: mutated messages raise ProtocolError and nothing else, and nothing small becomes large."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from odradek.base.errors import ProtocolError
from odradek.protocol.headers import decode_request_header, decode_response_header
from odradek.protocol.schema import Array, Message, Struct
from odradek.protocol.varint import encode_uvarint
from tests.campaigns import frames
from tests.protocol.generate import all_messages

FRAME = 1 << 20
PEAK_LIMIT = 2 * FRAME + (32 << 20)


def test_mutated_messages_raise_nothing_but_protocol_errors() -> None:
    outcome = frames.run(20_000, seed=7)
    assert outcome.failures == []
    assert outcome.frames == 20_000
    assert 1_000 < outcome.accepted < 15_000  # The mutations neither miss nor destroy everything.


def elements(cls: type[Struct], depth: int = 0) -> Iterator[tuple[list[str], type[Struct] | str]]:
    """The paths to all arrays that lie within structs in arrays, and what they hold."""
    for item in cls.FIELDS:
        if isinstance(item.type, Array):
            element = item.type.element
            inner = cls.struct(element) if isinstance(element, str) else None
            yield [item.name], inner or element.name  # type: ignore[union-attr]
            if inner is not None and depth < 2:
                for path, leaf in elements(inner, depth + 1):
                    yield [item.name, *path], leaf


def amplifier(cls: type[Struct], path: list[str], size: int) -> Struct:
    """A struct whose array at `path` holds as many of the smallest elements as a frame of a megabyte might."""
    item = next(item for item in cls.FIELDS if item.name == path[0])
    assert isinstance(item.type, Array)
    if len(path) > 1:
        assert isinstance(item.type.element, str)
        return cls(**{path[0]: [amplifier(cls.struct(item.type.element), path[1:], size)]})
    if isinstance(item.type.element, str):
        return cls(**{path[0]: [cls.struct(item.type.element)()] * size})
    from odradek.base.ids import ZERO_UUID

    zero = ZERO_UUID if item.type.element.name == "Uuid" else item.type.element.zero
    return cls(**{path[0]: [zero] * size})


@pytest.mark.parametrize("message", [cls for cls in all_messages() if any(elements(cls))], ids=lambda cls: cls.__name__)
def test_arrays_of_tiny_elements_do_not_fill_the_memory(message: type[Message]) -> None:
    version = message.VALID_VERSIONS.high
    for path, _ in elements(message):
        try:
            one = len(amplifier(message, path, 1).encode(version))  # type: ignore[attr-defined]
            two = len(amplifier(message, path, 101).encode(version))  # type: ignore[attr-defined]
        except ProtocolError:
            continue  # The latest version has no such field.
        width = max(1, (two - one) // 100)
        data = amplifier(message, path, FRAME // width).encode(version)  # type: ignore[attr-defined]
        tracemalloc.start()
        try:
            message.decode(data, version)
        except ProtocolError:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < PEAK_LIMIT, (path, peak >> 20)


def test_headers_cut_short_or_mutated_are_refused() -> None:
    whole = b"\0\3\0\x09" + b"\0\0\0\5" + b"\0\2ab" + b"\0"
    assert decode_request_header(whole) == ((3, 9, 5, "ab"), len(whole))
    for cut in range(len(whole)):
        with pytest.raises(ProtocolError):
            decode_request_header(whole[:cut])
    for wrong in (
        b"\0\x5d\0\0" + bytes(8),  # an unknown API
        b"\xff\xff\0\0" + bytes(8),
        b"\0\3\0\x09\0\0\0\5\xff\xfe\0",  # a negative length other than null
        b"\0\3\0\x09\0\0\0\5\0\2\xc3\x28\0",  # not UTF-8
        b"\0\3\0\x09\0\0\0\5\xff\xff" + encode_uvarint(20_000_000),  # CVE-2026-111115
    ):
        with pytest.raises(ProtocolError):
            decode_request_header(wrong)
    assert decode_request_header(b"\0\7\0\0\0\0\0\5") == ((7, 0, 5, None), 8)
    assert decode_response_header(b"\0\0\0\5\0rest", 3, 9) == (5, 5)
    assert decode_response_header(b"\0\0\0\5rest", 18, 4) == (5, 4)
    for cut in range(5):
        with pytest.raises(ProtocolError):
            decode_response_header(b"\0\0\0\5\0"[:cut], 3, 9)
