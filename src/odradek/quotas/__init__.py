"""Quotas of clients, addresses and replication (KIP-13, 55, 73, 124, 219, 257, 599, 612): rates, whose quota counts, how long to wait.

    samples       sampled rates and token buckets
    entities      the keys of quotas, what they are for, and which of several holds
    clients       bytes and time of clients
    mutations     what clients change through the controller
    managers      all quotas of clients, kept up with the metadata
    connections   new connections of addresses, listeners and the broker
    replication   replicas that catch up

Pure: milliseconds of some clock come in with every call, how long somebody has to wait goes out.
"""
