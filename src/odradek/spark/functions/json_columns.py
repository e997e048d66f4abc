"""JSON by Spark's own parser: expressions that run in the JVM.

The text is parsed as the only field of an object. Any type may then be at the top, and Spark reports unreadable records. As in Spark's
from_json, text after a complete value is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType

_VALUE: Final = "value"
_UNREADABLE: Final = "unreadable"
_SHOWN: Final = 60
_TYPE: Final = re.compile(r"\w+|\w+\s*\([\d\s,]*\)|(array|map|struct)\s*<.*>|interval\b.*", re.IGNORECASE | re.DOTALL)


def parsed(text: Column, type: DataType | str) -> Column:
    """Return struct<value: type, error: string> for a column of JSON text; null text gives null for both."""
    schema: StructType | str = f"STRUCT<{_VALUE}: {type}, {_UNREADABLE}: STRING>"
    if isinstance(type, DataType):
        schema = StructType([StructField(_VALUE, type, True), StructField(_UNREADABLE, StringType(), True)])
    whole = F.concat(F.lit('{"value":'), text, F.lit("}"))
    row = F.from_json(whole, schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _UNREADABLE})
    wrong = F.concat(F.lit("this is not JSON of the column's type: "), _shown(text))

    def outcome(row: Column) -> Column:
        is_bad = row[_UNREADABLE].isNotNull()
        return F.struct(F.when(~is_bad, row[_VALUE]).alias("value"), F.when(is_bad, wrong).alias("error"))

    return once(row, outcome)


def type_text(ddl: str) -> str:
    """Return DDL as the text of one type: a list of columns becomes a struct.

    Spark could parse the DDL, but a pipeline's definition may not call Spark.
    """
    return ddl if _TYPE.fullmatch(ddl.strip()) else f"STRUCT<{ddl}>"


def framed(data: Column, type: DataType) -> Column:
    """Parse, as `parsed`, a binary column in the wire format: the id of a schema in 5 bytes, or its GUID in 17, then JSON."""
    magic, length = F.hex(F.substring(data, 1, 1)), F.length(data)
    has_id, has_guid = (magic == "00") & (length >= 5), (magic == "01") & (length >= 17)
    text = F.when(has_id, _behind(data, 5)).when(has_guid, _behind(data, 17)).cast("string")
    unframed = F.concat(F.lit("the value does not name a schema: "), _size(length), F.lit(", "), F.hex(F.substring(data, 1, 16)))
    return F.when(data.isNull() | has_id | has_guid, parsed(text, type)).otherwise(
        F.struct(F.lit(None).cast(type).alias("value"), unframed.alias("error"))
    )


def once(value: Column, use: Callable[[Column], Column]) -> Column:
    """Return the result of `use` for a column that is computed once, no matter how often `use` refers to it."""
    return F.transform(F.array(value), use).getItem(0)


def _behind(data: Column, size: int) -> Column:
    return F.substring(data, size + 1, 2**31 - 1 - size)


def _shown(text: Column) -> Column:
    start = F.regexp_replace(F.substring(text, 1, _SHOWN), r"[\p{Cntrl}\s]+", " ")
    size = _size(F.octet_length(text))
    return F.when(F.length(text) > 0, F.concat(size, F.lit(", "), start)).otherwise(F.lit("there are no bytes"))


def _size(length: Column) -> Column:
    return F.concat(length.cast("string"), F.when(length == 1, F.lit(" byte")).otherwise(F.lit(" bytes")))
