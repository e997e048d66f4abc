"""Groups: members, their assignments, and committed offsets. Pure, on the coordinator runtime."""
