"""Compares what clients are told who may do everything, something or nothing, with JVM Kafka's StandardAuthorizer.

    python -m interop.differential.access [--only API ...] [--listener broker|controller] [--versions all|ends] [--verbose]

Both nodes run with authorizer.class.name and no super user. Nobody authenticates, everybody is User:ANONYMOUS, and ACLs tell clients
apart by their addresses: the node itself and whoever fills it come from 127.0.0.1, which may do everything from the first record of the
metadata log on; each client of `access_samples` has an address of its own in 127/8, and ACLs made of the table `odradek.handlers.access`.
Every sample of every API and version is sent by every client of that API, to both brokers, on the listeners of brokers and controllers; the
decoded answers must be the same.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from uuid import UUID

from interop.differential.__main__ import Comparison, Findings, peer_of
from interop.differential.access_samples import (
    CONSUMERS,
    G1,
    G2,
    GONE1,
    GONE2,
    MEMBER,
    SAMPLES,
    T1,
    T2,
    X1,
    Client,
    Facts,
    all_clients,
)
from interop.differential.batches import batch
from interop.differential.cases import produce_request, wait_for_producer_ids
from interop.differential.groups import wait_for_groups
from interop.differential.peer import Peer
from interop.peers import BrokerProcess, JvmBroker, OdradekBroker
from interop.waiting import eventually, until
from odradek.controller.kraft.bootstrap import encode_bootstrap, read_bootstrap
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.handlers.table import APIS
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.create_acls import CreateAclsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.metadata_records import AccessControlEntryRecord
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.security.resources import Operation, PatternType, PermissionType, ResourceType
from odradek.storage.disk import OsDisk

TRUSTED = "127.0.0.1"
OVERRIDES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "auto.create.topics.enable": "true",
    "log.retention.ms": "-1",
    "log.message.timestamp.after.max.ms": "9223372036854775807",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.session.timeout.ms": "1800000",
    "group.consumer.session.timeout.ms": "1800000",
    "broker.session.timeout.ms": "600000",
    "transaction.max.timeout.ms": "3600000",
}
_AT_ONCE = 500

ORDERS: dict[ApiKey, tuple[str, str]] = {
    ApiKey.FETCH: ("responses", "topic"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ("topics", "name"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ("groups", "group_id"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ("results", "user"),
    ApiKey.ALTER_CONFIGS: ("responses", "resource_name"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ("responses", "resource_name"),
}
"""Lists that Kafka puts together of parts (and some of them of hash maps), and what they are sorted by before they are compared."""

_TO_THE_ERROR = 11
"""Bytes of the answer in an envelope, up to its error code; behind it stands the error's text."""


def trust(broker: BrokerProcess) -> None:
    """Formats the node, and lets whoever comes from this host do everything from the first record on."""
    broker.format()
    records = read_bootstrap(OsDisk(), str(broker.data))
    kinds = [kind for kind in ResourceType if kind not in (ResourceType.UNKNOWN, ResourceType.ANY)]
    for number, kind in enumerate(kinds):
        record = AccessControlEntryRecord(
            id=UUID(int=(number + 1) << 64 | 1),
            resource_type=int(kind),
            resource_name="*",
            pattern_type=int(PatternType.LITERAL),
            principal="User:ANONYMOUS",
            host=TRUSTED,
            operation=int(Operation.ALL),
            permission_type=int(PermissionType.ALLOW),
        )
        records.append(VersionedRecord(record, 0))
    (broker.data / "bootstrap.checkpoint").write_bytes(encode_bootstrap(records, 0))


@contextlib.contextmanager
def guarded_pair(folder: Path) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    """Odradek and JVM Kafka with an authorizer."""
    pair = OdradekBroker(folder / "odradek", OVERRIDES), JvmBroker(folder / "jvm", OVERRIDES, heap="512m")
    for broker in pair:
        broker.features["transaction.version"] = 2
    try:
        for broker in pair:
            trust(broker)
            broker.start(180)
        yield pair
    finally:
        for broker in pair:
            broker.kill()


def address(client: Client) -> str:
    return f"127.1.{client.number // 250}.{client.number % 250 + 1}"


