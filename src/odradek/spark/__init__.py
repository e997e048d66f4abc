"""PySpark data source: `spark.read.format("odradek")`, `readStream`, `write`, `writeStream`.

Options and rows are those of Spark's Kafka connector.

The source needs no registration: pyspark finds the package `pyspark_odradek` by its name, in the Python that it starts for its workers.
That is `python3` of the PATH. If the installation is another Python, as is possible in a notebook, call `use_this_python()` before the
first session.
"""

from odradek.spark.environment import use_this_python
from odradek.spark.progress import offsets_behind_latest

__all__ = ["offsets_behind_latest", "use_this_python"]
