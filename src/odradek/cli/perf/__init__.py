"""Commands that measure throughput and latency, and that verify deliveries."""
