"""Mistakes in the command lines and the files of `odradek start` and `odradek storage`, and unknown commands.

In `FILES` and in the table, % stands for a port that is in use.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.storage.disk import OsDisk
from tests.cli.conftest import Command
from tests.cli.mistakes import NODE, SEE, Mistake, check, pattern

START = SEE.format("start")

FILES: dict[str, str | bytes] = {
    "node.properties": NODE,
    "empty.properties": "# nothing yet\n",
    "latin.properties": NODE.encode() + b"broker.rack=caf\xe9\n",
    "escape.properties": NODE + "\n# a comment\nbroker.rack=\\u12g4\n",
    "typo.properties": NODE + "log.retention.hourz=1\n",
    "text.properties": NODE + "num.partitions=many\n",
    "small.properties": NODE + "num.partitions=0\n",
    "continued.properties": "controller.quorum.voters=\\\n  here\n" + NODE,
    "twice.properties": NODE + "num.partitions=1\nnum.partitions=-2\n",
    "acls.properties": NODE + "authorizer.class.name=com.example.Authorizer\n",
    "provider.properties": NODE + "ssl.provider=BC\n",
    "vault.properties": NODE + "config.providers=vault\nconfig.providers.vault.class=com.example.Vault\n",
    "secret.properties": NODE
    + "config.providers=file\nconfig.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
    + "broker.rack=${file:@/nowhere.properties:rack}\n",
    "policy.properties": NODE.replace("@/data", "@/formatted") + "create.topic.policy.class.name=com.example.Policy\n",
    "zookeeper.properties": "zookeeper.connect=localhost:2181\n" + NODE,
    "nameless.properties": NODE.replace("node.id=1\n", ""),
    "roles.properties": NODE.replace("broker,controller", "borker"),
    "broker.properties": NODE.replace("broker,controller", "broker").replace(",CONTROLLER://127.0.0.1:0", ""),
    "controllerless.properties": NODE.replace(",CONTROLLER://127.0.0.1:0", ""),
    "quorumless.properties": NODE.replace("controller.quorum.bootstrap.servers=127.0.0.1:9093\n", ""),
    "twoServers.properties": NODE.replace("servers=127.0.0.1:9093", "servers=127.0.0.1:9093,127.0.0.1:9193"),
    "twoVoters.properties": NODE + "controller.quorum.voters=1@127.0.0.1:9093,2@127.0.0.1:9193\n",
    "voters.properties": NODE + "controller.quorum.voters=2@127.0.0.1:9093\n",
    "everywhere.properties": NODE.replace("PLAINTEXT://127.0.0.1:0", "PLAINTEXT://0.0.0.0:0"),
    "advertised.properties": NODE + "advertised.listeners=PLAINTEXT://0.0.0.0:9092\n",
    "strange.properties": NODE + "advertised.listeners=OTHER://localhost:9092\n",
    "taken.properties": NODE.replace("PLAINTEXT://127.0.0.1:0", "PLAINTEXT://127.0.0.1:%").replace("@/data", "@/formatted"),
    "formatted.properties": NODE.replace("@/data", "@/formatted"),
    "half.properties": NODE.replace("@/data", "@/formatted,@/data"),
    "file.properties": NODE.replace("@/data", "@/file"),
    "foreign.properties": NODE.replace("@/data", "@/foreign"),
    "otherNode.properties": NODE.replace("@/data", "@/otherNode"),
    "otherCluster.properties": NODE.replace("@/data", "@/formatted,@/otherCluster"),
    "zookeeperTimes.properties": NODE.replace("@/data", "@/zookeeperTimes"),
    "file": "x",
    "lines": "k:v\n",
    "big": b"x" * 2_000_000,
    "foreign/holiday.jpg": "x",
    "foreign/letters/to-aunt": "x",
    "formatted/meta.properties": "version=1\ncluster.id=theCluster\nnode.id=1\n",
    "otherNode/meta.properties": "version=1\ncluster.id=theCluster\nnode.id=7\n",
    "otherCluster/meta.properties": "version=1\ncluster.id=another\nnode.id=1\n",
    "zookeeperTimes/meta.properties": "version=0\nbroker.id=1\n",
    "unknownVersion/meta.properties": "version=2\ncluster.id=theCluster\nnode.id=1\n",
}

MISTAKES = (
    # -- which command? ------------------------------------------------------------------------------------------------------------------
    Mistake("nonsense", 2, "odradek: No such command 'nonsense'; see `odradek --help`"),
    Mistake("topic list", 2, "odradek: No such command 'topic'. Did you mean 'topics'? See `odradek --help`"),
    Mistake("help nonsense", 2, "odradek: No such command 'nonsense'; see `odradek --help`"),
    Mistake("--verbose start", 2, "odradek: No such option '--verbose'; see `odradek --help`"),
    # -- start: the command line ---------------------------------------------------------------------------------------------------------
    Mistake("start --frobnicate", 2, f"odradek start: No such option '--frobnicate'; {START}"),
    Mistake("start --overide a=b", 2, f"odradek start: No such option '--overide'. Did you mean '--override'? {START.capitalize()}"),
    Mistake("start -x", 2, f"odradek start: No such option '-x'; {START}"),
    Mistake("start --prot 9192", 2, f"odradek start: No such option '--prot'. Did you mean '--port'? {START.capitalize()}"),
    Mistake("start --port", 2, f"odradek start: Option '--port' requires an argument; {START}"),
    Mistake("start --port many", 2, f"odradek start: --port many: expected a number from 0 to 65535; {START}"),
    Mistake("start --port 65536", 2, f"odradek start: --port 65536: expected a number from 0 to 65535; {START}"),
    Mistake("start --port=-1", 2, f"odradek start: --port -1: expected a number from 0 to 65535; {START}"),
    Mistake("start --host ''", 2, f"odradek start: --host : expected a host name or an address of this machine; {START}"),
    Mistake(
        "start --host http://here", 2, f"odradek start: --host http://here: expected a host name or an address of this machine; {START}"
    ),
    Mistake(
        "start --port 9192 @/node.properties",
        2,
        "odradek start: --host and --port cannot be used with FILE; use --override listeners=PLAINTEXT://HOST:PORT; " + START,
    ),
    Mistake(
        "start --host 127.0.0.1 --override listeners=PLAINTEXT://127.0.0.1:0",
        2,
        f"odradek start: --host and --port cannot be used with --override listeners; {START}",
    ),
    Mistake("start --override", 2, f"odradek start: Option '--override' requires an argument; {START}"),
    Mistake("start --override num.partitions", 2, f"odradek start: --override num.partitions: expected KEY=VALUE; {START}"),
    Mistake("start --override =3", 2, f"odradek start: --override =3: expected KEY=VALUE; {START}"),
    Mistake("start --quiet=yes", 2, f"odradek start: Option '--quiet' does not take a value; {START}"),
    Mistake("start --data-dir ''", 2, f"odradek start: --data-dir: expected a directory, not an empty value; {START}"),
    Mistake("start one two", 2, f"odradek start: give only one FILE, not one and two; {START}"),
    Mistake(
        "start @/node.properties --data-dir @/data",
        2,
        f"odradek start: --data-dir cannot be used with FILE; use --override log.dirs=DIRECTORY; {START}",
    ),
    # -- start: the file -----------------------------------------------------------------------------------------------------------------
    Mistake(
        "start @/none.properties",
        1,
        "odradek start: cannot read @/none.properties: No such file or directory; name a file such as server.properties",
    ),
    Mistake("start @", 1, "odradek start: cannot read @: Is a directory; name a file such as server.properties"),
    Mistake(
        "start @/latin.properties",
        1,
        "odradek start: @/latin.properties:7: the byte 0xe9 is not UTF-8; save the file as UTF-8, or write the character as \\uXXXX",
    ),
    Mistake(
        "start @/escape.properties",
        1,
        "odradek start: @/escape.properties:9: Malformed \\uxxxx encoding: \\u12g4 (a backslash itself is written \\\\)",
    ),
    Mistake(
        "start @/typo.properties",
        1,
        "odradek start: @/typo.properties:7: Unknown configuration key log.retention.hourz (did you mean log.retention.hours?)",
    ),
    Mistake(
        "start @/text.properties",
        1,
        "odradek start: @/text.properties:7: Invalid value many for configuration num.partitions: Not a number of type INT",
    ),
    Mistake(
        "start @/small.properties",
        1,
        "odradek start: @/small.properties:7: Invalid value 0 for configuration num.partitions: Value must be at least 1",
    ),
    Mistake(
        "start @/continued.properties",
        1,
        "odradek start: @/continued.properties:1: Invalid configuration value for controller.quorum.voters. "
        "Each entry should be in the form `{id}@{host}:{port}`, but is 'here'",
    ),
    Mistake(
        "start @/empty.properties",
        1,
        "odradek start: @/empty.properties: Missing required configuration: "
        "controller.listener.names (such as controller.listener.names=CONTROLLER), node.id (such as node.id=1), "
        "process.roles (such as process.roles=broker,controller)",
    ),
    Mistake(
        "start @/nameless.properties",
        1,
        "odradek start: @/nameless.properties: Missing required configuration: node.id (such as node.id=1)",
    ),
    Mistake(
        "start @/roles.properties",
        1,
        "odradek start: @/roles.properties:1: Invalid value borker for configuration process.roles: "
        "String must be one of: broker, controller",
    ),
    Mistake(
        "start @/broker.properties",
        1,
        "odradek start: No meta.properties found in @/data: the log directory is not formatted; format first: "
        "odradek storage format -c @/broker.properties -t CLUSTER_ID (the same on all nodes of the cluster)",
    ),
    Mistake(
        "start @/controllerless.properties",
        1,
        "odradek start: @/controllerless.properties:3: controller.listener.names must contain at least one value appearing in the "
        "'listeners' configuration when running the KRaft controller role",
    ),
    Mistake(
        "start @/quorumless.properties",
        1,
        "odradek start: @/quorumless.properties: controller.quorum.bootstrap.servers (or controller.quorum.voters) must name the "
        "controllers of the quorum",
    ),
    Mistake(
        "start @/voters.properties",
        1,
        "odradek start: @/voters.properties:7: controller.quorum.voters must contain node.id 1, since process.roles contains controller",
    ),
    Mistake(
        "start @/acls.properties",
        1,
        "odradek start: @/acls.properties:7: authorizer.class.name=com.example.Authorizer: unknown authorizer; "
        "the only one is org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    ),
    Mistake(
        "start @/vault.properties",
        1,
        "odradek start: @/vault.properties:8: config.providers.vault.class=com.example.Vault: Java classes cannot run here; "
        "the supported classes are "
        "org.apache.kafka.common.config.provider.FileConfigProvider, <*>",
    ),
    Mistake(
        "start @/secret.properties",
        1,
        "odradek start: @/secret.properties:9: broker.rack: Could not read properties from file @/nowhere.properties: "
        "No such file or directory",
    ),
    Mistake(
        "start @/policy.properties",
        1,
        "odradek start: create.topic.policy.class.name=com.example.Policy: the group odradek.policies has no "
        "entry point of this name, and Java classes cannot run here; install a package that has it, or name a Python class, "
        "package.module:Class",
    ),
    Mistake(
        "start @/provider.properties",
        1,
        "odradek start: @/provider.properties:7: ssl.provider=BC needs Java's TLS providers, which Odradek does not serve yet; "
        "leave the key out",
    ),
    Mistake(
        "start @/zookeeper.properties",
        1,
        "odradek start: @/zookeeper.properties:1: zookeeper.connect: Kafka 4.0 removed ZooKeeper; leave the key out",
    ),
    Mistake(
        "start @/everywhere.properties",
        1,
        "odradek start: @/everywhere.properties:5: listeners: PLAINTEXT://0.0.0.0:0 listens on all addresses, and clients need one "
        "of them; add advertised.listeners=PLAINTEXT://HOST:0 with a host that clients can reach",
    ),
    Mistake(
        "start @/advertised.properties",
        1,
        "odradek start: @/advertised.properties:7: advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. "
        "Use a routable IP address.",
    ),
    Mistake(
        "start @/strange.properties",
        1,
        "odradek start: @/strange.properties:7: Invalid value OTHER://localhost:9092 for configuration advertised.listeners: "
        "No security protocol defined for listener OTHER; add OTHER:PLAINTEXT to listener.security.protocol.map",
    ),
    Mistake(
        "start @/node.properties --override num.partitions=many",
        1,
        "odradek start: --override: Invalid value many for configuration num.partitions: Not a number of type INT",
    ),
    # -- start: addresses ----------------------------------------------------------------------------------------------------------------
    Mistake(
        "start --data-dir @/fresh --host 127.0.0.1 --port %",
        1,
        "odradek start: listener PLAINTEXT: cannot listen on 127.0.0.1:%: Address already in use; is a broker already running? "
        "Choose another port with --port N",
    ),
    Mistake(
        "start --data-dir @/fresh --host 192.0.2.1 --port 0",
        1,
        "odradek start: listener PLAINTEXT: cannot listen on 192.0.2.1:0: Cannot assign requested address; choose an address of this "
        "machine with --host HOST",
    ),
    Mistake(
        "start --data-dir @/fresh --override listeners=PLAINTEXT://127.0.0.1:%",
        1,
        "odradek start: listener PLAINTEXT: cannot listen on 127.0.0.1:%: Address already in use; is a broker already running? "
        "Choose another port with --override listeners=PLAINTEXT://localhost:PORT",
    ),
    Mistake(
        "start @/taken.properties",
        1,
        "odradek start: listener PLAINTEXT: cannot listen on 127.0.0.1:%: Address already in use; is a broker already running? "
        "Choose another port with `listeners` in @/taken.properties",
    ),
    Mistake(
        "start --data-dir @/fresh --override listeners=PLAINTEXT://no.such.host.invalid:0",
        1,
        "odradek start: listener PLAINTEXT: cannot listen on no.such.host.invalid:0: <*>; choose an address of this machine with "
        "--override listeners=PLAINTEXT://localhost:PORT",
    ),
    Mistake(
        "start --data-dir @/fresh --override listeners=PLAINTEXT://192.0.2.1:0",
        1,
        "odradek start: listener PLAINTEXT: cannot listen on 192.0.2.1:0: Cannot assign requested address; choose an address of this "
        "machine with --override listeners=PLAINTEXT://localhost:PORT",
    ),
    Mistake(
        "start --override listeners=9092",
        1,
        "odradek start: Invalid value 9092 for configuration listeners: a listener must have the form NAME://host:port, "
        "such as PLAINTEXT://localhost:9092",
    ),
    Mistake(
        "start --override listeners=PLAINTEXT://localhost:99999",
        1,
        "odradek start: Invalid value PLAINTEXT://localhost:99999 for configuration listeners: the port 99999 is not in 0..65535",
    ),
    Mistake(
        "start --override listeners=",
        1,
        "odradek start: Configuration 'listeners' must not be empty. Valid values include: any non-empty value",
    ),
    Mistake(
        "start --override listeners=SSL://localhost:0,CONTROLLER://localhost:0 --override inter.broker.listener.name=SSL --data-dir @/new",
        1,
        "odradek start: ssl.keystore.location is missing: a listener with TLS needs a key and a certificate",
    ),
    Mistake(
        "start --override listener.name.outside.ssl.client.auth=none",
        1,
        "odradek start: listener.name.outside.ssl.client.auth: the listener OUTSIDE is not in listener.security.protocol.map",
    ),
    # -- start: directories --------------------------------------------------------------------------------------------------------------
    Mistake(
        "start @/node.properties",
        1,
        "odradek start: No meta.properties found in @/data: the log directory is not formatted; format first: "
        "odradek storage format -c @/node.properties -t $(odradek storage random-uuid) --standalone",
    ),
    Mistake(
        "start @/twoServers.properties",
        1,
        "odradek start: No meta.properties found in @/data: the log directory is not formatted; format first: "
        "odradek storage format -c @/twoServers.properties -t CLUSTER_ID --initial-controllers ID@HOST:PORT:DIRECTORY_ID,... "
        "(the same on all nodes of the cluster)",
    ),
    Mistake(
        "start @/twoVoters.properties",
        1,
        "odradek start: No meta.properties found in @/data: the log directory is not formatted; format first: "
        "odradek storage format -c @/twoVoters.properties -t CLUSTER_ID (the same on all nodes of the cluster)",
    ),
    Mistake(
        "start @/half.properties",
        1,
        "odradek start: No meta.properties found in @/data: the log directory is not formatted; is a disk not mounted? Format first: "
        "odradek storage format -c @/half.properties -t theCluster --ignore-formatted",
    ),
    Mistake(
        "start --data-dir @/foreign",
        1,
        "odradek start: @/foreign is not formatted and not empty: it contains holiday.jpg, letters; a log directory must be new, or empty; "
        "choose another directory with --data-dir DIRECTORY",
    ),
    Mistake(
        "start --data-dir @/file",
        1,
        "odradek start: The metadata log directory @/file cannot be used: Not a directory; choose another directory with --data-dir "
        "DIRECTORY",
    ),
    Mistake(
        "start @/file.properties",
        1,
        "odradek start: The metadata log directory @/file cannot be used: Not a directory; choose another directory with `log.dirs` in "
        "@/file.properties",
    ),
    Mistake("start --data-dir /proc/odradek", 1, "odradek start: /proc/odradek: <*>; choose another directory with --data-dir DIRECTORY"),
    Mistake(
        "start --data-dir @/otherNode",
        1,
        "odradek start: Stored node id 7 doesn't match the configured node id 1 in @/otherNode/meta.properties. If the data was moved, "
        "set node.id to the stored one; for a new node use empty directories.",
    ),
    Mistake(
        "start @/otherCluster.properties",
        1,
        "odradek start: Invalid cluster.id in: @/otherCluster/meta.properties. Expected theCluster, but read another",
    ),
    Mistake(
        "start --data-dir @/zookeeperTimes",
        1,
        "odradek start: @/zookeeperTimes/meta.properties: cluster.id is missing",
    ),
    Mistake(
        "start --data-dir @/unknownVersion",
        1,
        "odradek start: @/unknownVersion/meta.properties: unknown version 2; the known versions are 0 and 1",
    ),
    # -- storage -------------------------------------------------------------------------------------------------------------------------
    Mistake("storage frob", 2, f"odradek storage: No such command 'frob'; {SEE.format('storage')}"),
    Mistake("storage format", 2, f"odradek storage: Missing option '-c' / '--config'; {SEE.format('storage format')}"),
    Mistake(
        "storage format -c @/node.properties",
        2,
        f"odradek storage: Missing option '-t' / '--cluster-id'; {SEE.format('storage format')}",
    ),
    Mistake(
        "storage format -c @/node.properties -t x -s -N",
        2,
        f"odradek storage: give only one of -s, -N and -I; {SEE.format('storage format')}",
    ),
    Mistake(
        "storage format -c @/node.properties -t x -s -f group.version",
        2,
        f"odradek storage: group.version: expected NAME=LEVEL, with a level from 0 to 32767; {SEE.format('storage format')}",
    ),
    Mistake(
        "storage format -c @/none.properties -t x",
        1,
        "odradek storage: cannot read @/none.properties: No such file or directory; name a file such as server.properties",
    ),
    Mistake(
        "storage info -c @/text.properties",
        1,
        "odradek storage: @/text.properties:7: Invalid value many for configuration num.partitions: Not a number of type INT",
    ),
    Mistake("storage info -c @", 1, "odradek storage: cannot read @: Is a directory; name a file such as server.properties"),
    Mistake(
        "storage format -c @/node.properties -t x",
        1,
        "odradek storage: Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
        "--standalone, --initial-controllers, or --no-initial-controllers. Use --standalone for a cluster with a single node.",
    ),
    Mistake(
        "storage format -c @/node.properties -t ''  -s",
        1,
        "odradek storage: You must specify the cluster id; `odradek storage random-uuid` prints a new one.",
    ),
    Mistake(
        "storage format -c @/node.properties -t x -I 1@localhost",
        1,
        "odradek storage: No colon following hostname could be found. An initial controller has the form id@host:port:directory-id, "
        "but is 1@localhost",
    ),
    Mistake(
        "storage format -c @/node.properties -t x -s -r 9.9",
        1,
        "odradek storage: Unknown metadata.version '9.9'; the releases are 3.3-IV3 to 4.3-IV0, and short forms such as 4.3",
    ),
    Mistake(
        "storage format -c @/node.properties -t x -s -f none.version=1",
        1,
        "odradek storage: Unsupported feature: none.version. Supported features are: <*>",
    ),
    Mistake(
        "storage format -c @/formatted.properties -t x -s",
        1,
        "odradek storage: Log directory @/formatted is already formatted. Use --ignore-formatted to ignore this directory and format the "
        "others.",
    ),
    Mistake(
        "storage format -c @/half.properties -t x -s -g",
        1,
        "odradek storage: Invalid cluster.id in: @/formatted/meta.properties. Expected x, but read theCluster; "
        "the directory belongs to that cluster.",
    ),
    Mistake(
        "storage format -c @/foreign.properties -t x -s",
        1,
        "odradek storage: @/foreign is not formatted and not empty: it contains holiday.jpg, letters; a log directory must be "
        "new, or empty",
    ),
    Mistake(
        "storage format -c @/file.properties -t x -s",
        1,
        "odradek storage: No available log directories to format: @/file: Not a directory",
    ),
    Mistake("storage scrub", 2, f"odradek storage: Missing argument 'FILE'; {SEE.format('storage scrub')}"),
    Mistake(
        "storage scrub @/none.properties",
        1,
        "odradek storage: cannot read @/none.properties: No such file or directory; name a file such as server.properties",
    ),
    Mistake(
        "storage version-mapping -r 9.9",
        1,
        "odradek storage: Unknown metadata.version '9.9'; the releases are 3.3-IV3 to 4.3-IV0, and short forms such as 4.3",
    ),
    Mistake(
        "storage feature-dependencies",
        2,
        f"odradek storage: Missing option '-f' / '--feature'; {SEE.format('storage feature-dependencies')}",
    ),
    Mistake(
        "storage feature-dependencies -f none.version=1",
        1,
        "odradek storage: the feature none.version does not exist; `odradek storage version-mapping` lists features and levels",
    ),
    Mistake(
        "storage feature-dependencies -f metadata.version=99", 1, "odradek storage: Unknown metadata.version 99; the levels are 7 to 30"
    ),
    Mistake(
        "storage feature-dependencies -f group.version=99",
        1,
        "odradek storage: the feature group.version has no level 99; `odradek storage version-mapping` lists features and levels",
    ),
    Mistake("storage random-uuid 3", 2, f"odradek storage: Got unexpected extra argument (3); {SEE.format('storage random-uuid')}"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, taken: int) -> Path:
    """Return a folder with `FILES`."""
    here = tmp_path_factory.mktemp("mistakes")
    for name, content in FILES.items():
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            content = content.replace("@/", f"{here}/").replace(":%", f":{taken}").encode()
        path.write_bytes(content)
    return here


@pytest.fixture(scope="module")
def taken() -> Iterator[int]:
    """Yield a port of the loopback interface that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


