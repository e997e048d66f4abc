"""Kafka's wire protocol: each message is declared once for all versions; readers and writers are generated on first use."""
