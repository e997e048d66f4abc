"""Batch queries that skip the records that their filters exclude. pyspark has the class of filters since Spark 4.1."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.datasource import Filter

from odradek.spark.batch import BatchReader
from odradek.spark.filters import narrowing


class NarrowedBatchReader(BatchReader):
    """Reader of only the offsets that may match the filters.

    A separate class, as Spark forbids `pushFilters` where pushing is switched off.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take the filters on topic, partition, offset and time. Return the filters that Spark has to apply itself."""
        self._narrowing, left = narrowing(filters)
        return left
