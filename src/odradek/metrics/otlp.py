"""Outermost layer of OpenTelemetry metrics (opentelemetry.proto.metrics.v1.MetricsData) as bytes; inner layers are not parsed.

    MetricsData { repeated ResourceMetrics resource_metrics = 1; }
    ResourceMetrics { Resource resource = 1; ... }
    Resource { repeated KeyValue attributes = 1; }        KeyValue { string key = 1; AnyValue value = 2; }     AnyValue { string = 1 }

Protocol Buffers merge a message that occurs twice in a singular field, and concatenate its lists. Therefore a second resource, appended to
the existing one, adds labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

_FIRST_AS_BYTES: Final = 0x0A
"""Tag of field 1 with wire type 2 (length-delimited)."""
_SECOND_AS_BYTES: Final = 0x12
_LONGEST_VARINT: Final = 5


def labelled(metrics: memoryview | bytes, labels: Mapping[str, str]) -> bytes:
    """Return the metrics with these labels added to each resource. Raises ValueError for malformed MetricsData."""
    resource = _field(_FIRST_AS_BYTES, b"".join(_attribute(key, value) for key, value in labels.items()))
    return b"".join(_field(_FIRST_AS_BYTES, bytes(each) + resource) for each in _resources(memoryview(metrics)))


def _resources(data: memoryview) -> Iterator[memoryview]:
    position = 0
    while position < len(data):
        if data[position] != _FIRST_AS_BYTES:
            raise ValueError("a field that MetricsData does not have")
        size, position = _varint(data, position + 1)
        if size > len(data) - position:
            raise ValueError("a truncated resource")
        yield data[position : position + size]
        position += size


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(data[position : position + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise ValueError("a length without an end")


def _field(tag: int, content: bytes) -> bytes:
    size = len(content)
    encoded = bytearray([tag])
    while size >= 0x80:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    encoded.append(size)
    return bytes(encoded) + content


def _attribute(key: str, value: str) -> bytes:
    text = _field(_FIRST_AS_BYTES, value.encode("utf-8", "replace"))
    return _field(_FIRST_AS_BYTES, _field(_FIRST_AS_BYTES, key.encode()) + _field(_SECOND_AS_BYTES, text))
