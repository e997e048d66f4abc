"""JSON lines for records: kcat's envelope, which `consume -J` writes and `produce -J` reads back without loss.

Bytes that are not UTF-8 are written in base64. The list "base64" names such members: "key", "payload", or "headers[N]", where N is an index
in the flat list of names and values. kcat has no such list.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, NamedTuple, cast

from odradek.base.errors import OdradekError
from odradek.cli.records.console_reader import Line
from odradek.client.types import ConsumerRecord


class Decoded(NamedTuple):
    """Decoded key or value. The envelope contains the JSON value itself (like kcat's -s avro)."""

    value: Any


def json_line(record: ConsumerRecord) -> bytes:
    """Return a record in kcat's envelope."""
    entry: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "tstype": "logappend" if record.timestamp_type else "create",
        "ts": record.timestamp,
    }
    encoded: list[str] = []
    if record.headers:
        entry["headers"] = [
            part
            for index, (name, value) in enumerate(record.headers)
            for part in (name, _shown(value, f"headers[{2 * index + 1}]", encoded))
        ]
    entry["key"] = _shown(record.key, "key", encoded)
    entry["payload"] = _shown(record.value, "payload", encoded)
    if encoded:
        entry["base64"] = encoded
    return json_bytes(json.dumps(entry, ensure_ascii=False)) + b"\n"


def json_bytes(text: str) -> bytes:
    r"""Return JSON text as UTF-8. Half a surrogate pair, which UTF-8 does not have, is written as JSON's escape, such as \ud800."""
    return text.encode("utf-8", "backslashreplace")


def _shown(content: bytes | Decoded | None, member: str, encoded: list[str]) -> Any:
    if content is None:
        return None
    if isinstance(content, Decoded):
        return content.value
    try:
        return content.decode()
    except UnicodeDecodeError:
        encoded.append(member)
        return base64.b64encode(content).decode()


def parse_json_line(line: bytes, number: int) -> Line:
    """Return the record of a line of `json_line`. Topic, offset and unknown members are ignored; a missing member counts as null.

    A negative timestamp gives None. Other timestamps are kept, also those of the broker's clock (tstype logappend). Raises OdradekError
    for a malformed line.
    """
    try:
        parsed: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _wrong(number, f"invalid JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise _wrong(number, "expected a JSON object")
    entry = cast(dict[str, Any], parsed)
    if not isinstance(entry.get("base64") or [], list):
        raise _wrong(number, '"base64" must be a list of names of members')
    encoded: list[Any] = entry.get("base64") or []
    flat: list[Any] = entry.get("headers") or []
    if not isinstance(cast(object, flat), list) or len(flat) % 2 or not all(isinstance(name, str) for name in flat[::2]):
        raise _wrong(number, '"headers" must be a list in which names and values alternate')
    for index in range(0, len(flat), 2):
        _utf8(flat[index], f"headers[{index}]", number)
    timestamp = _integer(entry, "ts", number)
    return Line(
        _content(entry.get("key"), "key", encoded, number),
        _content(entry.get("payload"), "payload", encoded, number),
        [(flat[index], _content(flat[index + 1], f"headers[{index + 1}]", encoded, number)) for index in range(0, len(flat), 2)],
        _integer(entry, "partition", number),
        timestamp if timestamp is None or timestamp >= 0 else None,
    )


def _content(text: Any, member: str, encoded: list[Any], number: int) -> bytes | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise _wrong(number, f'"{member}" must be a string or null')
    if member in encoded:
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise _wrong(number, f'"{member}" is not valid base64') from None
    return _utf8(text, member, number)


def _utf8(text: str, member: str, number: int) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _wrong(number, f'"{member}" contains an unpaired surrogate, which UTF-8 cannot encode') from None


def _integer(entry: dict[str, Any], member: str, number: int) -> int | None:
    found = entry.get(member)
    least, bits = (0, 31) if member == "partition" else (-1, 63)
    if found is not None and (type(found) is not int or not least <= found < 1 << bits):
        raise _wrong(number, f'"{member}" must be a number')
    return found


def _wrong(number: int, what: str) -> OdradekError:
    return OdradekError(f"line {number}: {what}; -J expects lines as `odradek consume -J` writes them")
