"""Kafka's wire protocol: every message declared once for all its versions, readers and writers generated on first use."""
