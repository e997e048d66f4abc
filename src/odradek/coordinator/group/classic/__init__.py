"""Classic groups: members join and elect a leader, which assigns (the group protocol before KIP-848)."""
