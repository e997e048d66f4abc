"""Partition, in-sync replicas, high watermark, delayed operations, fetch sessions, replica manager."""
