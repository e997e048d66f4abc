"""Partition assignors, which the leader of a classic group runs: pure functions of the members' subscriptions."""
