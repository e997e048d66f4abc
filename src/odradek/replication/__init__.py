"""Partitions, in-sync replicas, high watermarks, delayed operations, fetch sessions, and the replica manager."""