def with_port(text: str, port: int) -> str:
    """Return the text with the port in place of each %."""
    return re.sub(r"(?<=:)%|(?<=--port )%", str(port), text)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.typed)
def test_a_mistake_is_reported_in_one_line(mistake: Mistake, folder: Path, taken: int, command: Command) -> None:
    check(Mistake(with_port(mistake.typed, taken), mistake.status, with_port(mistake.answer, taken)), command, folder)
    assert not (folder / "data").exists(), "a failed command has created the data directory"


def test_each_command_line_is_listed_once() -> None:
    assert len(MISTAKES) >= 70
    assert len({mistake.typed for mistake in MISTAKES}) == len(MISTAKES)


# -- more than a command line -------------------------------------------------------------------------------------------------------------


def test_a_key_that_stands_twice_is_told_and_the_later_one_counts(folder: Path, command: Command) -> None:
    answer = command("start", f"{folder}/twice.properties")
    assert answer.err.splitlines() == [
        f"{folder}/twice.properties:8: num.partitions is already set in line 7; this line replaces that value",
        f"odradek start: {folder}/twice.properties:8: Invalid value -2 for configuration num.partitions: Value must be at least 1",
    ]
    assert answer.status == 1


def test_a_file_that_is_something_else_is_answered_in_one_line(tmp_path: Path, command: Command) -> None:
    (tmp_path / "server.properties").write_text("the quick fox\n" * 1000)
    answer = command("start", f"{tmp_path}/server.properties")
    assert answer == (1, "", f"odradek start: {tmp_path}/server.properties:1000: Unknown configuration key the\n")
    (tmp_path / "server.properties").write_text(NODE + "num.partitions=1\n" * 9 + "log.dir=/a\n" * 2 + "broker.id=9\n")
    first, last = command("start", f"{tmp_path}/server.properties").err.splitlines()
    assert (
        first
        == f"{tmp_path}/server.properties:8: num.partitions is already set in line 7; this line replaces that value (8 more repeated lines)"
    )
    assert last == f"odradek start: {tmp_path}/server.properties:18: broker.id must be the same as node.id where both are set"


