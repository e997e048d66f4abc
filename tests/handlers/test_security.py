"""What a broker without authentication and authorization answers: refusals that say so, as JVM Kafka's, and what the metadata hold."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, ProtocolError
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.protocol.messages.create_acls import CreateAclsRequest
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.protocol.messages.delete_acls import DeleteAclsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from odradek.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from odradek.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from odradek.protocol.messages.metadata_records import DelegationTokenRecord, UserScramCredentialRecord
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.security.principal import Principal
from odradek.security.tokens import TokenSecret
from tests.handlers.support import Broker

DISABLED = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
FILTER = {"pattern_type_filter": 3, "operation": 3, "permission_type": 3}
CREATION = CreateAclsRequest.AclCreation(resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3)


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.mark.parametrize("scope", [BROKER, CONTROLLER])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_there_are_no_acls_to_see(broker: Broker, version: int, scope: str) -> None:
    answer = broker.ask(DescribeAclsRequest(resource_type_filter=1, **FILTER), version, scope=scope)
    assert (answer.error_code, answer.error_message, answer.resources) == (*DISABLED, [])


def test_each_acl_is_refused(broker: Broker) -> None:
    answer = broker.ask(CreateAclsRequest(creations=[CREATION, CREATION]), scope=CONTROLLER)
    assert [(result.error_code, result.error_message) for result in answer.results] == [DISABLED, DISABLED]
    match = DeleteAclsRequest.DeleteAclsFilter(resource_type_filter=2, **FILTER)
    answer = broker.ask(DeleteAclsRequest(filters=[match, match]), scope=CONTROLLER)
    assert [(result.error_code, result.error_message, result.matching_acls) for result in answer.filter_results] == [(*DISABLED, [])] * 2


@pytest.mark.parametrize("field", ["resource_type_filter", *FILTER])
def test_what_its_sender_did_not_know_closes_the_connection(broker: Broker, field: str) -> None:
    fields = {"resource_type_filter": 2} | FILTER | {field: 0}
    with pytest.raises(ProtocolError):
        broker.ask(DescribeAclsRequest(**fields))
    with pytest.raises(ProtocolError):
        broker.ask(DeleteAclsRequest(filters=[DeleteAclsRequest.DeleteAclsFilter(**fields)]), scope=CONTROLLER)
    creation = CreateAclsRequest.AclCreation(resource_name="t", principal="User:a", host="*")
    values = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
    renamed = {"resource_type_filter": "resource_type", "pattern_type_filter": "resource_pattern_type"}
    for name, value in (values | {renamed.get(field, field): 0}).items():
        setattr(creation, name, value)
    with pytest.raises(ProtocolError):
        broker.ask(CreateAclsRequest(creations=[CREATION, creation]), scope=CONTROLLER)


@pytest.mark.parametrize("scope", [BROKER, CONTROLLER])
def test_nobody_authenticates_on_a_plaintext_listener(broker: Broker, scope: str) -> None:
    answer = broker.ask(SaslHandshakeRequest(mechanism="PLAIN"), scope=scope)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    answer = broker.ask(SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), scope=scope)
    assert (answer.error_code, answer.auth_bytes) == (ErrorCode.ILLEGAL_SASL_STATE, b"")


REFUSED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.parametrize(
    ("version", "owner", "named"), [(1, None, "ANONYMOUS"), (2, None, "ANONYMOUS"), (3, None, "ANONYMOUS"), (3, "bob", "bob")]
)
def test_a_token_is_not_created_for_nobody(broker: Broker, version: int, owner: str | None, named: str) -> None:
    request = CreateDelegationTokenRequest(max_lifetime_ms=1)
    if owner is not None:
        request.owner_principal_type, request.owner_principal_name = "User", owner
    answer = broker.ask(request, version)
    assert (answer.error_code, answer.principal_type, answer.principal_name) == (REFUSED, "User", named)
    assert answer.token_requester_principal_name == ("ANONYMOUS" if version >= 3 else "")
    assert (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms) == (-1, -1, -1)
    assert (answer.token_id, answer.hmac) == ("", b"")


def test_tokens_are_not_renewed_expired_or_shown(broker: Broker) -> None:
    for scope in (BROKER, CONTROLLER):
        assert broker.ask(CreateDelegationTokenRequest(), scope=scope).error_code == REFUSED
        for request in (RenewDelegationTokenRequest(hmac=b"x"), ExpireDelegationTokenRequest(hmac=b"x")):
            answer = broker.ask(request, scope=scope)
            assert (answer.error_code, answer.expiry_timestamp_ms) == (REFUSED, -1)
    answer = broker.ask(DescribeDelegationTokenRequest(owners=None))
    assert (answer.error_code, answer.tokens) == (REFUSED, [])


_PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b" user_a="b";'


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_token_of_odd_principals_hides_none_of_the_others(version: int) -> None:
    """Names may be empty in Kafka, and a record of another implementation may hold any text."""
    broker = Broker(
        delegation_token_secret_key="secret",
        listener_security_protocol_map="PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        sasl_enabled_mechanisms="PLAIN",
        sasl_mechanism_inter_broker_protocol="PLAIN",
        listener_name_plaintext_plain_sasl_jaas_config=_PLAIN,
    )
    broker.services.token_secret = TokenSecret("secret")
    times = {"issue_timestamp": 1, "max_timestamp": 9, "expiration_timestamp": 9}
    for number, name in enumerate(["User:", ":bob", ":", "nobody", "User:a:b", "User:g\n"]):
        broker.apply(DelegationTokenRecord(owner=name, requester=name, renewers=[name], token_id=str(number), **times))
    answer = broker.ask(DescribeDelegationTokenRequest(owners=None), version, principal=Principal("User", "admin"))
    assert answer.error_code == ErrorCode.NONE
    shown = {each.token_id: (each.principal_type, each.principal_name) for each in answer.tokens}
    assert shown == {"0": ("User", ""), "1": ("", "bob"), "2": ("", ""), "3": ("", "nobody"), "4": ("User", "a:b"), "5": ("User", "g\n")}
    assert [(each.renewers[0].principal_type, each.renewers[0].principal_name) for each in answer.tokens] == list(shown.values())


class TestScramCredentials:
    def ask(self, broker: Broker, *users: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
        asked = [DescribeUserScramCredentialsRequest.UserName(name=user) for user in users] or None
        answer = broker.ask(DescribeUserScramCredentialsRequest(users=asked))
        assert answer.error_code == 0
        return [(each.user, each.error_code, [(c.mechanism, c.iterations) for c in each.credential_infos]) for each in answer.results]

    def credential(self, user: str, mechanism: int, iterations: int) -> UserScramCredentialRecord:
        return UserScramCredentialRecord(name=user, mechanism=mechanism, iterations=iterations, salt=b"s", stored_key=b"k", server_key=b"v")

    def test_those_of_the_metadata_are_shown_without_their_secrets(self, broker: Broker) -> None:
        broker.apply(self.credential("alice", 2, 8192), self.credential("bob", 1, 4096), self.credential("alice", 1, 4096))
        alice, bob = ("alice", 0, [(1, 4096), (2, 8192)]), ("bob", 0, [(1, 4096)])
        assert sorted(self.ask(broker)) == [alice, bob]
        assert self.ask(broker, "bob") == [bob]
        assert self.ask(broker, "alice", "bob") == [alice, bob]

    def test_who_has_none_and_who_is_asked_for_twice_get_errors_of_their_own(self, broker: Broker) -> None:
        broker.apply(self.credential("bob", 1, 4096))
        assert self.ask(broker, "carol", "bob", "dora", "dora") == [
            ("carol", ErrorCode.RESOURCE_NOT_FOUND, []),
            ("bob", 0, [(1, 4096)]),
            ("dora", ErrorCode.DUPLICATE_RESOURCE, []),
        ]

    def test_nobody_has_any(self, broker: Broker) -> None:
        assert self.ask(broker) == []
