"""Mistakes in the command lines of `odradek cluster`, `quorum`, `elections`, `reassign` and `metrics`, and unknown brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.mistakes import SEE, Mistake, check

TOPICS = "`odradek topics describe` shows topics and partitions"

MISTAKES = (
    # -- quorum --------------------------------------------------------------------------------------------------------------------------
    Mistake("quorum show", 2, f"odradek quorum: No such command 'show'; {SEE.format('quorum')}"),
    Mistake(
        "quorum describe --status --replication",
        2,
        f"odradek quorum: --status cannot be used with --replication; {SEE.format('quorum describe')}",
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
        "odradek quorum: --controller-directory-id x: expected an id of 22 characters, as `describe` shows it; "
        + SEE.format("quorum remove-controller"),
    ),
    Mistake(
        "quorum remove-controller -i 1 -d AAAAAAAAAAAAAAAAAAAABw --execute",
        1,
        "odradek quorum: this cluster cannot change the voters of its quorum: <*>; this needs Kafka 3.9 or later with kraft.version 1",
    ),
    # -- api-versions, cluster, metrics --------------------------------------------------------------------------------------------------
    Mistake("api-versions now", 2, f"odradek api-versions: Got unexpected extra argument (now); {SEE.format('api-versions')}"),
    Mistake(
        "metrics -b 127.0.0.1:1",
        1,
        "odradek metrics: cannot read http://127.0.0.1:1: Connection refused; is odradek.metrics.listener set?",
    ),
    Mistake(
        "metrics -b a:1 --url http://a:1",
        2,
        f"odradek metrics: --address cannot be used with --url; {SEE.format('metrics')}",
    ),
    Mistake("metrics --json --health live", 2, f"odradek metrics: --json cannot be used with --health; {SEE.format('metrics')}"),
    Mistake("metrics --url ftp://a", 2, f"odradek metrics: --url ftp://a does not begin with http:// or https://; {SEE.format('metrics')}"),
    Mistake("cluster unregister", 2, f"odradek cluster: give one broker: BROKER or --id BROKER; {SEE.format('cluster unregister')}"),
    Mistake(
        "cluster unregister 1 --id 2", 2, f"odradek cluster: give one broker: BROKER or --id BROKER; {SEE.format('cluster unregister')}"
    ),
    Mistake(
        "cluster unregister 77",
        1,
        "odradek cluster: BROKER_ID_NOT_REGISTERED: broker 77 is not registered; `odradek cluster list-endpoints` shows all brokers",
    ),
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
        f"odradek cluster: --include-fenced-brokers cannot be used with --bootstrap-controller; {SEE.format('cluster list-endpoints')}",
    ),
    # -- elections -----------------------------------------------------------------------------------------------------------------------
    Mistake(
        "elections --election-type fair --all-topic-partitions", 2, f"odradek elections: No such command 'fair'; {SEE.format('elections')}"
    ),
    Mistake(
        "elections preferred",
        2,
        "odradek elections: one of TOPIC:PARTITION, --topic, --all-topic-partitions, --path-to-json-file is required; "
        + SEE.format("elections preferred"),
    ),
    Mistake(
        "elections preferred there:0 --all-topic-partitions",
        2,
        f"odradek elections: TOPIC:PARTITION cannot be used with --all-topic-partitions; {SEE.format('elections preferred')}",
    ),
    Mistake("elections unclean there", 2, f"odradek elections: there: expected TOPIC:PARTITION; {SEE.format('elections unclean')}"),
    Mistake(
        "elections unclean --topic there",
        2,
        f"odradek elections: --topic and --partition must be given together; {SEE.format('elections unclean')}",
    ),
    Mistake("elections preferred --path-to-json-file /none", 1, "odradek elections: /none: No such file or directory"),
    Mistake("elections preferred none:0", 1, f"odradek elections: none-0: UNKNOWN_TOPIC_OR_PARTITION: <*>; {TOPICS}"),
    Mistake("elections unclean none:0", 1, f"odradek elections: none-0: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist; {TOPICS}"),
    # -- reassign ------------------------------------------------------------------------------------------------------------------------
    Mistake("reassign generate there", 2, f"odradek reassign: Missing option '--broker-list'<*>; {SEE.format('reassign generate')}"),
    Mistake(
        "reassign generate --broker-list 1",
        2,
        f"odradek reassign: one of TOPIC, --topics-to-move-json-file is required; {SEE.format('reassign generate')}",
    ),
    Mistake(
        "reassign generate there --broker-list 1,1",
        2,
        f"odradek reassign: <*> Broker list contains duplicate entries: 1,1; {SEE.format('reassign generate')}",
    ),
    Mistake(
        "reassign generate there --broker-list 1,x",
        2,
        f"odradek reassign: <*> 'x' is not a broker id; {SEE.format('reassign generate')}",
    ),
    Mistake(
        "reassign generate there --broker-list 7",
        1,
        "odradek reassign: BROKER_ID_NOT_REGISTERED: Unknown broker id 7; the brokers of the cluster are 1",
    ),
    Mistake(
        "reassign generate none --broker-list 1", 1, f"odradek reassign: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist; {TOPICS}"
    ),
    Mistake("reassign execute", 2, f"odradek reassign: Missing option '-f' / '--reassignment-json-file'; {SEE.format('reassign execute')}"),
    Mistake("reassign execute -f /none", 1, "odradek reassign: /none: No such file or directory"),
    # -- unknown brokers and offsets -----------------------------------------------------------------------------------------------------
    Mistake(
        "log-dirs describe --broker-list 9",
        1,
        "odradek log-dirs: BROKER_NOT_AVAILABLE: broker 9 is not in the cluster, whose brokers are 1; `odradek cluster list-endpoints` "
        "shows the "
        "brokers",
    ),
    Mistake(
        "configs describe --broker 9",
        1,
        "odradek configs: BROKER_NOT_AVAILABLE: broker 9 is not in the cluster; `odradek cluster list-endpoints` shows the brokers",
    ),
    Mistake(
        "transactions find-hanging --broker-id 9",
        1,
        "odradek transactions: BROKER_NOT_AVAILABLE: broker 9 is not in the cluster; `odradek cluster list-endpoints` shows the brokers",
    ),
    Mistake(
        "delete-records there:0:99", 1, "odradek delete-records: there-0: OFFSET_OUT_OF_RANGE: <*>; `odradek offsets` shows the end offsets"
    ),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.typed for mistake in MISTAKES])
def test_a_mistake_is_reported_in_one_line(
    mistake: Mistake, tmp_path: Path, bootstrap: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", bootstrap)
    check(mistake, command, tmp_path)


def test_each_command_line_is_listed_once() -> None:
    assert len({mistake.typed for mistake in MISTAKES}) == len(MISTAKES)
