"""ACLs that JVM Kafka's own tool sets on Odradek's broker, nodes that take each other's over, and the same answers as JVM Kafka's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from interop.peers import REPOSITORY, JvmBroker, OdradekBroker, run_jvm_tool
from odradek.client import Admin
from odradek.client.admin.types.security import AclBinding, AclOperation, AclPermissionType, PatternType, ResourceType

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(580)]

ACLS = "org.apache.kafka.tools.AclCommand"
GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
READ = AclBinding(ResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)
DENY = AclBinding(ResourceType.GROUP, "team-", "User:bob", AclOperation.ALL, AclPermissionType.DENY, "10.0.0.1", PatternType.PREFIXED)


def kafka_acls(broker: OdradekBroker, *arguments: str) -> str:
    done = run_jvm_tool(ACLS, "--bootstrap-server", broker.bootstrap, *arguments)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_kafka_acls_sets_lists_and_removes_them(tmp_path: Path) -> None:
    with OdradekBroker(tmp_path, GUARDED) as broker:
        kafka_acls(broker, "--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
        deny = ("--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--group", "team-", "--resource-pattern-type", "prefixed")
        kafka_acls(broker, "--add", *deny)
        listed = kafka_acls(broker, "--list")
        assert "ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)" in listed
        assert "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)" in listed
        assert "(principal=User:bob, host=10.0.0.1, operation=ALL, permissionType=DENY)" in listed
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            assert set(admin.describe_acls()) == {READ, DENY}
        kafka_acls(broker, "--remove", "--force", "--topic", "orders")
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            assert admin.describe_acls() == [DENY]


def test_either_implementation_goes_on_with_the_others_acls(tmp_path: Path) -> None:
    first = OdradekBroker(tmp_path, GUARDED)
    with first, Admin(bootstrap_servers=first.bootstrap) as admin:
        admin.create_acls([READ])
    second = JvmBroker(tmp_path, GUARDED, port=first.port, heap="512m")
    second.controller_port = first.controller_port
    second.start(180)
    try:
        with Admin(bootstrap_servers=second.bootstrap) as admin:
            assert admin.describe_acls() == [READ]
            admin.create_acls([DENY])
    finally:
        second.stop()
    with first, Admin(bootstrap_servers=first.bootstrap) as admin:
        assert set(admin.describe_acls()) == {READ, DENY}


def test_clients_with_some_rights_are_told_what_jvm_kafka_tells_them() -> None:
    command = [sys.executable, "-m", "interop.differential.access", "--versions", "ends"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=570, check=False, cwd=REPOSITORY)
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-5_000:]}"
    assert int(done.stdout.splitlines()[-1].split()[0]) > 2_000, "many of the samples are missing"
