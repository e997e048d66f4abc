"""Decisions of the active controller: a request and the current state give records and a response. Only replay changes the state.

Operations are functions of the modules topics, partitions, brokers, configs, features and producer_ids, such as:

    create_topics(context: ControllerContext, request: CreateTopicsRequest, version: int) -> ControllerResult[CreateTopicsResponse]

An operation raises KafkaError when the whole request fails. If that response has its own shape, a function such as `create_topics_error`
builds it. `handlers.table` lists the operations that serve an API. `quorum.QuorumControllerCore` holds the state for the shell that runs
the operations.
"""
