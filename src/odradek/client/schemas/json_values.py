"""Codec of JSON values, and conversion of decoded Python values to JSON text.

Python values without a JSON type become: bytes base64; decimals, UUIDs, dates and times text (ISO 8601); durations seconds as Protobuf
writes them ("1.5s"); NaN and infinities text. Integers stay numbers, even those of 64 bits.
"""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NoReturn
from uuid import UUID

from odradek.client.schemas.errors import UndecodableValue, UnencodableValue, one_line
from odradek.client.schemas.wire import shown


def decode_json(data: bytes, start: int) -> Any:
    """Return the JSON value that takes all bytes from `start` on.

    Raises UndecodableValue for bytes that are not JSON in UTF-8, and for NaN.
    """
    try:
        return json.loads(data[start:].decode(), parse_constant=_no_constant)
    except RecursionError:
        raise UndecodableValue("the JSON is nested too deeply") from None
    except ValueError as error:
        raise UndecodableValue(f"malformed JSON: {one_line(error)}: {shown(data[start:])}") from None


def encode_json(value: Any) -> bytes:
    """Return the value as JSON. Raises UnencodableValue for a value that JSON does not have."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except RecursionError:
        raise UnencodableValue("the value is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise UnencodableValue(f"the value cannot be written as JSON: {one_line(error)}") from None


def json_text(value: Any) -> str:
    """Return a decoder's value as one line of JSON text."""
    return json.dumps(plain_json(value), ensure_ascii=False)


def plain_json(value: Any) -> Any:
    """Return a decoder's value with only JSON's types."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value).replace("inf", "Infinity").replace("nan", "NaN")
    if isinstance(value, dict):
        return {str(name): plain_json(each) for name, each in value.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, (list, tuple)):
        return [plain_json(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{Decimal(value // timedelta(microseconds=1)).scaleb(-6).normalize():f}s"
    if isinstance(value, (Decimal, UUID)):
        return f"{value:f}" if isinstance(value, Decimal) else str(value)
    raise TypeError(f"a decoder returned a {type(value).__name__}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
