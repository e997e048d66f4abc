"""Table formats that Spark loads as packages, and the package release for each Spark release.

The table has only pairs that the tests run (docs/lake-tables.md). The tests use the packages of this table and no other release.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from odradek.base.errors import OdradekError

STREAMING_SINCE: Final = (4, 2)
"""Oldest Spark release that reads topics in streaming queries."""


@dataclass(frozen=True)
class Lake:
    """Table format, with its packages and Spark settings."""

    title: str
    mark: str
    """Text that occurs in the settings of each project with such tables."""
    packages: Mapping[tuple[int, int], str]
    """Maven coordinates by release of Spark, oldest first."""
    settings: tuple[tuple[str, str], ...]


DELTA: Final = Lake(
    title="Delta Lake",
    mark="io.delta.",
    packages={(4, 2): "io.delta:delta-spark_4.2_2.13:4.4.0"},
    settings=(
        ("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"),
        ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"),
    ),
)
ICEBERG: Final = Lake(
    title="Iceberg",
    mark="org.apache.iceberg.",
    packages={
        (4, 0): "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
        (4, 1): "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    },
    settings=(
        ("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"),
        ("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog"),
        ("spark.sql.catalog.lake.type", "hadoop"),
        ("spark.sql.catalog.lake.warehouse", "warehouse"),
    ),
)
LAKES: Final[Mapping[str, Lake]] = {"delta": DELTA, "iceberg": ICEBERG}
"""Lakes by the word for Spark's `format`."""


def lakes_of(settings: Mapping[str, str]) -> list[Lake]:
    """Return the lakes that the settings of a Spark session mention."""
    return [lake for lake in LAKES.values() if any(lake.mark in value for value in settings.values())]


def release(version: str) -> tuple[int, int]:
    """Return (4, 2) for `4.2.1`. Raises OdradekError for an invalid version."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None:
        raise OdradekError(f"{version} is not a version of Spark")
    return int(found[1]), int(found[2])


def package_for(lake: Lake, version: str) -> str:
    """Return the Maven coordinates of a lake for a version of Spark.

    Raises OdradekError, which names a working version, if the lake has no package for `version`.
    """
    package = lake.packages.get(release(version))
    if package is None:
        newest = ".".join(map(str, max(lake.packages)))
        served = " and ".join(f"{major}.{minor}" for major, minor in lake.packages)
        raise OdradekError(
            f"{lake.title} runs on Spark {served}, but this is {version}; an environment with pip install "
            f"'pyspark[pipelines]=={newest}.*' can run it"
        )
    return package
