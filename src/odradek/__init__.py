"""Odradek: an Apache Kafka in Python.

The hook for Spark's processes imports this package before pytest can: PYTEST_DONT_REWRITE, and pytest does not warn of it.
"""

__version__ = "0.1.0.dev0"
