"""Stories of whole clusters: several nodes, clients of all kinds, and everything that can go wrong for them, from one seed.

`plan` is what a seed chooses, `story` plays it, `faults` is what goes wrong; `clients`, `groups` and `transactions` are the actors;
`invariants` has a module for each family of promises, which judges what it has seen.
"""
