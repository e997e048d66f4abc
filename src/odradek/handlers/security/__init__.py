"""Handlers of authentication and authorization."""
