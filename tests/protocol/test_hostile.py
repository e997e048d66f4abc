"""Hostile bytes: mutated messages raise ProtocolError and nothing else, and nothing small becomes large."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from odradek.base.errors import ProtocolError
from odradek.protocol.errors import InvalidMessageError, UnsupportedVersionError
from odradek.protocol.headers import decode_request_header, decode_response_header
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.schema import BYTES_PER_OBJECT, FREE_OBJECTS, Array, Message, Struct
from odradek.protocol.varint import encode_uvarint
from tests.campaigns import frames
from tests.protocol.generate import all_messages

FRAME = 1 << 20
PEAK_LIMIT = 2 * FRAME + (32 << 20)
SAMPLE = 500


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
            if inner is not None and depth < 1:
                for path, leaf in elements(inner, depth + 1):
                    yield [item.name, *path], leaf


def amplifier(cls: type[Struct], path: list[str], size: int) -> Struct:
    """A struct whose array at `path` holds `size` of the smallest elements."""
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
    allowed = FREE_OBJECTS + FRAME // BYTES_PER_OBJECT
    for path, element in elements(message):
        if isinstance(element, str):
            continue  # Empty texts and small numbers are shared objects.
        try:
            small = amplifier(message, path, 1).encode(version)  # type: ignore[attr-defined]
            large = amplifier(message, path, SAMPLE).encode(version)  # type: ignore[attr-defined]
        except (UnsupportedVersionError, InvalidMessageError):
            continue  # The latest version has no such field, or a null elsewhere is not allowed.
        if len(small) == len(large):
            continue  # An ignorable field that the latest version lacks.
        message.decode(small, version)
        tracemalloc.start()
        message.decode(large, version)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        elements_in_frame = FRAME * (SAMPLE - 1) // (len(large) - len(small))
        if elements_in_frame <= allowed:
            assert elements_in_frame * peak / SAMPLE < PEAK_LIMIT, (path, peak / SAMPLE)


def test_more_tiny_elements_than_the_size_of_the_message_allows_are_refused() -> None:
    topics = [MetadataRequest.MetadataRequestTopic(name="")] * (2 * FREE_OBJECTS)
    MetadataRequest.decode(MetadataRequest(topics=topics[:FREE_OBJECTS]).encode(9), 9)
    with pytest.raises(ProtocolError, match="objects"):
        MetadataRequest.decode(MetadataRequest(topics=topics).encode(9), 9)


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
