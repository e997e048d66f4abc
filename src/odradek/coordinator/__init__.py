"""Coordinators: state machines whose state is the content of a partition's log (groups, transactions)."""
