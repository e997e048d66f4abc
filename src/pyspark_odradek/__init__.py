"""Where pyspark looks for data sources: it imports every module named `pyspark_*` and takes its `DefaultSource`."""

from odradek.spark.source import OdradekDataSource as DefaultSource

__all__ = ["DefaultSource"]
