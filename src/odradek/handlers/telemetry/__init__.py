"""Metrics that clients send (KIP-714)."""
