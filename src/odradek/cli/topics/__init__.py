"""Commands for topics, partitions and replicas."""
