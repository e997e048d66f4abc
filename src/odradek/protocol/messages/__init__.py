"""Modules of messages: one per RPC, one per family of stored records; imported on demand through `odradek.protocol.registry`."""
