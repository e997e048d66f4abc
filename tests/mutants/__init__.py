"""Bugs planted one at a time, to see whether the tests notice: see `__main__` and CONTRIBUTING.md.

A module for each room of src/odradek has its `MUTANTS`: fences, bounds, durable steps, wake-ups, and ordinary slips.
"""
