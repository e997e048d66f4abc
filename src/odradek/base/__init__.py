"""Ids, units, errors and the interfaces of clock and disk; everything here is pure."""
