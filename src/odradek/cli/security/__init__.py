"""Commands for access rules and delegation tokens."""
