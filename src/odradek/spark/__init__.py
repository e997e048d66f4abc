"""The PySpark data source: `spark.read.format("odradek")`, `readStream`, `write`, `writeStream`.

Options and rows are those of Spark's Kafka connector.

Nothing has to be registered: pyspark finds the package `pyspark_odradek` by its name.
"""
