"""Start and end of a node and of its process."""
