"""Handlers by which nodes learn about each other: versions, metadata, quorum, registration."""