def create_acls(peer: Peer, clients: Sequence[Client]) -> None:
    """Creates the ACLs of all clients, and waits until the broker knows them."""
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=entry.resource_type,
            resource_name=entry.resource_name,
            resource_pattern_type=entry.pattern_type,
            principal="User:ANONYMOUS",
            host=address(client),
            operation=entry.operation,
            permission_type=entry.permission_type,
        )
        for client in clients
        for entry in client.entries
    ]
    for start in range(0, len(creations), _AT_ONCE):
        answer = peer.call(ApiKey.CREATE_ACLS, 3, CreateAclsRequest(creations=creations[start : start + _AT_ONCE]))
        refused = [result.error_message for result in answer.results if result.error_code]
        assert not refused, refused[0]
    wanted = len(
        {
            (each.resource_type, each.resource_name, each.resource_pattern_type, each.host, each.operation, each.permission_type)
            for each in creations
        }
    )
    everything = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter="User:ANONYMOUS",
        host_filter=None,
        operation=1,
        permission_type=1,
    )

    def known() -> bool:
        answer = peer.call(ApiKey.DESCRIBE_ACLS, 3, everything)
        return sum(acl.host != TRUSTED for resource in answer.resources for acl in resource.acls) == wanted

    until(known, f"{peer.name} to know {wanted} ACLs", 60)


def fill(peer: Peer) -> None:
    """Topics, groups and a transactional id, as every sample needs them."""
    for topic in (T1, T2):
        peer.create_topic(topic)
        answer = peer.call(ApiKey.PRODUCE, 12, produce_request(peer, 12, topic, batch(2)))
        assert answer.responses[0].partition_responses[0].error_code == 0, answer
    wait_for_producer_ids(peer)
    wait_for_groups(peer)
    for group in (G1, G2):
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in (T1, T2)]
        commit = OffsetCommitRequest(group_id=group, topics=topics)
        until(partial(_commits, peer, commit), f"the coordinator of {group} on {peer.name}", 60)
    _join_consumers(peer)
    find = FindCoordinatorRequest(key_type=1, coordinator_keys=[X1])
    until(lambda: not peer.call(ApiKey.FIND_COORDINATOR, 4, find).coordinators[0].error_code, f"a transaction log of {peer.name}", 60)
    request = InitProducerIdRequest(transactional_id=X1, transaction_timeout_ms=3_600_000)
    producer = eventually(
        lambda: None if (answer := peer.call(ApiKey.INIT_PRODUCER_ID, 5, request)).error_code else answer,
        f"a transaction coordinator of {peer.name}",
        60,
    )
    topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in (T1, T2)]
    addition = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=X1,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=topics,
    )
    answer = peer.call(ApiKey.ADD_PARTITIONS_TO_TXN, 3, addition)
    assert not answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code, answer


def _commits(peer: Peer, request: OffsetCommitRequest) -> bool:
    return not peer.call(ApiKey.OFFSET_COMMIT, 9, request).topics[0].partitions[0].error_code


def _join_consumers(peer: Peer) -> None:
    def beat(epoch: int) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=CONSUMERS,
            member_id=MEMBER,
            member_epoch=epoch,
            rebalance_timeout_ms=300_000 if epoch == 0 else -1,
            subscribed_topic_names=[T1, T2] if epoch == 0 else None,
            topic_partitions=[] if epoch == 0 else None,
        )
        return peer.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)

    first = eventually(lambda: None if (answer := beat(0)).error_code else answer, f"the coordinator of consumers on {peer.name}", 60)
    epoch = first.member_epoch

    def has_partitions() -> bool:
        nonlocal epoch
        answer = beat(epoch)
        epoch = answer.member_epoch or epoch
        return answer.assignment is not None

    if beat(epoch).assignment is None:
        eventually(has_partitions, f"partitions for a consumer of {peer.name}", 30)


def bring_back(peer: Peer) -> None:
    """The topics that are deleted again and again."""
    for topic in (GONE1, GONE2):
        with contextlib.suppress(RuntimeError):
            peer.broker.create_topic(topic)


def view(peer: Peer, api_key: ApiKey, answer: Any) -> Any:
    """What is compared of an answer."""
    if api_key in ORDERS and hasattr(answer, "encode") and not isinstance(answer, str):
        field, by = ORDERS[api_key]
        getattr(answer, field).sort(key=lambda entry: (getattr(entry, by) or "", peer.names.get(getattr(entry, "topic_id", None), "")))
    if api_key is ApiKey.CONSUMER_GROUP_DESCRIBE and hasattr(answer, "groups"):
        for member in (member for group in answer.groups for member in group.members):
            member.subscribed_topic_names.sort()
    if api_key is ApiKey.ENVELOPE and hasattr(answer, "response_data"):
        answer.response_data = bytes(answer.response_data or b"")[:_TO_THE_ERROR]
    return answer


