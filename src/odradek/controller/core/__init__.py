"""What the active controller decides: a request and the current state give records and a response; only replay changes the state.

`quorum.QuorumControllerCore` is the whole; its parts are modules: topics, partitions, brokers, configs, features, producer_ids.
"""
