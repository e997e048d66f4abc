# pyarrow has no complete types:
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Reader of a column of bytes as a column of values, on Spark's workers."""

from __future__ import annotations

import gc
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql.types import DataType

from odradek.client.core.serialization import SerializationError
from odradek.client.schemas.errors import RegistryError, one_line
from odradek.spark.functions.arrow_rows import array_of
from odradek.spark.functions.layout import Layout

Row = tuple[Any, ...]


class RowReader(Protocol):
    """Reader of single records as rows of one Spark type."""

    layout: Layout
    width: int
    """Number of places in a row."""

    def row(self, data: bytes) -> Row:
        """Return a record's row. Any exception tells why the record is unreadable, except RegistryError: then the registry failed."""
        ...


class Outcome(NamedTuple):
    """Values of a column, and for each unreadable record (null in the values) the reason."""

    values: Any
    errors: list[str | None]


class ColumnReader:
    """Reader of columns of one type, with any content."""

    def __init__(self, reader: RowReader, type_: DataType) -> None:
        self._reader = reader
        self._type = type_
        self._nothing: Row = (None,) * reader.width

    def read(self, records: Sequence[bytes | None]) -> Outcome:
        """Return values and errors. Raises RegistryError when the registry cannot be asked; every other error belongs to its record."""
        row, nothing = self._reader.row, self._nothing
        rows: list[Row] = []
        errors: list[str | None] = [None] * len(records)
        add = rows.append
        for index, data in enumerate(records):
            if data is None:
                add(nothing)
                continue
            try:
                add(row(data))
            except RegistryError:
                raise
            except Exception as error:
                errors[index] = reason(error, data)
                add(nothing)
        present = [data is not None and error is None for data, error in zip(records, errors, strict=True)]
        try:
            return Outcome(self._array(rows, present), errors)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return self._one_by_one(rows, present, errors)

    def _one_by_one(self, rows: list[Row], present: list[bool], errors: list[str | None]) -> Outcome:
        """Convert a column row by row, after a value that Arrow refuses, such as text that is not UTF-8."""
        for index, row in enumerate(rows):
            try:
                self._array([row], [present[index]])
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                errors[index] = one_line(error)
                rows[index], present[index] = self._nothing, False
        return Outcome(self._array(rows, present), errors)

    def _array(self, rows: list[Row], present: list[bool]) -> Any:
        return array_of(self._reader.layout, self._type, rows, self._reader.width, present)


def reason(error: Exception, data: bytes) -> str:
    """Return in one line why a record cannot be read."""
    if isinstance(error, SerializationError):
        return one_line(error)
    if isinstance(error, (IndexError, struct.error)):
        return f"the value is truncated after {len(data)} byte{'' if len(data) == 1 else 's'}"
    return f"{type(error).__name__}: {one_line(error)}"


def without_collector(function: Callable[[], Outcome]) -> Outcome:
    """Call a function with the garbage collector off, which would traverse all rows repeatedly.

    Rows are never part of a reference cycle.
    """
    if not gc.isenabled():
        return function()
    gc.disable()
    try:
        return function()
    finally:
        gc.enable()