class AccessComparison(Comparison):
    """The samples of one listener, sent by their clients."""

    def run_api(self, scope: str, api_key: ApiKey, versions: Sequence[int], clients: Sequence[Client]) -> None:
        for version in versions:
            for client in clients:
                names = [name for name, _ in SAMPLES[scope][api_key](version, self._facts(self.ours, client))]
                for index, name in enumerate(names):
                    label = f"{api_key.name} v{version} {name}, {client.name}"
                    answers = [self._ask(peer, scope, api_key, version, client, index) for peer in (self.ours, self.theirs)]
                    self.compare(label, *answers, api_key)

    def _facts(self, peer: Peer, client: Client) -> Facts:
        return Facts(peer.topic_ids, client_host=ip_address(address(client)).packed)

    def _ask(self, peer: Peer, scope: str, api_key: ApiKey, version: int, client: Client, index: int) -> Any:
        if api_key is ApiKey.DELETE_TOPICS:
            bring_back(peer)
        request = list(SAMPLES[scope][api_key](version, self._facts(peer, client)))[index][1]
        asker = Peer(peer.name, peer.port, broker=peer.broker)
        asker.source = address(client)
        try:
            answer = asker.exchange(api_key, version, request.encode(version))
            if api_key is ApiKey.DELETE_TOPICS:
                peer.broker.wait_gone([result.name for result in answer.responses if not result.error_code])
            return view(peer, api_key, answer)
        finally:
            asker.close()


def served(scope: str, only: Sequence[str], which: str) -> Iterator[tuple[ApiKey, Sequence[int]]]:
    """The APIs of a scope that have samples, with their versions; not those that are unstable."""
    from odradek.protocol.api_keys import API_INFO

    for api in APIS:
        if api.api_key in SAMPLES[scope] and (not only or api.api_key.name in only):
            last = api.max_version - (
                API_INFO[api.api_key].latest_version_unstable and api.max_version == API_INFO[api.api_key].max_version
            )
            versions = range(api.min_version, last + 1)
            yield api.api_key, versions if which == "all" else sorted({versions[0], versions[-1]})


def compare(
    pair: Sequence[BrokerProcess],
    listeners: Sequence[str],
    only: Sequence[str],
    versions: str,
    verbose: bool,
    say: Callable[[str], object] = print,
) -> Findings:
    """Fills both nodes, and compares."""
    findings = Findings()
    clients = all_clients()
    peers = [peer_of(node) for node in pair]
    for peer in peers:
        peer.source = TRUSTED
        fill(peer)
        bring_back(peer)
        create_acls(peer, [client for each in clients.values() for client in each])
    for scope in listeners:
        asked = peers
        if scope == CONTROLLER:
            asked = [Peer(node.name, node.controller_port, broker=peer) for node, peer in zip(pair, peers, strict=True)]
        comparison = AccessComparison(*asked, {}, findings, "" if scope == BROKER else "controller ", verbose)
        for api_key, which in served(scope, only, versions):
            before = findings.requests
            comparison.run_api(scope, api_key, which, clients[scope, api_key])
            if verbose:
                say(f"{scope} {api_key.name}: {findings.requests - before}")
    return findings


def main() -> None:
    parser = argparse.ArgumentParser(description="what clients with and without ACLs are told by JVM Kafka and by Odradek")
    parser.add_argument("--only", nargs="*", default=[], help="API names such as PRODUCE")
    parser.add_argument("--listener", choices=(BROKER, CONTROLLER), help="only this one")
    parser.add_argument("--versions", choices=("all", "ends"), default="all", help="every version, or the first and the last of each range")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    unknown = set(options.only) - {api_key.name for samples in SAMPLES.values() for api_key in samples}
    if unknown:
        parser.error(f"there are no samples for {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="odradek-access-") as folder, guarded_pair(Path(folder)) as pair:
        listeners = [options.listener] if options.listener else [BROKER, CONTROLLER]
        findings = compare(pair, listeners, options.only, options.versions, options.verbose)
    accepted = sum(findings.accepted.values())
    print(f"{findings.requests} requests compared, {len(findings.failed)} differences, {accepted} accepted")
    sys.exit(1 if findings.failed else 0)


if __name__ == "__main__":
    main()
