"""Commands for groups."""
