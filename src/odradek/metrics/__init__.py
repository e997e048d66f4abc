"""What a node tells of itself, by the names that JVM Kafka gives its MBeans.

`names` says what a metric is, `catalogue` lists all of them, `registry` reads them, `prometheus` writes them as text. Hot code counts in
plain attributes (`traffic`, `requests`); everything else happens when somebody asks. No IO: the time is an argument.
"""
