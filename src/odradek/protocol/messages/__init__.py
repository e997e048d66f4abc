"""One module per RPC, and one per family of stored records; imported on demand through `odradek.protocol.registry`."""
