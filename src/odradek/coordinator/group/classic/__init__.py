"""Classic groups: members join and elect a leader, which computes the assignment (the group protocol before KIP-848)."""
