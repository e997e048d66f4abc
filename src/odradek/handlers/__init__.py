"""One module per API; `table` names them all without importing them."""
