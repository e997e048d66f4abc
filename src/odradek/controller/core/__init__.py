"""What the active controller decides: a request and the current state give records and a response; only replay changes the state.

An operation is a function of the modules topics, partitions, brokers, configs, features and producer_ids:

    create_topics(context: ControllerContext, request: CreateTopicsRequest, version: int) -> ControllerResult[CreateTopicsResponse]

It raises KafkaError where the request as a whole fails; beside it stands `create_topics_error` where that takes a shape of its own.
`handlers.table` names those that serve an API. `quorum.QuorumControllerCore` holds the state for the shell that runs them.
"""
