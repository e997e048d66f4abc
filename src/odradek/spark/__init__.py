"""The PySpark data source: `spark.read.format("odradek")`, `readStream`, `write`, `writeStream`, with the options and the row of Spark's Kafka connector.

Nothing has to be registered: pyspark finds the package `pyspark_odradek` by its name.
"""
