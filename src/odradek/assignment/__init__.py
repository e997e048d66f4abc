"""Assignors of consumer groups, which run on the coordinator (KIP-848). Pure functions of their arguments."""
