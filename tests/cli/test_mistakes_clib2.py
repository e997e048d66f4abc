"""As test_mistakes.py, for topics, features, and what concerns the cluster as a whole."""

from __future__ import annotations

import re
import shlex
import socket

import pytest

from tests.cli.conftest import Command
from tests.cli.test_mistakes import AWAY, SEE, Mistake, pattern

TOPICS = "`odradek topics describe` shows topics and partitions"

MISTAKES = (
    # -- topics -----------------------------------------------------------------------------------------------------------------------
    Mistake("topics alter there", 2, f"odradek topics: Missing option '-p' / '--partitions'; {SEE.format('topics alter')}"),
    Mistake("topics alter -p 3", 2, f"odradek topics: Missing argument 'TOPIC...'; {SEE.format('topics alter')}"),
    Mistake(
        "topics alter there -p 0",
        2,
        f"odradek topics: Invalid value for '-p' / '--partitions': 0 is not in the range x>=1; {SEE.format('topics alter')}",
    ),
    Mistake(
        "topics alter there -p 1", 1, "odradek topics: there: INVALID_PARTITIONS: The topic there currently has 2 partition(s); 1 would <*>"
    ),
    Mistake("topics alter none -p 9", 1, f"odradek topics: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist; {TOPICS}"),
    Mistake(
        "topics alter --topic none -p 9",
        1,
        f"odradek topics: UNKNOWN_TOPIC_OR_PARTITION: Topic 'none' does not exist as expected; {TOPICS}",
    ),
    Mistake("topics alter there -p 3 --config a=b", 2, f"odradek topics: No such option '--config'<*> {SEE.format('topics alter')}"),
    Mistake(
        "topics create new -p 2 --replica-assignment 1,1",
        2,
        f"odradek topics: --replica-assignment excludes --partitions; {SEE.format('topics create')}",
    ),
    Mistake(
        "topics create new -r 1 --replica-assignment 1,1",
        2,
        f"odradek topics: --replica-assignment excludes --replication-factor; {SEE.format('topics create')}",
    ),
    Mistake(
        "topics create new --replica-assignment 1:x",
        2,
        "odradek topics: --replica-assignment 1:x: this must be ID:ID,ID:ID, the brokers of each partition; " + SEE.format("topics create"),
    ),
    Mistake("topics create new --replica-assignment 9", 1, "odradek topics: new: INVALID_REPLICA_ASSIGNMENT: <*>"),
    Mistake("topics list --topic '('", 2, f"odradek topics: --topic (: this is no regular expression: <*>; {SEE.format('topics list')}"),
    Mistake("topics list --topic ''", 2, f"odradek topics: --topic: this must not be empty; {SEE.format('topics list')}"),
    Mistake(
        "topics describe --topic-id x",
        2,
        f"odradek topics: --topic-id x: this must be an id of 22 characters, as `describe` shows it; {SEE.format('topics describe')}",
    ),
    Mistake(
        "topics describe there --topic-id AAAAAAAAAAAAAAAAAAAAAQ",
        2,
        f"odradek topics: --topic-id excludes TOPIC; {SEE.format('topics describe')}",
    ),
    Mistake("topics describe --if-exists", 2, f"odradek topics: --topic or --topic-id is required to <*>; {SEE.format('topics describe')}"),
    Mistake(
        "topics describe --under-replicated-partitions --topics-with-overrides",
        2,
        f"odradek topics: --under-replicated-partitions excludes --topics-with-overrides; {SEE.format('topics describe')}",
    ),
    # -- quorum -----------------------------------------------------------------------------------------------------------------------
    Mistake("quorum show", 2, f"odradek quorum: No such command 'show'; {SEE.format('quorum')}"),
    Mistake(
        "quorum describe --status --replication", 2, f"odradek quorum: --status excludes --replication; {SEE.format('quorum describe')}"
    ),
    Mistake(
        "quorum describe --human-readable",
        2,
        f"odradek quorum: The option --human-readable is only supported along with --replication; {SEE.format('quorum describe')}",
    ),
    Mistake("quorum add-controller", 2, f"odradek quorum: Missing option <*>'--config'<*>; {SEE.format('quorum add-controller')}"),
    Mistake("quorum add-controller -c /none", 1, "odradek quorum: /none: No such file or directory"),
    Mistake(
        "quorum remove-controller -i 1 -d x",
        2,
        "odradek quorum: --controller-directory-id x: this must be an id of 22 characters, as `describe` shows it; "
        + SEE.format("quorum remove-controller"),
    ),
    Mistake(
        "quorum remove-controller -i 1 -d AAAAAAAAAAAAAAAAAAAABw --execute",
        1,
        "odradek quorum: this cluster cannot change the voters of its quorum: <*>; it needs Kafka 3.9 with kraft.version 1",
    ),
    # -- api-versions, cluster --------------------------------------------------------------------------------------------------------
    Mistake("api-versions now", 2, f"odradek api-versions: Got unexpected extra argument (now); {SEE.format('api-versions')}"),
    Mistake(
        "metrics -b 127.0.0.1:1",
        1,
        "odradek metrics: http://127.0.0.1:1 cannot be asked: Connection refused; is odradek.metrics.listener set?",
    ),
    Mistake(
        "metrics -b a:1 --url http://a:1",
        2,
        f"odradek metrics: --address and --url name the same thing; give one of them; {SEE.format('metrics')}",
    ),
    Mistake("metrics --json --health live", 2, f"odradek metrics: --json is for metrics, not for --health; {SEE.format('metrics')}"),
    Mistake("metrics --url ftp://a", 2, f"odradek metrics: --url ftp://a does not begin with http:// or https://; {SEE.format('metrics')}"),
    Mistake("cluster unregister", 2, f"odradek cluster: name one broker; {SEE.format('cluster unregister')}"),
    Mistake("cluster unregister 1 --id 2", 2, f"odradek cluster: name one broker; {SEE.format('cluster unregister')}"),
    Mistake("cluster unregister 77", 1, "odradek cluster: BROKER_ID_NOT_REGISTERED: broker 77; `odradek cluster list-endpoints` shows all"),
    *(
        Mistake(f"{typed} 2147483648", 2, f"odradek {typed.split()[0]}: <*>2147483648 is not in the range 0<=x<=2147483647; <*>")
        for typed in (
            "cluster unregister",
            "produce -t there -p",
            "consume -t there -p",
            "transactions describe-producers --topic t --partition",
        )
    ),
    Mistake("cluster unregister --id 77", 1, "odradek cluster: BROKER_ID_NOT_REGISTERED: <*>"),
    *(Mistake(f"cluster unregister {word} --dry-run", 1, "odradek cluster: BROKER_ID_NOT_REGISTERED: <*>") for word in ("-i77", "-i 77")),
    Mistake(
        "cluster list-endpoints --include-fenced-brokers -C 127.0.0.1:1",
        2,
        f"odradek cluster: --include-fenced-brokers excludes --bootstrap-controller; {SEE.format('cluster list-endpoints')}",
    ),
    # -- elections --------------------------------------------------------------------------------------------------------------------
    Mistake(
        "elections --election-type fair --all-topic-partitions", 2, f"odradek elections: No such command 'fair'; {SEE.format('elections')}"
    ),
    Mistake(
        "elections preferred",
        2,
        "odradek elections: one of TOPIC:PARTITION, --topic, --all-topic-partitions, --path-to-json-file is needed; "
        + SEE.format("elections preferred"),
    ),
    Mistake(
        "elections preferred there:0 --all-topic-partitions",
        2,
        f"odradek elections: TOPIC:PARTITION excludes --all-topic-partitions; {SEE.format('elections preferred')}",
    ),
    Mistake("elections unclean there", 2, f"odradek elections: there: this must be TOPIC:PARTITION; {SEE.format('elections unclean')}"),
    Mistake(
        "elections unclean --topic there",
        2,
        f"odradek elections: --topic and --partition need one another; {SEE.format('elections unclean')}",
    ),
    Mistake("elections preferred --path-to-json-file /none", 1, "odradek elections: /none: No such file or directory"),
    Mistake("elections preferred none:0", 1, f"odradek elections: none-0: UNKNOWN_TOPIC_OR_PARTITION: <*>; {TOPICS}"),
    Mistake("elections unclean none:0", 1, f"odradek elections: none-0: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist; {TOPICS}"),
    # -- reassign ---------------------------------------------------------------------------------------------------------------------
    Mistake("reassign generate there", 2, f"odradek reassign: Missing option '--broker-list'<*>; {SEE.format('reassign generate')}"),
    Mistake(
        "reassign generate --broker-list 1",
        2,
        f"odradek reassign: one of TOPIC, --topics-to-move-json-file is needed; {SEE.format('reassign generate')}",
    ),
    Mistake(
        "reassign generate there --broker-list 1,1",
        2,
        f"odradek reassign: <*> Broker list contains duplicate entries: 1,1; {SEE.format('reassign generate')}",
    ),
    Mistake(
        "reassign generate there --broker-list 1,x",
        2,
        f"odradek reassign: <*> 'x' is not the id of a broker; {SEE.format('reassign generate')}",
    ),
    Mistake(
        "reassign generate there --broker-list 7",
        1,
        "odradek reassign: BROKER_ID_NOT_REGISTERED: Unknown broker id 7; the cluster has 1",
    ),
    Mistake(
        "reassign generate none --broker-list 1", 1, f"odradek reassign: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist; {TOPICS}"
    ),
    Mistake("reassign execute", 2, f"odradek reassign: Missing option '-f' / '--reassignment-json-file'; {SEE.format('reassign execute')}"),
    Mistake("reassign execute -f /none", 1, "odradek reassign: /none: No such file or directory"),
    # -- features ---------------------------------------------------------------------------------------------------------------------
    Mistake("features disable", 2, f"odradek features: You must specify at least one feature to disable; {SEE.format('features disable')}"),
    Mistake("features downgrade", 2, f"odradek features: You must specify at least one feature to <*>; {SEE.format('features downgrade')}"),
    Mistake("features disable a a", 2, f"odradek features: a stands there twice; {SEE.format('features disable')}"),
    Mistake(
        "features upgrade --release-version 4.3 --feature a=1",
        2,
        f"odradek features: Can not specify --release-version with other features; {SEE.format('features upgrade')}",
    ),
    Mistake(
        "features upgrade --metadata 4.3 metadata.version=3",
        2,
        f"odradek features: metadata.version stands there twice; {SEE.format('features upgrade')}",
    ),
    Mistake("features upgrade --metadata 9.9", 1, "odradek features: Unknown metadata.version '9.9'; there are 3.3-IV3 to <*>"),
    Mistake(
        "features feature-dependencies",
        2,
        f"odradek features: Missing option '-f' / '--feature'; {SEE.format('features feature-dependencies')}",
    ),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.typed for mistake in MISTAKES])
