"""Produce, fetch and where things are in a log."""
