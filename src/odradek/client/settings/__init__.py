"""Configuration keys of the clients."""
