"""Handlers: one module per API. `table` lists the modules without importing them."""
