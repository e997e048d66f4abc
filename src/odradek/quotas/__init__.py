"""Quotas of clients, addresses and replication: rates, the quota that applies, throttle times (KIP-13, 55, 73, 124, 219, 257, 599, 612).

    samples       sampled rates and token buckets
    entities      quota keys, quota entities, and the precedence among several quotas
    clients       bytes and request time of clients
    mutations     partitions that clients create and delete through the controller
    managers      all quotas of clients, updated from the metadata
    connections   new connections per address, per listener and per broker
    replication   bytes of throttled replicas

The package is pure: callers pass the time in milliseconds with each call, and get throttle times back.
"""
