"""Ids, units, errors and the interfaces to the outside world (clock, disk); everything here is pure."""
