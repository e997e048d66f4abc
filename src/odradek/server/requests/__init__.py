"""Path of requests and responses between listeners and handlers."""
