"""Node: its start and end, its listeners and requests, its part in the cluster."""
