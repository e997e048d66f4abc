"""Who of a group gets which partitions: the assignors that run on the coordinator (KIP-848). Pure functions of what they are told."""
