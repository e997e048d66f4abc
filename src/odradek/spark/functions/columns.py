"""Shared parts of all functions: their modes, and the column for a decoded value."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from odradek.base.errors import ConfigError
from odradek.spark.functions.json_columns import once

FAILFAST: Final = "FAILFAST"
PERMISSIVE: Final = "PERMISSIVE"
_NAME: Final = re.compile(r"[\w.]+")


class Handling(NamedTuple):
    """Treatment of a record that cannot be read."""

    mode: str
    errors: bool

    @property
    def is_strict(self) -> bool:
        """Return whether the query fails."""
        return self.mode == FAILFAST and not self.errors


def handling(mode: str, errors: bool) -> Handling:
    """Return the treatment of unreadable records. Raises ConfigError for an unknown mode, or `errors` that is not a bool."""
    known = str(mode).upper()
    if known not in (FAILFAST, PERMISSIVE):
        raise ConfigError(f"mode must be FAILFAST or PERMISSIVE, not {mode}")
    if not isinstance(errors, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"errors must be True or False, not {errors!r}")
    return Handling(known, errors)


def as_column(column: Any) -> Column:
    """Return a column, given itself or its name."""
    return F.col(column) if isinstance(column, str) else column


def handled(outcome: Column, how: Handling, name: str) -> Column:
    """Return the user's column from struct<value, error>."""
    if how.errors:
        return outcome.alias(name)
    if how.mode == PERMISSIVE:
        return outcome["value"].alias(name)

    def value_or_failure(row: Column) -> Column:
        return F.when(row["error"].isNotNull(), F.raise_error(row["error"])).otherwise(row["value"])

    return once(outcome, value_or_failure).alias(name)


def titled(function: str, column: Any) -> str:
    """Return the name of the result column: as Spark names its own functions' results, if the argument is the name of a column."""
    name = column if isinstance(column, str) else str(column).removeprefix("Column<'").removesuffix("'>")
    return f"{function}({name})" if _NAME.fullmatch(name) else function