def test_a_mistake_is_answered_in_one_line(mistake: Mistake, bootstrap: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", bootstrap)
    answer = command(*shlex.split(mistake.typed))
    assert re.fullmatch(pattern(mistake.answer), answer.err), answer.err
    assert (answer.status, answer.out) == (mistake.status, "")


def test_each_stands_there_once() -> None:
    assert len({mistake.typed for mistake in MISTAKES}) == len(MISTAKES)


@pytest.mark.parametrize(
    "typed",
    [
        "topics alter a -p 2",
        "topics alter --topic a -p 2",
        "topics describe --unavailable-partitions",
        "topics list --topic a",
        "quorum describe",
        "quorum describe --replication",
        "quorum remove-controller -i 1 -d AAAAAAAAAAAAAAAAAAAABw",
        "quorum remove-controller -i 1 -d AAAAAAAAAAAAAAAAAAAABw --execute",
        "api-versions",
        "cluster id",
        "cluster list-endpoints",
        "cluster unregister 1",
        "cluster unregister 1 --execute",
        "elections preferred a:0",
        "elections unclean a:0",
        "elections unclean --all-topic-partitions --execute",
        "reassign generate a --broker-list 1",
        "reassign list",
        "features disable a",
    ],
)
def test_a_broker_that_cannot_be_reached(typed: str, command: Command) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        answer = command(*shlex.split(typed), "-b", address, *AWAY)
    assert (answer.status, answer.out, len(answer.err.splitlines())) == (1, "", 1), answer.err
    assert answer.err.startswith(f"odradek {typed.split()[0]}: BROKER_NOT_AVAILABLE: ")
    assert address in answer.err
    assert answer.err.endswith("`odradek start` starts one, -b HOST:PORT names another\n")
