"""Handlers of administration: topics and configuration."""
