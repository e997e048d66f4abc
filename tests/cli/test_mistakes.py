"""What the command line answers to mistakes: which status, and one line on standard error that says what is wrong and the way out.

The table is read from top to bottom as a specification. In it, @ stands for a folder of the test with the files of `FILES`, % for a port
that is taken, and <*> in an answer for anything.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from odradek.cli.client_command import client_settings
from odradek.storage.disk import OsDisk
from odradek.testing.embedded import EmbeddedBroker
from tests.cli.conftest import Command

NODE = (
    "process.roles=broker,controller\n"
    "node.id=1\n"
    "controller.listener.names=CONTROLLER\n"
    "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"
    "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
    "log.dirs=@/data\n"
)
"""A server.properties of six lines."""

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


class Mistake(NamedTuple):
    """A command line without `odradek`, its status, and the line on standard error."""

    typed: str
    status: int
    answer: str


SEE = "see `odradek {} --help`"
START = SEE.format("start")

MISTAKES = (
    # -- which command? ---------------------------------------------------------------------------------------------------------------
    Mistake("nonsense", 2, "odradek: No such command 'nonsense'; see `odradek --help`"),
    Mistake("topic list", 2, "odradek: No such command 'topic'. Did you mean 'topics'? see `odradek --help`"),
    Mistake("help nonsense", 2, "odradek: No such command 'nonsense'; see `odradek --help`"),
    Mistake("--verbose start", 2, "odradek: No such option '--verbose'; see `odradek --help`"),
    # -- start: the command line ------------------------------------------------------------------------------------------------------
    Mistake("start --frobnicate", 2, f"odradek start: No such option '--frobnicate'; {START}"),
    Mistake("start --overide a=b", 2, f"odradek start: No such option '--overide'. Did you mean '--override'? {START}"),
    Mistake("start -x", 2, f"odradek start: No such option '-x'; {START}"),
    Mistake("start --prot 9192", 2, f"odradek start: No such option '--prot'. Did you mean '--port'? {START}"),
    Mistake("start --port", 2, f"odradek start: Option '--port' requires an argument; {START}"),
    Mistake("start --port many", 2, f"odradek start: --port many: this must be a number from 0 to 65535; {START}"),
    Mistake("start --port 65536", 2, f"odradek start: --port 65536: this must be a number from 0 to 65535; {START}"),
    Mistake("start --port=-1", 2, f"odradek start: --port -1: this must be a number from 0 to 65535; {START}"),
    Mistake("start --host ''", 2, f"odradek start: --host : this must be a name or an address of this machine; {START}"),
    Mistake(
        "start --host http://here", 2, f"odradek start: --host http://here: this must be a name or an address of this machine; {START}"
    ),
    Mistake(
        "start --port 9192 @/node.properties",
        2,
        "odradek start: --host and --port are for starting without a FILE; with one, --override listeners=PLAINTEXT://HOST:PORT; " + START,
    ),
    Mistake(
        "start --host 127.0.0.1 --override listeners=PLAINTEXT://127.0.0.1:0",
        2,
        f"odradek start: --host and --port say the same as --override listeners=...: one of them; {START}",
    ),
    Mistake("start --override", 2, f"odradek start: Option '--override' requires an argument; {START}"),
    Mistake("start --override num.partitions", 2, f"odradek start: --override num.partitions: this must be key=value; {START}"),
    Mistake("start --override =3", 2, f"odradek start: --override =3: this must be key=value; {START}"),
    Mistake("start --quiet=yes", 2, f"odradek start: Option '--quiet' does not take a value; {START}"),
    Mistake("start --data-dir ''", 2, f"odradek start: --data-dir: this must name a directory; {START}"),
    Mistake("start one two", 2, f"odradek start: only one FILE, not one and two; {START}"),
    Mistake(
        "start @/node.properties --data-dir @/data",
        2,
        f"odradek start: --data-dir is for starting without a FILE; with one, --override log.dirs=DIRECTORY; {START}",
    ),
    # -- start: the file --------------------------------------------------------------------------------------------------------------
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
        "odradek start: @/acls.properties:7: authorizer.class.name=com.example.Authorizer: there is no such authorizer here, "
        "only org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    ),
    Mistake(
        "start @/vault.properties",
        1,
        "odradek start: @/vault.properties:8: config.providers.vault.class=com.example.Vault: classes of Java cannot run here; there are "
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
        "odradek start: create.topic.policy.class.name=com.example.Policy: there is no entry point of this name in the group "
        "odradek.policies, and classes of Java cannot run here; install a package that has it, or name a class of "
        "Python, package.module:Class",
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
        "odradek start: @/zookeeper.properties:1: zookeeper.connect: there is no ZooKeeper since Kafka 4.0; leave the key out",
    ),
    Mistake(
        "start @/everywhere.properties",
        1,
        "odradek start: @/everywhere.properties:5: listeners: PLAINTEXT://0.0.0.0:0 listens on all addresses, and clients must be told "
        "one; add advertised.listeners=PLAINTEXT://HOST:0 with a host that clients can reach",
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
    # -- start: addresses -------------------------------------------------------------------------------------------------------------
    Mistake(
        "start --data-dir @/fresh --host 127.0.0.1 --port %",
        1,
        "odradek start: listener PLAINTEXT: cannot listen on 127.0.0.1:%: Address already in use; is a broker running already? "
        "Another port: --port N",
    ),
    Mistake(
        "start --data-dir @/fresh --host 192.0.2.1 --port 0",
        1,
        "odradek start: listener PLAINTEXT: cannot listen on 192.0.2.1:0: Cannot assign requested address; it must be an address of this "
        "machine: --host HOST",
    ),
    Mistake(
        "start --data-dir @/fresh --override listeners=PLAINTEXT://127.0.0.1:%",
        1,
        "odradek start: listener PLAINTEXT: cannot listen on 127.0.0.1:%: Address already in use; is a broker running already? "
        "Another port: --override listeners=PLAINTEXT://localhost:PORT",
    ),
    Mistake(
        "start @/taken.properties",
        1,
        "odradek start: listener PLAINTEXT: cannot listen on 127.0.0.1:%: Address already in use; is a broker running already? "
        "Another port: `listeners` in @/taken.properties",
    ),
    Mistake(
        "start --data-dir @/fresh --override listeners=PLAINTEXT://no.such.host.invalid:0",
        1,
        "odradek start: listener PLAINTEXT: cannot listen on no.such.host.invalid:0: <*>; it must be an address of this machine: "
        "--override listeners=PLAINTEXT://localhost:PORT",
    ),
    Mistake(
        "start --data-dir @/fresh --override listeners=PLAINTEXT://192.0.2.1:0",
        1,
        "odradek start: listener PLAINTEXT: cannot listen on 192.0.2.1:0: Cannot assign requested address; it must be an address of this "
        "machine: --override listeners=PLAINTEXT://localhost:PORT",
    ),
    Mistake(
        "start --override listeners=9092",
        1,
        "odradek start: Invalid value 9092 for configuration listeners: a listener is written NAME://host:port, "
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
        "odradek start: listener.name.outside.ssl.client.auth: there is no listener OUTSIDE in listener.security.protocol.map",
    ),
    # -- start: directories -----------------------------------------------------------------------------------------------------------
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
        "odradek start: No meta.properties found in @/data: the log directory is not formatted; is a disk not mounted? format first: "
        "odradek storage format -c @/half.properties -t theCluster --ignore-formatted",
    ),
    Mistake(
        "start --data-dir @/foreign",
        1,
        "odradek start: @/foreign is not formatted and not empty: it holds holiday.jpg, letters; a log directory must be new, or empty; "
        "another directory: --data-dir DIRECTORY",
    ),
    Mistake(
        "start --data-dir @/file",
        1,
        "odradek start: The metadata log directory @/file cannot be used: Not a directory; another directory: --data-dir DIRECTORY",
    ),
    Mistake(
        "start @/file.properties",
        1,
        "odradek start: The metadata log directory @/file cannot be used: Not a directory; another directory: `log.dirs` in "
        "@/file.properties",
    ),
    Mistake("start --data-dir /proc/odradek", 1, "odradek start: /proc/odradek: <*>; another directory: --data-dir DIRECTORY"),
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
        "odradek start: @/unknownVersion/meta.properties: version 2 is unknown; versions 0 and 1 can be used",
    ),
    # -- storage ----------------------------------------------------------------------------------------------------------------------
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
        f"odradek storage: -s, -N and -I exclude one another; {SEE.format('storage format')}",
    ),
    Mistake(
        "storage format -c @/node.properties -t x -s -f group.version",
        2,
        f"odradek storage: group.version: this must be name=level; {SEE.format('storage format')}",
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
        "--standalone, --initial-controllers, or --no-initial-controllers. A node that is all of its cluster takes --standalone.",
    ),
    Mistake(
        "storage format -c @/node.properties -t ''  -s",
        1,
        "odradek storage: You must specify the cluster id; `odradek storage random-uuid` makes one.",
    ),
    Mistake(
        "storage format -c @/node.properties -t x -I 1@localhost",
        1,
        "odradek storage: No colon following hostname could be found. An initial controller is written id@host:port:directory-id, "
        "not 1@localhost",
    ),
    Mistake(
        "storage format -c @/node.properties -t x -s -r 9.9",
        1,
        "odradek storage: Unknown metadata.version '9.9'; there are 3.3-IV3 to 4.3-IV0, and short forms such as 4.3",
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
        "odradek storage: Invalid cluster.id in: @/formatted/meta.properties. Expected x, but read theCluster; it belongs to that cluster.",
    ),
    Mistake(
        "storage format -c @/foreign.properties -t x -s",
        1,
        "odradek storage: @/foreign is not formatted and not empty: it holds holiday.jpg, letters; a log directory must be new, or empty",
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
        "odradek storage: Unknown metadata.version '9.9'; there are 3.3-IV3 to 4.3-IV0, and short forms such as 4.3",
    ),
    Mistake(
        "storage feature-dependencies",
        2,
        f"odradek storage: Missing option '-f' / '--feature'; {SEE.format('storage feature-dependencies')}",
    ),
    Mistake(
        "storage feature-dependencies -f none.version=1",
        1,
        "odradek storage: there is no feature none.version; `odradek storage version-mapping` lists features and levels",
    ),
    Mistake("storage feature-dependencies -f metadata.version=99", 1, "odradek storage: Unknown metadata.version 99; there are 7 to 30"),
    Mistake(
        "storage feature-dependencies -f group.version=99",
        1,
        "odradek storage: group.version has no level 99; `odradek storage version-mapping` lists features and levels",
    ),
    Mistake("storage random-uuid 3", 2, f"odradek storage: Got unexpected extra argument (3); {SEE.format('storage random-uuid')}"),
    # -- topics -----------------------------------------------------------------------------------------------------------------------
    Mistake("topics frob", 2, f"odradek topics: No such command 'frob'; {SEE.format('topics')}"),
    Mistake("topics create", 2, f"odradek topics: Missing argument 'TOPIC...'; {SEE.format('topics create')}"),
    Mistake(
        "topics create new -p none",
        2,
        f"odradek topics: Invalid value for '-p' / '--partitions': 'none' is not a valid integer range; {SEE.format('topics create')}",
    ),
    Mistake(
        "topics create new -p 0",
        2,
        f"odradek topics: Invalid value for '-p' / '--partitions': 0 is not in the range x>=1; {SEE.format('topics create')}",
    ),
    Mistake("topics create new -c x", 2, f"odradek topics: --config x: this must be key=value; {SEE.format('topics create')}"),
    Mistake("topics list there", 2, f"odradek topics: Got unexpected extra argument (there); {SEE.format('topics list')}"),
    Mistake("topics list -X x", 2, f"odradek topics: -X x: this must be key=value; {SEE.format('topics list')}"),
    Mistake("topics list -X no.such.key=1", 1, "odradek topics: Unknown configuration key no.such.key"),
    Mistake(
        "topics list -X retry.backoff.ms=often",
        1,
        "odradek topics: Invalid value often for configuration retry.backoff.ms: Not a number of type LONG",
    ),
    Mistake(
        "topics list -b localhost",
        2,
        "odradek topics: Invalid value for '-b' / '--bootstrap-server' (env var: 'ODRADEK_BOOTSTRAP_SERVER'): "
        f"'localhost' is not HOST:PORT[,...]; {SEE.format('topics list')}",
    ),
    Mistake(
        "topics create there",
        1,
        "odradek topics: there: TOPIC_ALREADY_EXISTS: Topic 'there' already exists; --if-not-exists takes it as it is",
    ),
    Mistake(
        "topics create 'bad name'",
        1,
        "odradek topics: bad name: INVALID_TOPIC_EXCEPTION: Topic name is invalid: 'bad name' contains one or more characters other than "
        "ASCII alphanumerics, '.', '_' and '-'",
    ),
    Mistake(
        "topics create dotted_name",
        1,
        "odradek topics: dotted_name: INVALID_TOPIC_EXCEPTION: Topic 'dotted_name' collides with existing topic: dotted.name",
    ),
    Mistake(
        "topics create new -r 3",
        1,
        "odradek topics: new: INVALID_REPLICATION_FACTOR: Unable to replicate the partition 3 time(s): <*> only 1 broker(s) are "
        "registered <*>",
    ),
    Mistake(
        "topics create new -c no.such.key=1",
        1,
        "odradek topics: new: INVALID_CONFIG: Unknown topic config name: no.such.key; `odradek topics config TOPIC --all` shows keys and "
        "values",
    ),
    Mistake(
        "topics describe none",
        1,
        "odradek topics: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist; `odradek topics describe` shows topics and partitions",
    ),
    Mistake(
        "topics describe 'bad name'",
        1,
        "odradek topics: INVALID_TOPIC_EXCEPTION: topic bad name; a topic's name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' "
        "and '-'",
    ),
    Mistake("topics config", 2, f"odradek topics: Missing argument 'TOPIC...'; {SEE.format('topics config')}"),
    Mistake("topics config there -s x", 2, f"odradek topics: --set x: this must be key=value; {SEE.format('topics config')}"),
    Mistake(
        "topics config none",
        1,
        "odradek topics: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist; `odradek topics describe` shows topics and partitions",
    ),
    Mistake(
        "topics config there -s retention.ms=soon",
        1,
        "odradek topics: INVALID_CONFIG: Invalid value soon for configuration retention.ms: Not a number of type LONG; "
        "`odradek topics config TOPIC --all` shows keys and values",
    ),
    Mistake(
        "topics config there -d no.such.key",
        1,
        "odradek topics: INVALID_CONFIG: Unknown topic config name: no.such.key; `odradek topics config TOPIC --all` shows keys and values",
    ),
    Mistake(
        "topics delete none",
        1,
        "odradek topics: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist; `odradek topics describe` shows topics and partitions",
    ),
    # -- produce ----------------------------------------------------------------------------------------------------------------------
    Mistake("produce", 2, f"odradek produce: Missing option '-t' / '--topic'; {SEE.format('produce')}"),
    Mistake("produce -t only -k a -K :", 2, f"odradek produce: -k and -K exclude one another; {SEE.format('produce')}"),
    Mistake("produce -t only -D ''", 2, f"odradek produce: -D and -K need at least one character; {SEE.format('produce')}"),
    Mistake("produce -t only -K ''", 2, f"odradek produce: -D and -K need at least one character; {SEE.format('produce')}"),
    Mistake("produce -t only -H =x", 2, f"odradek produce: -H =x: this must be name=value; {SEE.format('produce')}"),
    Mistake(
        "produce -t only -l @/lines @/lines",
        2,
        f"odradek produce: each FILE is one record, which excludes -l and -D; -l FILE reads its lines; {SEE.format('produce')}",
    ),
    Mistake(
        "produce -t only -z brotli",
        2,
        "odradek produce: Invalid value for '-z' / '--compression' / '--compression-codec': "
        "'brotli' is not one of 'none', 'gzip', 'snappy', 'lz4', 'zstd'; " + SEE.format("produce"),
    ),
    Mistake("produce -t only @/none", 1, "odradek produce: @/none: No such file or directory"),
    Mistake("produce -t only @/lines @", 1, "odradek produce: @: Is a directory"),
    Mistake("produce -t only -l @/none", 1, "odradek produce: @/none: No such file or directory"),
    Mistake("produce -t only -X acks=9", 1, "odradek produce: Invalid value 9 for configuration acks: <*>"),
    Mistake(
        "produce -t only -X transactional.id=t -X acks=1",
        1,
        "odradek produce: transactional.id needs acks=all",
    ),
    Mistake(
        "produce -t there -p 2 -l @/lines",
        1,
        "odradek produce: UNKNOWN_TOPIC_OR_PARTITION: topic there has partitions 0 to 1, not 2; `odradek topics describe` shows topics "
        "and partitions",
    ),
    Mistake(
        "produce -t 'bad name' -l @/lines",
        1,
        "odradek produce: INVALID_TOPIC_EXCEPTION: topic bad name; a topic's name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' "
        "and '-'",
    ),
    Mistake(
        "produce -t there @/big",
        1,
        "odradek produce: MESSAGE_TOO_LARGE: <*>; `odradek topics config TOPIC --set max.message.bytes=N` moves the limit of a topic",
    ),
    # -- consume ----------------------------------------------------------------------------------------------------------------------
    Mistake("consume", 2, f"odradek consume: one of --topic, --include is needed; {SEE.format('consume')}"),
    Mistake(
        "consume -t only -o middle",
        2,
        "odradek consume: -o middle: this must be beginning, end, N, +N, -N, <*>TIME, or a range of two of them, START:END; "
        + SEE.format("consume"),
    ),
    Mistake(
        "consume -t only -o s@noon",
        2,
        "odradek consume: -o s@noon: a time is 2023-11-14 or 2023-11-14T22:13:20 (UTC without a zone), -2h or -1d12h, or milliseconds "
        "since 1970; " + SEE.format("consume"),
    ),
    Mistake(
        "consume -t only -o 99999999999999999999",
        2,
        "odradek consume: -o 99999999999999999999: this must be beginning, end, N, +N, -N, <*>TIME, or a range of two of them, START:END; "
        + SEE.format("consume"),
    ),
    Mistake(
        "consume -t only -c 0",
        2,
        f"odradek consume: Invalid value for '-c' / '--count' / '--max-messages': 0 is not in the range x>=1; {SEE.format('consume')}",
    ),
    Mistake("consume -t only -J -f %s", 2, f"odradek consume: -J excludes -f and -K; {SEE.format('consume')}"),
    Mistake("consume -t only -f %s -K :", 2, f"odradek consume: -f excludes -K; it has %k for the key; {SEE.format('consume')}"),
    Mistake("consume -t only -J -D ;", 2, f"odradek consume: -D is for records printed without -f and -J; {SEE.format('consume')}"),
    Mistake(
        "consume -t only -f %z",
        2,
        f"odradek consume: -f: there is no %z; there are %s %S %k %K %h %t %p %o %T; {SEE.format('consume')}",
    ),
    Mistake(
        "consume -t none",
        1,
        "odradek consume: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist; `odradek topics describe` shows topics and partitions",
    ),
    Mistake("consume -t there -p 9", 1, "odradek consume: topic there has partitions 0 to 1, not 9"),
    Mistake(
        "consume -t there -G g -p 1",
        2,
        f"odradek consume: -p excludes -G: the group says which partitions a member reads; {SEE.format('consume')}",
    ),
    Mistake("consume -t there -G g -o 5", 2, f"odradek consume: -o 5: with -G this must be beginning or end; {SEE.format('consume')}"),
    Mistake(
        "consume -t there -t none -G g",
        1,
        "odradek consume: UNKNOWN_TOPIC_OR_PARTITION: topic none does not exist; `odradek topics describe` shows topics and partitions",
    ),
    # -- features ---------------------------------------------------------------------------------------------------------------------
    Mistake("features upgrade", 2, f"odradek features: You must specify at least one feature to upgrade; {SEE.format('features upgrade')}"),
    Mistake(
        "features upgrade group.version",
        2,
        f"odradek features: group.version: this must be name=level; {SEE.format('features upgrade')}",
    ),
    Mistake("features upgrade a=1 a=2", 2, f"odradek features: a stands there twice; {SEE.format('features upgrade')}"),
    Mistake(
        "features upgrade none.version=1",
        1,
        "odradek features: INVALID_UPDATE_VERSION: <*> feature none.version. <*>; `odradek features describe` shows the levels there are",
    ),
    Mistake(
        "features downgrade transaction.version=9",
        1,
        "odradek features: INVALID_UPDATE_VERSION: <*> Controller 1 only supports levels 0-2; `odradek features describe` shows the "
        "levels there are",
    ),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, taken: int) -> Path:
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
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


def spelled(text: str, folder: Path, port: int) -> str:
    """With the folder and the port in the places that stand for them (an @ within a word is its own: `1@host`)."""
    return re.sub(r"(?<=:)%|(?<=--port )%", str(port), re.sub(r"(?<![\w}])@", str(folder), text))


def pattern(answer: str) -> str:
    """The pattern of an answer: all of one line, and nothing beside it."""
    return ".*".join(re.escape(part) for part in answer.split("<*>")) + "\n"


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.typed)
def test_a_mistake_is_answered_in_one_line(
    mistake: Mistake, folder: Path, taken: int, bootstrap: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", bootstrap)
    answer = command(*shlex.split(spelled(mistake.typed, folder, taken)))
    assert re.fullmatch(pattern(spelled(mistake.answer, folder, taken)), answer.err), answer.err
    assert (answer.status, answer.out) == (mistake.status, "")
    assert not (folder / "data").exists(), "what failed left something behind"


def test_there_are_enough_of_them() -> None:
    assert len(MISTAKES) >= 70
    assert len({mistake.typed for mistake in MISTAKES}) == len(MISTAKES)


# -- what takes more than a command line --------------------------------------------------------------------------------------------------


def test_a_key_that_stands_twice_is_told_and_the_later_one_counts(folder: Path, command: Command) -> None:
    answer = command("start", f"{folder}/twice.properties")
    assert answer.err.splitlines() == [
        f"{folder}/twice.properties:8: num.partitions stands in line 7 already; this line counts",
        f"odradek start: {folder}/twice.properties:8: Invalid value -2 for configuration num.partitions: Value must be at least 1",
    ]
    assert answer.status == 1


def test_a_file_that_is_something_else_is_answered_in_one_line(tmp_path: Path, command: Command) -> None:
    (tmp_path / "server.properties").write_text("the quick fox\n" * 1000)
    answer = command("start", f"{tmp_path}/server.properties")
    assert answer == (1, "", f"odradek start: {tmp_path}/server.properties:1000: Unknown configuration key the\n")
    (tmp_path / "server.properties").write_text(NODE + "num.partitions=1\n" * 9 + "log.dir=/a\n" * 2 + "broker.id=9\n")
    first, last = command("start", f"{tmp_path}/server.properties").err.splitlines()
    assert first == f"{tmp_path}/server.properties:8: num.partitions stands in line 7 already; this line counts (8 more like it)"
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
        "another directory: --data-dir DIRECTORY\n",
    )


def test_a_directory_that_may_not_be_written_is_named(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: OsDisk, path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(OsDisk, "makedirs", refuse)
    answer = command("start", "--data-dir", f"{tmp_path}/data")
    assert answer == (1, "", f"odradek start: {tmp_path}/data: Permission denied; another directory: --data-dir DIRECTORY\n")
    (tmp_path / "node.properties").write_text(NODE.replace("@", str(tmp_path)))
    answer = command("storage", "format", "-c", f"{tmp_path}/node.properties", "-t", "x", "-s")
    assert answer == (1, "", f"odradek storage: {tmp_path}/data: Permission denied\n")


def test_a_port_for_root_only_is_named(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: socket.socket, address: object) -> None:
        raise PermissionError(errno.EACCES, "permission denied")

    monkeypatch.setattr("odradek.server.process.new_event_loop", asyncio.new_event_loop)
    monkeypatch.setattr(socket.socket, "bind", refuse)
    answer = command("start", "--data-dir", str(tmp_path), "--override", "listeners=PLAINTEXT://127.0.0.1:80")
    assert answer == (
        1,
        "",
        "odradek start: listener PLAINTEXT: cannot listen on 127.0.0.1:80: Permission denied; ports below 1024 are for root; "
        "a higher one: --override listeners=PLAINTEXT://localhost:PORT\n",
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
    assert (refused.status, "it holds diary;" in refused.err) == (1, True)
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


AWAY = ("-X", "default.api.timeout.ms=100", "-X", "request.timeout.ms=100")


@pytest.mark.parametrize(
    "typed",
    [
        "topics list",
        "topics create a",
        "topics describe a",
        "topics config a",
        "topics delete a",
        "features describe",
        "features upgrade a=1",
        "consume -t a",
        "produce -t a -X max.block.ms=100",
    ],
)
def test_a_broker_that_cannot_be_reached(typed: str, command: Command) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        answer = command(*shlex.split(typed), "-b", address, *AWAY, stdin=b"x\n")
    assert answer == (
        1,
        "",
        f"odradek {typed.split()[0]}: BROKER_NOT_AVAILABLE: no broker can be reached (cannot connect to {address}: Connection refused); "
        "is one running, and is bootstrap.servers right? `odradek start` starts one, -b HOST:PORT names another\n",
    )


@pytest.mark.parametrize("typed", ["topics list", "consume -t a", "produce -t a -X max.block.ms=100"])
def test_somebody_who_does_not_answer(typed: str, taken: int, command: Command) -> None:
    answer = command(*shlex.split(typed), "-b", f"127.0.0.1:{taken}", *AWAY, stdin=b"x\n")
    assert answer.status == 1
    assert answer.err.startswith(f"odradek {typed.split()[0]}: BROKER_NOT_AVAILABLE: no broker can be reached (")
    assert len(answer.err.splitlines()) == 1


@pytest.mark.parametrize("typed", ["topics list", "consume -t a", "produce -t a"])
def test_the_port_of_a_controller_is_taken_for_one(typed: str, command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        controller = f"127.0.0.1:{probe.getsockname()[1]}"
    with EmbeddedBroker({"listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://{controller}"}):
        answer = command(*shlex.split(typed), "-b", controller, stdin=b"x\n")
    assert answer == (
        1,
        "",
        f"odradek {typed.split()[0]}: UNSUPPORTED_VERSION: the broker at {controller} does not serve METADATA; "
        "an older broker, or a controller's port? -b HOST:PORT names a listener for clients\n",
    )


REFUSED = 1
"""A port of the loopback interface on which nobody listens."""


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


def test_a_person_waits_five_seconds_and_not_thirty() -> None:
    settings = client_settings("localhost:9092", ("request.timeout.ms=7",))
    assert (settings["default.api.timeout.ms"], settings["request.timeout.ms"]) == ("5000", "7")
    assert client_settings("localhost:9092", ())["request.timeout.ms"] == "5000"


def test_a_wrong_environment_is_named(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", "broker")
    answer = command("topics", "list")
    assert answer.status == 2
    assert "ODRADEK_BOOTSTRAP_SERVER" in answer.err
    assert "'broker' is not HOST:PORT[,...]" in answer.err


def test_the_topics_that_can_be_created_are(bootstrap: str, command: Command) -> None:
    answer = command("topics", "create", "there", "fresh-topic", "-b", bootstrap)
    assert (answer.status, answer.out) == (1, "Created topic fresh-topic (2 partitions).\n")
    assert answer.err.startswith("odradek topics: there: TOPIC_ALREADY_EXISTS")
    answer = command("topics", "delete", "--execute", "none-such", "fresh-topic", "-b", bootstrap)
    assert (answer.status, answer.out) == (1, "Deleted topic fresh-topic.\n")
    assert answer.err.startswith("odradek topics: UNKNOWN_TOPIC_OR_PARTITION: topic none-such does not exist")


def test_an_offset_that_is_not_there_moves_to_the_nearest_and_says_so(bootstrap: str, command: Command) -> None:
    at = ("-b", bootstrap)
    assert command("produce", "-t", "only", *at, stdin=b"a\nb\nc\n") == (0, "", "")
    assert command("consume", "-t", "only", "-o", "1", "-e", *at) == (0, "b\nc\n", "")
    remark = "odradek consume: only-0 has offsets 0 to 2: reading from 3 instead of 99\n"
    assert command("consume", "-t", "only", "-o", "99", "-e", *at) == (0, "", remark)
    assert command("consume", "-t", "only", "-o", "99", "-e", "-q", *at) == (0, "", "")
    assert command("consume", "-t", "only", "-o", "-99", "-c", "2", *at) == (0, "a\nb\n", "")
    remark = "odradek consume: dotted.name-0 is empty: reading from 0 instead of 5\n"
    assert command("consume", "-t", "dotted.name", "-o", "5", "-e", *at) == (0, "", remark)


def test_lines_with_and_without_keys(bootstrap: str, command: Command) -> None:
    at = ("-b", bootstrap)
    assert command("produce", "-t", "keyed", "-p", "0", "-K", ":", "-Z", *at, stdin=b"k:v:w\nno key\n:empty key\ngone:\n").status == 0
    shown = command("consume", "-t", "keyed", "-e", "-f", "%K %k|%S %s\\n", *at)
    assert shown == (0, "1 k|3 v:w\n-1 |6 no key\n-1 |9 empty key\n4 gone|-1 \n", "")
