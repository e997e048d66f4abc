"""Transaction coordinator: state of each transactional id, its current producer, and the partitions that await a marker."""
