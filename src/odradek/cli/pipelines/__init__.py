"""Commands for Spark pipelines."""
