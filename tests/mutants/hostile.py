"""Bounds against hostile input that a whole broker has to keep."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_ROWS: Final = "server/test_hostile_rows.py -k "

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "no-snapshot-asked-for",
        "controller/kraft/wire.py",
        "    if len(topics) != 1:\n        raise KafkaError(ErrorCode.INVALID_REQUEST, error)\n",
        "",
        "an empty list in a request for a snapshot is an error of our own (CVE-2026-83525)",
        _ROWS + "83525",
    ),
    Mutant(
        "anybody-is-a-replica",
        "handlers/data/fetch.py",
        "if not context.allows(access.FETCH_AS_FOLLOWER):",
        "if False:",
        "whoever says that he is a replica reads what he likes (CVE-2018-1288)",
        _ROWS + "2018_1288",
    ),
    Mutant(
        "anybody-is-a-producer",
        "handlers/transaction/init_producer_id.py",
        "elif not context.allows(INIT_IDEMPOTENCE) and not context.allows_any(INIT_ANY_TOPIC):",
        "elif False:",
        "producer ids are for everybody (CVE-2018-17196)",
        _ROWS + "2018_17196",
    ),
    Mutant(
        "anybody-has-transactions",
        "handlers/transaction/init_producer_id.py",
        "        context.require(INIT_TRANSACTION, request.transactional_id)\n",
        "",
        "anybody fences a producer by its transactional id (CVE-2018-17196)",
        _ROWS + "2018_17196",
    ),
    Mutant(
        "topics-are-paths",
        "metadata/topic_names.py",
        "    if _LEGAL.fullmatch(name) is None:\n",
        "    if False:\n",
        "a topic's name leads out of the log directory",
        _ROWS + "test_a_topic_is_no_path",
    ),
    Mutant(
        "objects-without-bound",
        "protocol/schema.py",
        "min(budget, FREE_OBJECTS + size // BYTES_PER_OBJECT)",
        "1 << 40",
        "a small request becomes many objects (CVE-2026-111108)",
        _ROWS + "111108",
    ),
    Mutant(
        "patterns-of-any-size",
        "coordinator/patterns.py",
        "    options.max_mem = _MEMORY\n",
        "    options.max_mem = 1 << 40\n",
        "a short pattern of a group takes as much memory and time as it likes",
        _ROWS + "test_a_pattern_takes_no_time",
    ),
    Mutant(
        "versions-too-new-close",
        "server/dispatch.py",
        "            if context.api_key == ApiKey.API_VERSIONS:\n                return None\n",
        "",
        "a newer client does not learn which versions there are",
        _ROWS + "test_versions_too_new",
    ),
    Mutant(
        "addresses-without-limit",
        "network/acceptor.py",
        "        if count > limits.for_ip(address):\n",
        "        if False:\n",
        "one address takes all connections",
        _ROWS + "test_an_address_has",
    ),
    Mutant(
        "strangers-are-served",
        "server/sasl_session.py",
        "        if header.api_key != ApiKey.SASL_HANDSHAKE:\n",
        "        if header.api_key == ApiKey.METADATA:\n            return Step(Outcome.VERSIONS)\n        if header.api_key != ApiKey.SASL_HANDSHAKE:\n",
        "who has not logged in reads the metadata",
        _ROWS + "test_nothing_is_served",
    ),
    Mutant(
        "alice-as-bob",
        "security/sasl/server.py",
        "        if authorization_id and authorization_id != name:\n            raise SaslRefused(DIFFERENT_AUTHORIZATION_ID)\n",
        "",
        "who knows one password is let in under another name (CVE-2017-12610)",
        _ROWS + "test_a_wrong_login_is_refused",
    ),
)
