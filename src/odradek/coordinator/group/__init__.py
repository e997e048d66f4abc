"""Groups: who shares the partitions of which topics, and how far each group has read. Pure, on the coordinator runtime."""
