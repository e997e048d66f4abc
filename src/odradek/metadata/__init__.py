"""The state of the cluster as an immutable image, the deltas between images, and the answers read off an image."""