def test_a_directory_in_use_is_named(tmp_path: Path, command: Command) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    lock = OsDisk().lock(f"{tmp_path}/.lock")
    try:
        answer = command("start", "--data-dir", str(tmp_path), "--override", "listeners=PLAINTEXT://127.0.0.1:0")
    finally:
        lock.release()
    assert answer == (
        1,
        "",
        f"odradek start: Failed to acquire lock on file .lock in {tmp_path}: another broker is using this directory; "
        "choose another directory with --data-dir DIRECTORY\n",
    )


def test_a_directory_that_may_not_be_written_is_named(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: OsDisk, path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(OsDisk, "makedirs", refuse)
    answer = command("start", "--data-dir", f"{tmp_path}/data")
    assert answer == (1, "", f"odradek start: {tmp_path}/data: Permission denied; choose another directory with --data-dir DIRECTORY\n")
    (tmp_path / "node.properties").write_text(NODE.replace("@", str(tmp_path)))
    answer = command("storage", "format", "-c", f"{tmp_path}/node.properties", "-t", "x", "-s")
    assert answer == (1, "", f"odradek storage: {tmp_path}/data: Permission denied\n")


def test_a_port_for_root_only_is_named(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: socket.socket, address: object) -> None:
        raise PermissionError(errno.EACCES, "permission denied")

    monkeypatch.setattr("odradek.server.start.process.new_event_loop", asyncio.new_event_loop)
    monkeypatch.setattr(socket.socket, "bind", refuse)
    answer = command("start", "--data-dir", str(tmp_path), "--override", "listeners=PLAINTEXT://127.0.0.1:80")
    assert answer == (
        1,
        "",
        "odradek start: listener PLAINTEXT: cannot listen on 127.0.0.1:80: Permission denied; ports below 1024 are reserved for root; "
        "choose a higher one with --override listeners=PLAINTEXT://localhost:PORT\n",
    )


def test_what_a_log_directory_may_hold_before_it_is_formatted(tmp_path: Path, command: Command) -> None:
    """What a broken format, or an operator who removed meta.properties to begin anew, leaves; and what file systems put there."""
    (tmp_path / "node.properties").write_text(NODE.replace("@", str(tmp_path)))
    data = tmp_path / "data"
    for name in ("lost+found", "__cluster_metadata-0", "flights-12", "flights-0.0123456789abcdef0123456789abcdef-delete"):
        (data / name).mkdir(parents=True)
    for name in (".DS_Store", ".lock", "bootstrap.checkpoint", "meta.properties.tmp", "recovery-point-offset-checkpoint"):
        (data / name).touch()
    format_it = ("storage", "format", "-c", f"{tmp_path}/node.properties", "-t", "theCluster", "--standalone")
    (data / "diary").touch()
    refused = command(*format_it)
    assert (refused.status, "it contains diary;" in refused.err) == (1, True)
    assert not (data / "meta.properties").exists()
    (data / "diary").unlink()
    done = command(*format_it)
    assert (done.status, done.err) == (0, "")
    assert (
        done.out.splitlines()[0]
        == "Bootstrap metadata: metadata.version=30, eligible.leader.replicas.version=1, group.version=1, transaction.version=2."
    )


def test_storage_info_tells_of_problems_with_status_1(folder: Path, command: Command) -> None:
    answer = command("storage", "info", "-c", f"{folder}/zookeeperTimes.properties")
    assert (answer.status, answer.err) == (1, "")
    assert answer.out.splitlines()[-3:] == [
        "Found problem:",
        f"  {folder}/zookeeperTimes/meta.properties: cluster.id is missing",
        "",
    ]
    answer = command("storage", "info", "-c", f"{folder}/formatted.properties")
    assert (answer.status, answer.err) == (0, "")


REFUSED = 1
"""A port of the loopback interface on which nothing listens."""


@pytest.mark.parametrize(
    ("quorum", "options", "said"),
    [
        (
            f"controller.quorum.voters=1@127.0.0.1:9093,2@127.0.0.1:{REFUSED}",
            (),
            f"a leader of the metadata quorum (voters: 1, 2); node 2 at 127.0.0.1:{REFUSED}: Connection refused",
        ),
        (
            f"controller.quorum.bootstrap.servers=127.0.0.1:{REFUSED}",
            ("--no-initial-controllers",),
            f"a leader of the metadata quorum (voters: unknown); 127.0.0.1:{REFUSED}: Connection refused",
        ),
        (
            f"controller.quorum.bootstrap.servers=127.0.0.1:{REFUSED}",
            ("-I", "1@127.0.0.1:9093:JEXY6aqzQY-32P5TStzaFg,2@127.0.0.1:2:MvDxzVmcRsaTz33bUuRU6A"),
            "a leader of the metadata quorum (voters: 1, 2)<*>; node 2 at 127.0.0.1:2: Connection refused<*>",
        ),
    ],
)
def test_a_quorum_that_is_not_there_is_named(quorum: str, options: tuple[str, ...], said: str, tmp_path: Path, command: Command) -> None:
    file = tmp_path / "server.properties"
    file.write_text(NODE.replace("@", str(tmp_path)).replace("controller.quorum.bootstrap.servers=127.0.0.1:9093", quorum))
    assert command("storage", "format", "-c", str(file), "-t", "x", *options).status == 0
    hurry = ("--override", "server.max.startup.time.ms=2000", "--override", "controller.quorum.election.timeout.ms=20")
    answer = command("start", str(file), *hurry)
    assert (answer.status, answer.out) == (1, "")
    assert "Traceback" not in answer.err
    expected = pattern(f"odradek start: not started within server.max.startup.time.ms=2000: waiting for {said}")
    assert re.fullmatch(expected, answer.err.splitlines()[-1] + "\n"), answer.err
