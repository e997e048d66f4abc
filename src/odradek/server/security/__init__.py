"""Authentication and authorization of a node's listeners."""
