"""Commands for nodes and clusters."""
