"""Where pyspark looks for data sources; see `pyspark_odradek`."""

from odradek.spark.log_source import LogDataSource as DefaultSource

__all__ = ["DefaultSource"]
