"""State of the cluster as immutable images, deltas between images, and responses built from an image."""
