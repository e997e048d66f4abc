"""As test_mistakes.py, for groups, offsets, configurations, transactions and what security needs."""

from __future__ import annotations

import re
import shlex
import socket

import pytest

from tests.cli.conftest import Command
from tests.cli.test_mistakes import AWAY, SEE, Mistake, pattern

MISTAKES = (
    # -- groups -----------------------------------------------------------------------------------------------------------------------
    Mistake("groups shake", 2, f"odradek groups: No such command 'shake'; {SEE.format('groups')}"),
    Mistake("groups describe", 2, f"odradek groups: one of GROUP, --all-groups is needed; {SEE.format('groups describe')}"),
    Mistake("groups describe g --all-groups", 2, f"odradek groups: GROUP excludes --all-groups; {SEE.format('groups describe')}"),
    Mistake("groups describe g --members --state", 2, f"odradek groups: --members excludes --state; {SEE.format('groups describe')}"),
    Mistake(
        "groups describe g --members --only-with-lag",
        2,
        f"odradek groups: --only-with-lag is for offsets, not for --members; {SEE.format('groups describe')}",
    ),
    Mistake("groups describe ''", 2, f"odradek groups: --group: this must not be empty; {SEE.format('groups describe')}"),
    Mistake("groups describe none", 1, "odradek groups: Consumer group 'none' does not exist; `odradek groups list` shows all"),
    Mistake(
        "groups list --state stable,nonsense",
        2,
        "odradek groups: Invalid states list 'stable,nonsense'. Valid states are: PreparingRebalance, CompletingRebalance, Stable, Dead, "
        f"Empty, Assigning, Reconciling, NotReady; {SEE.format('groups list')}",
    ),
    Mistake(
        "groups list --type nonsense",
        2,
        "odradek groups: Invalid types list 'nonsense'. Valid types are: Consumer, Classic, Share, Streams; " + SEE.format("groups list"),
    ),
    Mistake("groups list --consumer --share", 2, f"odradek groups: --consumer excludes --share; {SEE.format('groups list')}"),
    Mistake("groups delete", 2, f"odradek groups: one of GROUP, --all-groups is needed; {SEE.format('groups delete')}"),
    Mistake("groups delete none", 1, "odradek groups: none: GROUP_ID_NOT_FOUND: Group none not found; <*>"),
    Mistake("groups delete none --execute", 1, "odradek groups: none: GROUP_ID_NOT_FOUND<*>"),
    Mistake("groups delete-offsets g", 2, f"odradek groups: Missing option '--topic'; {SEE.format('groups delete-offsets')}"),
    Mistake(
        "groups delete-offsets g h --topic t", 2, f"odradek groups: one GROUP at a time, not g and h; {SEE.format('groups delete-offsets')}"
    ),
    Mistake(
        "groups delete-offsets none --topic t",
        1,
        "odradek groups: GROUP_ID_NOT_FOUND: Group none not found; <*>",
    ),
    Mistake(
        "groups delete-offsets g --topic t:0,x",
        2,
        f"odradek groups: --topic t:0,x: this must be TOPIC or TOPIC:N,N; {SEE.format('groups delete-offsets')}",
    ),
    Mistake(
        "groups reset-offsets --to-latest --topic t",
        2,
        f"odradek groups: one of GROUP, --all-groups is needed; {SEE.format('groups reset-offsets')}",
    ),
    Mistake(
        "groups reset-offsets g --topic t",
        2,
        "odradek groups: one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, --by-duration, "
        f"--from-file is needed; {SEE.format('groups reset-offsets')}",
    ),
    Mistake(
        "groups reset-offsets g --topic t --to-latest --shift-by 1",
        2,
        f"odradek groups: --to-latest excludes --shift-by; {SEE.format('groups reset-offsets')}",
    ),
    Mistake(
        "groups reset-offsets g --to-latest",
        2,
        "odradek groups: One of the reset scopes should be defined: --all-topics, --topic; " + SEE.format("groups reset-offsets"),
    ),
    Mistake(
        "groups reset-offsets g --to-latest --topic t --all-topics",
        2,
        f"odradek groups: --topic excludes --all-topics; {SEE.format('groups reset-offsets')}",
    ),
    Mistake(
        "groups reset-offsets g --to-datetime yesterday --topic t",
        2,
        "odradek groups: --to-datetime yesterday: this must be a time such as 2023-11-14T22:13:20.000, or with a zone, "
        f"2023-11-14T22:13:20+01:00; {SEE.format('groups reset-offsets')}",
    ),
    Mistake(
        "groups reset-offsets g --by-duration 1h --topic t",
        2,
        "odradek groups: --by-duration 1h: this must be a duration such as P7D, PT12H or P1DT2H3M4.5S; "
        + SEE.format("groups reset-offsets"),
    ),
    Mistake(
        "groups reset-offsets g --to-latest --topic t --export -J",
        2,
        f"odradek groups: --export excludes -o json: it prints CSV; {SEE.format('groups reset-offsets')}",
    ),
    Mistake(
        "groups reset-offsets g --to-latest --topic none", 1, "odradek groups: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist<*>"
    ),
    Mistake("groups reset-offsets g --to-latest --topic there:0,2", 1, "odradek groups: topic there has partitions 0 to 1, not 2"),
    Mistake("groups reset-offsets g --from-file /none.csv", 1, "odradek groups: /none.csv: No such file or directory"),
    Mistake("groups validate-regex 'a('", 1, "odradek groups: The regular expression is invalid: 'a(' is no valid pattern: missing ): a("),
    Mistake("groups validate-regex", 2, f"odradek groups: Missing argument 'PATTERN'; {SEE.format('groups validate-regex')}"),
    # -- configs ----------------------------------------------------------------------------------------------------------------------
    Mistake("configs describe --topic none", 1, "odradek configs: UNKNOWN_TOPIC_OR_PARTITION: configuration of topic none; <*>"),
    Mistake(
        "configs describe",
        2,
        "odradek configs: At least one entity type must be specified: --entity-type, or --topic, --broker, --user and so on; "
        + SEE.format("configs describe"),
    ),
    Mistake("configs describe --entity-type tables", 2, f"odradek configs: <*>'tables'<*>{SEE.format('configs describe')}"),
    Mistake("configs describe --topic ''", 2, f"odradek configs: --topic: this must not be empty; {SEE.format('configs describe')}"),
    Mistake(
        "configs alter --topic there",
        2,
        "odradek configs: At least one of --add-config, --add-config-file or --delete-config must be specified with alter; "
        + SEE.format("configs alter"),
    ),
    Mistake(
        "configs alter --entity-type topics --add-config a=b",
        2,
        f"odradek configs: --entity-name is needed to change topics; {SEE.format('configs alter')}",
    ),
    Mistake(
        "configs alter --topic there --add-config retention.ms",
        2,
        "odradek configs: --add-config retention.ms: this must be key=value; a value with commas stands in [ ]; "
        + SEE.format("configs alter"),
    ),
    Mistake(
        "configs alter --topic there --add-config a=b --add-config-file x",
        2,
        f"odradek configs: Only one of --add-config or --add-config-file must be specified; {SEE.format('configs alter')}",
    ),
    Mistake(
        "configs alter --topic there --add-config a=b --delete-config a",
        2,
        f"odradek configs: a is to be set and deleted; {SEE.format('configs alter')}",
    ),
    Mistake(
        "configs alter --topic there --add-config a=1 --delete-config x,,y",
        2,
        f"odradek configs: --delete-config x,,y: this must be key,key; {SEE.format('configs alter')}",
    ),
    Mistake(
        "configs alter --topic there --add-config a --delete-config x",
        2,
        f"odradek configs: --add-config a: this must be key=value<*>{SEE.format('configs alter')}",
    ),
    Mistake("configs alter --topic there --add-config-file /none", 1, "odradek configs: /none: No such file or directory"),
    Mistake(
        "configs alter --topic there --delete-config none",
        1,
        "odradek configs: INVALID_CONFIG: Invalid config(s): none; `odradek configs describe --all` shows keys and values",
    ),
    Mistake(
        "configs alter --user u --add-config rate=5",
        2,
        "odradek configs: rate: users have consumer_byte_rate, controller_mutation_rate, producer_byte_rate, request_percentage, "
        f"SCRAM-SHA-256 and SCRAM-SHA-512; {SEE.format('configs alter')}",
    ),
    Mistake(
        "configs alter --client c --add-config 'SCRAM-SHA-256=[password=x]'",
        2,
        "odradek configs: SCRAM-SHA-256: clients have consumer_byte_rate, controller_mutation_rate, producer_byte_rate, "
        f"request_percentage; {SEE.format('configs alter')}",
    ),
    Mistake(
        "configs alter --user u --client c --add-config 'SCRAM-SHA-256=[password=x]'",
        2,
        f"odradek configs: SCRAM credentials are those of one user: --user NAME alone; {SEE.format('configs alter')}",
    ),
    Mistake(
        "configs alter --user u --add-config 'SCRAM-SHA-256=[iterations=8192]'",
        2,
        "odradek configs: --add-config SCRAM-SHA-256: this must be SCRAM-SHA-256=[iterations=N,password=PASSWORD]; "
        + SEE.format("configs alter"),
    ),
    Mistake(
        "configs alter --user u --add-config producer_byte_rate=nan",
        2,
        f"odradek configs: producer_byte_rate=nan: this must be a number; {SEE.format('configs alter')}",
    ),
    # -- transactions -----------------------------------------------------------------------------------------------------------------
    Mistake(
        "transactions find-hanging",
        2,
        "odradek transactions: find-hanging requires either --topic or --broker-id to limit the scope of the search; "
        + SEE.format("transactions find-hanging"),
    ),
    Mistake(
        "transactions find-hanging --broker-id 1 --partition 0",
        2,
        f"odradek transactions: The --partition argument requires --topic to be provided; {SEE.format('transactions find-hanging')}",
    ),
    Mistake(
        "transactions describe-producers --topic there --partition 7", 1, "odradek transactions: topic there has partitions 0 to 1, not 7"
    ),
    Mistake("transactions describe-producers --topic none --partition 0", 1, "odradek transactions: UNKNOWN_TOPIC_OR_PARTITION<*>"),
    Mistake(
        "transactions abort --topic there --partition 0",
        2,
        "odradek transactions: The transaction to abort must be identified either with --start-offset, or with --producer-id, "
        f"--producer-epoch and --coordinator-epoch; {SEE.format('transactions abort')}",
    ),
    Mistake(
        "transactions abort --topic there --partition 0 --producer-id 1 --producer-epoch 0",
        2,
        f"odradek transactions: Missing required argument --coordinator-epoch; {SEE.format('transactions abort')}",
    ),
    Mistake(
        "transactions abort --topic there --partition 0 --start-offset 0 --producer-id 1",
        2,
        f"odradek transactions: --start-offset excludes --producer-id; {SEE.format('transactions abort')}",
    ),
    Mistake(
        "transactions abort --topic there --partition 0 --start-offset 3 --execute",
        1,
        "odradek transactions: Could not find any open transactions starting at offset 3 on partition there-0; `odradek transactions "
        "describe-producers --topic there --partition 0` shows those there are",
    ),
    Mistake(
        "transactions force-terminate a b",
        2,
        f"odradek transactions: one TRANSACTIONAL-ID at a time, not a and b; {SEE.format('transactions force-terminate')}",
    ),
    # -- client-metrics ---------------------------------------------------------------------------------------------------------------
    Mistake(
        "client-metrics delete none", 1, "odradek client-metrics: there is no subscription none; `odradek client-metrics list` shows all"
    ),
    Mistake(
        "client-metrics alter --name a --generate-name --metrics x",
        2,
        f"odradek client-metrics: --name excludes --generate-name; {SEE.format('client-metrics alter')}",
    ),
    Mistake(
        "client-metrics alter --name a --interval soon",
        2,
        f"odradek client-metrics: --interval soon: this must be a number of milliseconds; {SEE.format('client-metrics alter')}",
    ),
    # -- acls -------------------------------------------------------------------------------------------------------------------------
    Mistake("acls list", 1, "odradek acls: SECURITY_DISABLED: No Authorizer is configured; authorizer.class.name of the brokers sets one"),
    Mistake(
        "acls add --allow-principal User:a",
        2,
        "odradek acls: You must specify at least one resource: --topic, --group, --cluster, --transactional-id; " + SEE.format("acls add"),
    ),
    Mistake(
        "acls add --topic t", 2, f"odradek acls: You must specify one of: --allow-principal, --deny-principal; {SEE.format('acls add')}"
    ),
    Mistake(
        "acls add --producer --topic t --allow-principal User:a --operation Read",
        2,
        f"odradek acls: --producer and --consumer exclude --operation; {SEE.format('acls add')}",
    ),
    Mistake(
        "acls add --topic t --allow-principal User:a --resource-pattern-type match",
        2,
        f"odradek acls: <*>'match' is not one of 'literal', 'prefixed'; {SEE.format('acls add')}",
    ),
    # -- delegation-tokens ------------------------------------------------------------------------------------------------------------
    Mistake(
        "delegation-tokens create",
        1,
        "odradek delegation-tokens: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: creating<*>; tokens need <*>",
    ),
    Mistake(
        "delegation-tokens renew --hmac '?'",
        2,
        f"odradek delegation-tokens: --hmac ?: this must be Base64, as `create` prints it; {SEE.format('delegation-tokens renew')}",
    ),
    Mistake(
        "delegation-tokens renew --hmac é",
        2,
        f"odradek delegation-tokens: --hmac é: this must be Base64, as `create` prints it; {SEE.format('delegation-tokens renew')}",
    ),
    Mistake(
        "delegation-tokens create --owner-principal alice",
        2,
        "odradek delegation-tokens: --owner-principal alice: a principal must be TYPE:NAME, such as User:alice; "
        + SEE.format("delegation-tokens create"),
    ),
    # -- offsets ----------------------------------------------------------------------------------------------------------------------
    Mistake(
        "offsets --topic-partitions a:0 --topic a",
        2,
        f"odradek offsets: --topic-partitions cannot be used with --topic or --partitions; {SEE.format('offsets')}",
    ),
    Mistake(
        "offsets --topic-partitions a:x",
        2,
        f"odradek offsets: --topic-partitions: Invalid rule specification: a:x; {SEE.format('offsets')}",
    ),
    Mistake(
        "offsets --partitions 0,x",
        2,
        "odradek offsets: --partitions expects a comma separated list of numeric partition ids, but received: 0,x; "
        + SEE.format("offsets"),
    ),
    Mistake("offsets --topic 'a('", 2, f"odradek offsets: --topic a(: this is no regular expression: <*>; {SEE.format('offsets')}"),
    Mistake("offsets --time -7", 2, f"odradek offsets: Malformed time argument -7. It must be one of <*>; {SEE.format('offsets')}"),
    Mistake(
        "offsets --topic none",
        1,
        "odradek offsets: Could not match any topic-partitions with the specified filters; `odradek topics list` shows what there is",
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
        "groups list",
        "groups describe g --timeout 100",
        "groups delete g",
        "groups delete g --execute --timeout 100",
        "groups delete-offsets g --topic t --timeout 100",
        "groups reset-offsets g --topic t --to-latest --timeout 100",
        "offsets",
        "configs describe --topic t",
        "configs describe --user u",
        "configs alter --topic t -s a=b",
        "configs alter --user u -s producer_byte_rate=1",
        "transactions list",
        "transactions describe x",
        "transactions describe-producers --topic t --partition 0",
        "transactions find-hanging --broker-id 1",
        "transactions abort --topic t --partition 0 --start-offset 0",
        "transactions force-terminate x",
        "client-metrics list",
        "client-metrics alter --name a --metrics x",
        "acls list",
        "acls add --topic t --allow-principal User:a",
        "acls remove --topic t --execute",
        "delegation-tokens create",
        "delegation-tokens describe",
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
