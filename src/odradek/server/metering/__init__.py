"""Where a node's metrics come from, and how they are served: a module for each room that tells something, `exporter` for HTTP.

All of it is loaded only where odradek.metrics.listener is set; the counts themselves are kept always.
"""
