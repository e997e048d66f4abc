"""Fetches of a follower from its leaders, as decisions without IO.

`states` has the followed partitions and their positions, `plan` makes the next request, `answer` sorts the response. `replication.fetchers`
performs the decisions.
"""
