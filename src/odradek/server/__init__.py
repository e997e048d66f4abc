"""Wiring: dispatch, broker states, boot, shutdown, scheduled tasks."""
