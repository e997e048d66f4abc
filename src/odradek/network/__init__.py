"""Sockets: listeners with their limits, and connections to other nodes."""
