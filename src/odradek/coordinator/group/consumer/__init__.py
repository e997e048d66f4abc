"""Consumer groups: the coordinator computes the assignment, members reconcile their partitions with it (KIP-848)."""
