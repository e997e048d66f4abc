"""Sockets: listeners with their limits, and the client side of a connection."""
