"""Sources of a node's metrics, a module for each package, and their HTTP server (`exporter`).

These modules are imported only when odradek.metrics.listener is set; the counts themselves are always kept.
"""
