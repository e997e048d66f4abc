"""Connections and requests that all clients share."""
