"""Planted bugs and generic mutants: what of the sources no test notices. See `__main__` and CONTRIBUTING.md.

`rows/` has about 300 planted bugs: real ones of the past, and one for each fence, durable step and bound. `operators` makes mutants of
changed lines. `accepted` lists mutants that change no behaviour.
"""
