"""Batch queries that leave out what their conditions exclude. The class of conditions is there from Spark 4.1 on."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.datasource import Filter

from odradek.spark.batch import BatchReader
from odradek.spark.filters import narrowing


class NarrowedBatchReader(BatchReader):
    """Reads only where rows may be that fulfil the query's conditions. Spark wants no `pushFilters` where it is switched off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Takes the conditions on topic, partition, offset and time; those that it gives back are Spark's to look at."""
        self._narrowing, left = narrowing(filters)
        return left
