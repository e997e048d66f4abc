"""TLS and SASL of the clients."""
