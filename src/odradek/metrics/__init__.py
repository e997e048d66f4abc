"""Metrics of a node, under the names of JVM Kafka's MBeans.

`names` defines the type of a metric, `catalogue` lists all metrics, `registry` reads them, and `prometheus` renders them as text. Hot code
only adds to plain attributes (`traffic`, `requests`); all other work happens when metrics are read. No IO; the time is an argument.
"""
