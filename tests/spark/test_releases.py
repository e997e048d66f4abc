"""What needs a newer Spark says so. What an older Spark does is in tests/interop/test_spark_releases.py."""

from __future__ import annotations

import pyspark
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from odradek.base.errors import OdradekError
from odradek.spark.source import OdradekDataSource

READING = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"}
WRITING = {"kafka.bootstrap.servers": "localhost:1", "topic": "t"}
ROWS = StructType([StructField("value", StringType())])


@pytest.mark.parametrize("release", ["4.0.0", "4.1.4"])
def test_streaming_queries_need_spark_4_2(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", release)
    with pytest.raises(OdradekError, match=f"this source need Spark 4.2 or newer, and this is {release}"):
        OdradekDataSource(READING).streamReader(ROWS)
    with pytest.raises(OdradekError, match=f"this sink need Spark 4.2 or newer, and this is {release}"):
        OdradekDataSource(WRITING).streamWriter(ROWS, False)


def test_conditions_need_spark_4_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.0.3")
    with pytest.raises(OdradekError, match=r"pushFilters needs Spark 4\.1 or newer, and this is 4\.0\.3"):
        OdradekDataSource({**READING, "pushFilters": "true"}).reader(ROWS)


@pytest.mark.parametrize("release", ["4.2.0", "4.10.1", "5.0.0.dev1"])
def test_newer_releases_are_taken(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", release)
    assert OdradekDataSource(READING).streamReader(ROWS)
    assert OdradekDataSource(WRITING).streamWriter(ROWS, False)
    assert OdradekDataSource({**READING, "pushFilters": "true"}).reader(ROWS)
