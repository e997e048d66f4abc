"""Envelope: requests of clients, as brokers forward them to the active controller."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

from interop.differential.case import Case
from interop.differential.peer import CORRELATION_ID, Peer
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.headers import decode_response_header, encode_request_header
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.default_principal import DefaultPrincipalData
from odradek.protocol.messages.describe_quorum import DescribeQuorumRequest
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest
from odradek.protocol.messages.envelope import EnvelopeRequest
from odradek.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.unregister_broker import UnregisterBrokerRequest
from odradek.protocol.messages.update_features import UpdateFeaturesRequest
from odradek.protocol.schema import Message

LOOPBACK = bytes((127, 0, 0, 1))


def principal(version: int = 0, kind: str = "User", name: str = "alice") -> bytes:
    return version.to_bytes(2, "big", signed=True) + DefaultPrincipalData(type=kind, name=name).encode(0)


def header(api_key: int, version: int) -> bytes:
    return encode_request_header(api_key, version, CORRELATION_ID, "differential")


def opened(api_key: ApiKey, version: int) -> Callable[[Peer, Any], None]:
    """Puts the decoded answer in the place of its bytes."""

    def open_(peer: Peer, answer: Any) -> None:
        data = answer.response_data
        if data is not None and len(data):
            correlation_id, start = decode_response_header(bytes(data), api_key, version)
            answer.response_data = (
                peer.decode(api_key, version, bytes(data)[start:]) if correlation_id == CORRELATION_ID else correlation_id
            )

    return open_


def envelope(version: int) -> Iterator[Case]:
    def case(
        name: str, api_key: ApiKey, inside: bytes, inner_version: int = 0, sender: bytes | None = principal(), host: bytes = LOOPBACK
    ) -> Case:
        request = EnvelopeRequest(request_data=inside, request_principal=sender, client_host_address=host)
        return Case(ApiKey.ENVELOPE, version, name, lambda _: request, after=opened(api_key, inner_version))

    def of(message: Message, inner_version: int) -> tuple[ApiKey, bytes, int]:
        api_key = ApiKey(message.API_KEY)
        return api_key, header(api_key, inner_version) + message.encode(inner_version), inner_version

    elected = ElectLeadersRequest.TopicPartitions(topic="plain", partitions=[0, 7])
    known = CreateTopicsRequest.CreatableTopic(name="plain", num_partitions=1, replication_factor=1)
    known_one = CreateTopicsRequest(topics=[known], timeout_ms=20_000)
    reassignments = of(ListPartitionReassignmentsRequest(topics=None), 0)
    yield case("reassignments", *reassignments)
    for inner_version in (2, 5, 7):
        yield case(f"a topic that is there, version {inner_version}", *of(known_one, inner_version))
    yield case("partitions of an unknown topic", *of(CreatePartitionsRequest(topics=[], timeout_ms=1), 3))
    yield case("features", *of(UpdateFeaturesRequest(timeout_ms=1000), 1))
    yield case("an election", *of(ElectLeadersRequest(topic_partitions=[elected], timeout_ms=1000), 2))
    yield case("an unknown broker", *of(UnregisterBrokerRequest(broker_id=77), 0))
    yield case("the quorum of nothing", *of(DescribeQuorumRequest(topics=[]), 2))
    # What brokers do not forward.
    yield case("versions", *of(ApiVersionsRequest(client_software_name="odd", client_software_version="1"), 3))
    yield case("versions of a version to come", ApiKey.API_VERSIONS, header(18, 4)[:2] + b"\x00\x63" + header(18, 4)[4:])
    yield case("metadata", *of(MetadataRequest(topics=[]), 12))
    yield case("a heartbeat", *of(BrokerHeartbeatRequest(broker_id=77), 0))
    yield case(
        "an envelope", *of(EnvelopeRequest(request_data=reassignments[1], request_principal=principal(), client_host_address=LOOPBACK), 0)
    )
    # What cannot be read.
    yield case("nothing", ApiKey.ENVELOPE, b"")
    yield case("half a header", ApiKey.CREATE_TOPICS, b"\x00\x13\x00")
    yield case("a header alone", ApiKey.CREATE_TOPICS, header(19, 5), 5)
    yield case("a body cut", ApiKey.CREATE_TOPICS, of(known_one, 5)[1][:-3], 5)
    yield case("bytes after the body", ApiKey.CREATE_TOPICS, of(known_one, 5)[1] + b"\x00\x01", 5)
    for api_key, odd in ((19, 1), (19, 8), (19, -1), (999, 0), (-1, 0), (45, 99)):
        data = struct.pack(">hhih", api_key, odd, CORRELATION_ID, -1) + bytes(8)
        yield case(f"key {api_key} version {odd}", ApiKey.CREATE_TOPICS, data, 5)
    for name, sender in {
        "no principal": None,
        "an empty principal": b"",
        "half a principal": principal()[:5],
        "a principal and more": principal() + b"\x00",
        "a principal of version 1": principal(1),
        "a principal of version -1": principal(-1),
        "a principal without a name": principal(name=""),
        "a principal of another kind": principal(kind="Group"),
    }.items():
        yield case(name, *reassignments, sender=sender)
    for name, host in {"no host": b"", "three bytes": bytes(3), "five bytes": bytes(5), "IPv6": bytes(15) + b"\x01"}.items():
        yield case(f"client host {name}", *reassignments, host=host)
