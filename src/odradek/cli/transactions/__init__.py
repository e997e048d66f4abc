"""Commands for transactions."""
