"""Mistakes in the command lines of `odradek configs`, `client-metrics`, `acls` and `delegation-tokens`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.mistakes import SEE, Mistake, check

MISTAKES = (
    # -- configs -------------------------------------------------------------------------------------------------------------------------
    Mistake("configs describe --topic none", 1, "odradek configs: UNKNOWN_TOPIC_OR_PARTITION: configuration of topic none; <*>"),
    Mistake(
        "configs describe",
        2,
        "odradek configs: At least one entity type must be specified: --entity-type, or --topic, --broker, --user and so on; "
        + SEE.format("configs describe"),
    ),
    Mistake("configs describe --entity-type tables", 2, f"odradek configs: <*>'tables'<*>{SEE.format('configs describe')}"),
    Mistake(
        "configs describe --topic ''", 2, f"odradek configs: --topic: expected a value, not an empty one; {SEE.format('configs describe')}"
    ),
    Mistake(
        "configs alter --topic there",
        2,
        "odradek configs: At least one of --add-config, --add-config-file or --delete-config must be specified with alter; "
        + SEE.format("configs alter"),
    ),
    Mistake(
        "configs alter --entity-type topics --add-config a=b",
        2,
        f"odradek configs: --entity-name is required to change topics; {SEE.format('configs alter')}",
    ),
    Mistake(
        "configs alter --topic there --add-config retention.ms",
        2,
        "odradek configs: --add-config retention.ms: expected KEY=VALUE; put a value with commas in [ ]; " + SEE.format("configs alter"),
    ),
    Mistake(
        "configs alter --topic there --add-config a=b --add-config-file x",
        2,
        f"odradek configs: Only one of --add-config or --add-config-file must be specified; {SEE.format('configs alter')}",
    ),
    Mistake(
        "configs alter --topic there --add-config a=b --delete-config a",
        2,
        f"odradek configs: a is in --add-config and in --delete-config; {SEE.format('configs alter')}",
    ),
    Mistake(
        "configs alter --topic there --add-config a=1 --delete-config x,,y",
        2,
        f"odradek configs: --delete-config x,,y: expected KEY,KEY; {SEE.format('configs alter')}",
    ),
    Mistake(
        "configs alter --topic there --add-config a --delete-config x",
        2,
        f"odradek configs: --add-config a: expected KEY=VALUE<*>{SEE.format('configs alter')}",
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
        "odradek configs: rate: unknown key of users; the keys are consumer_byte_rate, controller_mutation_rate, producer_byte_rate, "
        "request_percentage, "
        f"SCRAM-SHA-256 and SCRAM-SHA-512; {SEE.format('configs alter')}",
    ),
    Mistake(
        "configs alter --client c --add-config 'SCRAM-SHA-256=[password=x]'",
        2,
        "odradek configs: SCRAM-SHA-256: unknown key of clients; the keys are consumer_byte_rate, controller_mutation_rate, "
        "producer_byte_rate, "
        f"request_percentage; {SEE.format('configs alter')}",
    ),
    Mistake(
        "configs alter --user u --client c --add-config 'SCRAM-SHA-256=[password=x]'",
        2,
        f"odradek configs: SCRAM credentials belong to one user; give only --user NAME; {SEE.format('configs alter')}",
    ),
    Mistake(
        "configs alter --user u --add-config 'SCRAM-SHA-256=[iterations=8192]'",
        2,
        "odradek configs: --add-config SCRAM-SHA-256: expected SCRAM-SHA-256=[iterations=N,password=PASSWORD]; "
        + SEE.format("configs alter"),
    ),
    Mistake(
        "configs alter --user u --add-config producer_byte_rate=nan",
        2,
        f"odradek configs: producer_byte_rate=nan: expected a number; {SEE.format('configs alter')}",
    ),
    # -- client-metrics ------------------------------------------------------------------------------------------------------------------
    Mistake(
        "client-metrics delete none",
        1,
        "odradek client-metrics: subscription none does not exist; `odradek client-metrics list` shows all subscriptions",
    ),
    Mistake(
        "client-metrics alter --name a --generate-name --metrics x",
        2,
        f"odradek client-metrics: --name cannot be used with --generate-name; {SEE.format('client-metrics alter')}",
    ),
    Mistake(
        "client-metrics alter --name a --interval soon",
        2,
        f"odradek client-metrics: --interval soon: expected a number of milliseconds; {SEE.format('client-metrics alter')}",
    ),
    # -- acls ----------------------------------------------------------------------------------------------------------------------------
    Mistake("acls list", 1, "odradek acls: SECURITY_DISABLED: No Authorizer is configured; set authorizer.class.name on the brokers"),
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
        f"odradek acls: --producer and --consumer cannot be used with --operation; {SEE.format('acls add')}",
    ),
    Mistake(
        "acls add --topic t --allow-principal User:a --resource-pattern-type match",
        2,
        f"odradek acls: <*>'match' is not one of 'literal', 'prefixed'; {SEE.format('acls add')}",
    ),
    # -- delegation-tokens ---------------------------------------------------------------------------------------------------------------
    Mistake(
        "delegation-tokens create",
        1,
        "odradek delegation-tokens: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: creating<*>; tokens need <*>",
    ),
    Mistake(
        "delegation-tokens renew --hmac '?'",
        2,
        f"odradek delegation-tokens: --hmac ?: expected Base64, as `create` prints it; {SEE.format('delegation-tokens renew')}",
    ),
    Mistake(
        "delegation-tokens renew --hmac é",
        2,
        f"odradek delegation-tokens: --hmac é: expected Base64, as `create` prints it; {SEE.format('delegation-tokens renew')}",
    ),
    Mistake(
        "delegation-tokens create --owner-principal alice",
        2,
        "odradek delegation-tokens: --owner-principal alice: expected a principal TYPE:NAME, such as User:alice; "
        + SEE.format("delegation-tokens create"),
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
