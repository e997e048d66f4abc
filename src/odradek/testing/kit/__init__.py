"""Test kit: embedded brokers and clusters, their faults, clock and schema registry."""
