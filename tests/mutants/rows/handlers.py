"""Planted bugs of handlers."""

ROWS = {
    "handlers/access.py": [
        (
            "ADD_OFFSETS_GROUP = _check(_READ, _GROUP)",
            "ADD_OFFSETS_GROUP = _check(_DESCRIBE, _GROUP)",
            "DESCRIBE on a group commits offsets in a transaction",
        ),
    ],
    "handlers/admin/alter_replica_log_dirs.py": [
        ("refusals[:_MOST_LINES]", "refusals", "one request fills the log"),
    ],
    "handlers/admin/config_changes.py": [
        (
            "not context.allows(ALTER_LOGGERS if context.api_key == ApiKey.INCREMENTAL_ALTER_CONFIGS else ALTER_CLUSTER_CONFIGS)",
            "False",
            "an unauthorized client makes the broker open files",
        ),
        ("services.jobs.apart(lambda: ", "Deferred.of(", "a slow file of a setting stops the node"),
    ],
    "handlers/admin/describe_log_dirs.py": [
        ("    yield None\n    cordoned", "cordoned", "DescribeLogDirs of thousands of replicas blocks the loop"),
    ],
    "handlers/cluster/envelope.py": [
        ("header.api_key not in FORWARDED", "False", "an envelope carries a vote or a registration"),
    ],
    "handlers/cluster/fetch_snapshot.py": [
        ("min(answer.max_bytes, node.fetch_snapshot_max_bytes)", "answer.max_bytes", "a snapshot chunk has no maximum size"),
    ],
    "handlers/cluster/raft_fetch.py": [
        (" if reader.id >= 0 else max(answer.high_watermark, 0)", "", "a client reads uncommitted metadata"),
    ],
    "handlers/data/fetch.py": [
        ("min(request.max_bytes, manager.fetch_max_bytes)", "request.max_bytes", "fetch.max.bytes does not bound a response"),
        ("not context.allows(access.FETCH_AS_FOLLOWER)", "False", "a client names itself a replica (CVE-2018-1288)"),
    ],
    "handlers/data/produce.py": [
        ("attributes & TRANSACTIONAL_MASK and transactional_id is None", "False", "a transactional batch needs no transactional id"),
    ],
    "handlers/group/find_coordinator.py": [
        ("answered(request.coordinator_keys)", "request.coordinator_keys", "a response is 25 times its request"),
    ],
    "handlers/group/offset_commit.py": [
        (", topic.topic_id = found.name, found.topic_id", " = found.name", "offsets pass to a recreated topic"),
    ],
    "handlers/transaction/init_producer_id.py": [
        (
            "not context.allows(INIT_IDEMPOTENCE) and not context.allows_any(INIT_ANY_TOPIC)",
            "False",
            "producer ids need no permission (CVE-2018-17196)",
        ),
    ],
    "handlers/transaction/write_txn_markers.py": [
        ("required_acks=-1", "required_acks=1", "a marker is acknowledged before it is replicated"),
    ],
}
