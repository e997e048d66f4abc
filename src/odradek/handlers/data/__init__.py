"""Handlers of produced and fetched records, and of offsets in logs."""
