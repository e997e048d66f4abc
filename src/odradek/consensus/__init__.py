"""KRaft without sockets, files or clocks: roles, votes, voters and the replication of one log (KIP-595, 630, 853, 996)."""
