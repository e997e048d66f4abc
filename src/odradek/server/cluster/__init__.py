"""Node in its cluster: registration, channels to other nodes, images, coordinators."""
