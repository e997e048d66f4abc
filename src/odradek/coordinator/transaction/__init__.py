"""The transaction coordinator: what a transactional id is doing, who may go on with it, and which partitions await a marker."""
