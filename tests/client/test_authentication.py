"""SASL with scripted brokers: who is refused is told so once, sessions are prolonged in time, and requests wait meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from odradek.base.errors import ConfigError, ErrorCode, KafkaError
from odradek.client.network.cluster import AuthenticationFailed, Cluster
from odradek.client.settings.config import PRODUCER_CONFIG, ClientConfig, Setting
from odradek.network.transport import ConnectionLost
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.protocol.schema import Message
from odradek.security.sasl.client import OAuthToken, PlainClient
from odradek.testing.simulation.loop import SimulatedClock, SimulatedLoop
from tests.client import scripted
from tests.client.scripted import cluster, producer, run
from tests.client.secured import PASSWORD, USER, ScramServer, SecuredBrokers, accepted, refused, scram
from tests.loops import in_virtual_time


@pytest.fixture(autouse=True)
def sasl_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scripted.SERVED, ApiKey.SASL_HANDSHAKE, (0, 1))
    monkeypatch.setitem(scripted.SERVED, ApiKey.SASL_AUTHENTICATE, (0, 2))


PLAIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": USER, "sasl_password": PASSWORD}
SCRAM = {**PLAIN, "sasl_mechanism": "SCRAM-SHA-256"}


def bearer(loop: SimulatedLoop, provider: Callable[[], object], **settings: Setting) -> Cluster:
    keys: dict[str, Setting] = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "bootstrap.servers": "broker1:9092"}
    config = ClientConfig(PRODUCER_CONFIG, keys, sasl_oauthbearer_token_provider=provider, **settings)
    return Cluster(config, clock=SimulatedClock(loop))


@in_virtual_time
async def test_it_comes_before_any_other_request(loop: SimulatedLoop) -> None:
    brokers = SecuredBrokers(loop, lambda _: accepted())
    client = cluster(loop, **PLAIN)
    await client.refresh(["t"])
    kinds = [type(request) for _, request in brokers.asked]
    assert kinds == [SaslHandshakeRequest, SaslAuthenticateRequest, MetadataRequest]
    assert brokers.messages == [b"\0user\0pencil"]
    await client.close()


@in_virtual_time
async def test_scram(loop: SimulatedLoop) -> None:
    brokers = SecuredBrokers(loop, scram(ScramServer()))
    client = cluster(loop, **SCRAM)
    await client.refresh(["t"])
    assert len(brokers.messages) == 2
    await client.close()


def _wrong_signature(message: bytes) -> SaslAuthenticateResponse:
    server = ScramServer()
    return accepted(auth_bytes=server.challenge(message) if message.startswith(b"n,,") else b"v=AAAA")


@pytest.mark.parametrize(
    ("authenticate", "said"),
    [
        (_wrong_signature, "does not know the password"),
        (lambda _: accepted(auth_bytes=b"\xff garbage"), "not a SCRAM message"),
        (lambda _: accepted(auth_bytes=b"r=,s=,i=1"), "nonce"),
        (lambda _: refused("first line\nsecond line"), "first line second line"),
        (scram(ScramServer(password="other")), "no"),
    ],
)
@in_virtual_time
async def test_what_fails_is_final_and_said_in_one_line(
    loop: SimulatedLoop, authenticate: Callable[[bytes], SaslAuthenticateResponse], said: str
) -> None:
    brokers = SecuredBrokers(loop, authenticate)
    client = cluster(loop, **SCRAM)
    with pytest.raises(AuthenticationFailed, match=said) as raised:
        await client.topic("t")
    assert raised.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "\n" not in str(raised.value)
    assert PASSWORD not in str(raised.value)
    assert brokers.dialled == 1
    assert not brokers.open
    assert loop.time() < 1
    await client.close()


@in_virtual_time
async def test_a_server_that_does_not_end_is_left(loop: SimulatedLoop) -> None:
    brokers = SecuredBrokers(loop, lambda _: accepted(auth_bytes=b"go on"))
    client = bearer(loop, lambda: "token")
    with pytest.raises(AuthenticationFailed, match="does not end the authentication"):
        await client.refresh()
    assert len(brokers.messages) <= 10
    await client.close()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "does not support sasl.mechanism=SCRAM-SHA-256; it supports PLAIN"),
        (ErrorCode.ILLEGAL_SASL_STATE, "does not expect SASL"),
    ],
)
@in_virtual_time
async def test_a_mechanism_that_is_not_taken(loop: SimulatedLoop, code: ErrorCode, said: str) -> None:
    brokers = SecuredBrokers(loop, lambda _: accepted())
    brokers.handshake = SaslHandshakeResponse(error_code=code, mechanisms=["PLAIN"])
    client = cluster(loop, **SCRAM)
    with pytest.raises(AuthenticationFailed, match=said) as raised:
        await client.topic("t")
    assert raised.value.code is code
    assert not brokers.messages, "nothing is sent to who does not take it"
    await client.close()


def test_a_broker_that_is_too_old_for_sasl_in_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scripted.SERVED, ApiKey.SASL_HANDSHAKE, (0, 0))

    async def story(loop: SimulatedLoop) -> None:
        SecuredBrokers(loop, lambda _: accepted())
        client = cluster(loop, **PLAIN)
        with pytest.raises(KafkaError, match="the broker at broker1:9092 supports SASL_HANDSHAKE 0 to 0") as raised:
            await client.topic("t")
        assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
        await client.close()

    run(story)


@in_virtual_time
async def test_a_producer_that_is_refused_says_so_at_once(loop: SimulatedLoop) -> None:
    SecuredBrokers(loop, lambda _: refused())
    async with producer(loop, **PLAIN) as sender:
        with pytest.raises(AuthenticationFailed):
            await sender.send("t", b"x")
        assert loop.time() < 1


@in_virtual_time
async def test_a_session_is_prolonged_before_it_ends_and_requests_wait_meanwhile(loop: SimulatedLoop) -> None:
    """The broker takes only what belongs to the authentication between its begin and its end."""
    server = ScramServer()

    def authenticate(message: bytes) -> SaslAuthenticateResponse:
        answer = scram(server)(message)
        answer.session_lifetime_ms = 1000
        return answer

    def answer(node: int, request: Message) -> Message | None:
        last = brokers.asked[-2][1]
        begun = isinstance(last, SaslHandshakeRequest) or (
            isinstance(last, SaslAuthenticateRequest) and bytes(last.auth_bytes).startswith(b"n,,")
        )
        assert not begun, "a request in the middle of an authentication"
        return HeartbeatResponse() if isinstance(request, HeartbeatRequest) else brokers.metadata(leader=1)

    brokers = SecuredBrokers(loop, authenticate, answer)
    client = cluster(loop, **SCRAM)
    node = await client.any_node()
    times: list[float] = []
    handshakes = 1
    while loop.time() < 3.5:
        # One request after the other only near the end of a session.
        await asyncio.sleep(0.02 if loop.time() < (times or [0.0])[-1] + 0.8 else 0)
        await client.call(node, HeartbeatRequest(), HeartbeatResponse)
        if brokers.count(SaslHandshakeRequest) != handshakes:
            handshakes = brokers.count(SaslHandshakeRequest)
            times.append(loop.time())
    assert len(times) == 3
    pauses = [after - before for before, after in zip([0, *times], times, strict=False)]
    assert all(0.85 <= pause <= 0.96 for pause in pauses), pauses
    assert max(pauses) - min(pauses) > 0.01, "clients do not come all at once"
    assert brokers.dialled == 1
    values = {name.name: value for name, value in client.metrics().items()}
    assert values["successful-reauthentication-total"] == 3
    await client.close()


@in_virtual_time
async def test_a_session_that_is_not_prolonged_ends_and_the_next_dial_says_why(loop: SimulatedLoop) -> None:
    answers = [accepted(10_000)]
    SecuredBrokers(loop, lambda _: answers.pop() if answers else refused("revoked"))
    client = cluster(loop, **PLAIN)
    node = await client.any_node()
    lost: list[ConnectionLost] = []
    node.connection.on_close(lost.append)
    await asyncio.sleep(10)
    assert lost
    with pytest.raises(AuthenticationFailed, match="revoked"):
        await client.topic("t")
    values = {name.name: value for name, value in client.metrics().items()}
    assert values["failed-reauthentication-total"] == 1
    await client.close()


@in_virtual_time
async def test_an_error_of_a_library_while_a_session_is_prolonged_ends_the_connection(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    SecuredBrokers(loop, lambda _: accepted(10_000))
    client = cluster(loop, **PLAIN)
    node = await client.any_node()
    lost: list[ConnectionLost] = []
    node.connection.on_close(lost.append)

    def broken(_: PlainClient) -> bytes:
        raise RuntimeError("the library fails")

    with monkeypatch.context() as patched:
        patched.setattr(PlainClient, "first", broken)
        await asyncio.sleep(10)
    assert lost
    await client.topic("t")
    await client.close()


@in_virtual_time
async def test_a_session_without_an_end_is_left_alone(loop: SimulatedLoop) -> None:
    brokers = SecuredBrokers(loop, lambda _: accepted(0))
    client = cluster(loop, connections_max_idle_ms="-1", **PLAIN)
    await client.any_node()
    await asyncio.sleep(100_000)
    assert brokers.count(SaslHandshakeRequest) == 1
    await client.close()


@in_virtual_time
async def test_prolonging_a_session_is_no_use_of_the_connection(loop: SimulatedLoop) -> None:
    brokers = SecuredBrokers(loop, lambda _: accepted(10_000))
    client = cluster(loop, connections_max_idle_ms="30000", **PLAIN)
    await client.any_node()
    await asyncio.sleep(60)
    assert not brokers.open
    await client.close()


@in_virtual_time
async def test_one_token_is_used_by_all_connections_until_it_is_old(loop: SimulatedLoop) -> None:
    brokers = SecuredBrokers(loop, lambda _: accepted())
    asked: list[float] = []

    async def provider() -> OAuthToken:
        asked.append(loop.time())
        return OAuthToken(f"t{len(asked)}", client.clock.time_ms() + 1_000_000)

    client = bearer(loop, provider)
    await asyncio.gather(client.node(-1), client.node(-1, "data"))
    await asyncio.sleep(600)
    await client.node(-1, "coordinator")
    assert len(asked) == 1
    assert brokers.messages == [b"n,,\x01auth=Bearer t1\x01\x01"] * 3
    await asyncio.sleep(2000)
    await client.node(-1)
    assert len(asked) == 2
    await client.close()


@pytest.mark.parametrize(
    "given",
    [lambda: 7, lambda: ("a",), lambda: ("a", "b"), lambda: OAuthToken("x", 1), lambda: "not a token", lambda: {}["secret"]],
)
@in_virtual_time
async def test_a_provider_that_gives_no_token(loop: SimulatedLoop, given: Callable[[], object]) -> None:
    brokers = SecuredBrokers(loop, lambda _: accepted())
    client = bearer(loop, given)
    with pytest.raises(AuthenticationFailed) as raised:
        await client.refresh()
    assert "secret" not in str(raised.value)
    assert not brokers.messages
    await client.close()


def _config(**settings: Setting) -> Cluster:
    return Cluster(ClientConfig(PRODUCER_CONFIG, settings))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sasl_username": "u"}, "sasl.username has no effect with sasl.mechanism=GSSAPI, which is the default"),
        ({"sasl_mechanism": "GSSAPI", "sasl_kerberos_keytab": "/a"}, "sasl.kerberos.keytab needs sasl.kerberos.principal"),
        ({"sasl_mechanism": "GSSAPI", "sasl_kerberos_keytab": "/a", "sasl_kerberos_principal": "u"}, "the keytab /a cannot be read"),
        ({"sasl_mechanism": "PLAIN", "sasl_kerberos_keytab": "/a"}, "sasl.kerberos.keytab has no effect with sasl.mechanism=PLAIN"),
        (
            {"sasl_mechanism": "PLAIN", "sasl_oauthbearer_token_provider": str},
            "sasl.oauthbearer.token.provider has no effect with sasl.mechanism=PLAIN",
        ),
        ({"security_protocol": "PLAINTEXT", "sasl_kerberos_keytab": "/a"}, "no effect with security.protocol=PLAINTEXT"),
        ({"sasl_jaas_config": "Krb5LoginModule required serviceName=kafka;"}, "needs either useKeyTab=true or useTicketCache=true"),
        ({"sasl_jaas_config": "Krb5LoginModule required serviceName='';", "sasl_kerberos_service_name": ""}, "No serviceName defined in"),
        ({"sasl_jaas_config": "Krb5LoginModule required useKeyTab=true serviceName=k;"}, "with useKeyTab=true needs keyTab and principal"),
        ({"sasl_jaas_config": "Krb5LoginModule required useTicketCache=true keyTab=a serviceName=k;"}, "give one of them"),
        (
            {"sasl_jaas_config": "Krb5LoginModule required useTicketCache=true serviceName=k;", "sasl_kerberos_service_name": "other"},
            "Conflicting serviceName values",
        ),
        ({"sasl_jaas_config": "Krb5LoginModule required useTicketCache=true;", "sasl_kerberos_keytab": "/a"}, "give one of them"),
        ({"sasl_mechanism": "DIGEST-MD5"}, "DIGEST-MD5 for configuration sasl.mechanism"),
        ({"sasl_mechanism": "PLAIN", "sasl_password": "secret"}, "sasl.username is missing"),
        ({"sasl_mechanism": "PLAIN", "sasl_username": "u"}, "sasl.password is missing"),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": 'a.ScramLoginModule required username="u" password="secret";'}, "not for"),
        (
            {"sasl_mechanism": "PLAIN", "sasl_jaas_config": 'a.Krb5LoginModule required keyTab="secret";'},
            "names Krb5LoginModule, which is not for",
        ),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": 'a.OwnLoginModule required password="secret";'}, "OwnLoginModule"),
        (
            {"sasl_mechanism": "PLAIN", "sasl_jaas_config": 'a.PlainLoginModule required password="secret";'},
            "needs a username and a password",
        ),
        (
            {"sasl_mechanism": "PLAIN", "sasl_jaas_config": 'PlainLoginModule required username=u password="secret" x=y;'},
            "unknown option: x",
        ),
        (
            {
                "sasl_mechanism": "PLAIN",
                "sasl_username": "u",
                "sasl_jaas_config": 'PlainLoginModule required username=u password="secret";',
            },
            "give one of them",
        ),
        ({"sasl_mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.token.provider"),
        ({"sasl_mechanism": "OAUTHBEARER", "sasl_password": "secret"}, "sasl.password has no effect"),
        ({"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_provider": "secret"}, "takes a callable"),
        ({"sasl_mechanism": "PLAIN", "sasl_username": len}, "takes no callable"),
        ({"security_protocol": "PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_password": "secret"}, "sasl.password has no effect"),
        ({"security_protocol": "PLAINTEXT", "ssl_ca_location": "x"}, "ssl.truststore.location has no effect"),
    ],
)
@in_virtual_time
async def test_settings_that_make_no_client(loop: SimulatedLoop, settings: dict[str, Setting], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        _config(**{"security_protocol": "SASL_PLAINTEXT", **settings})
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl.mechanisms": "PLAIN", "sasl.username": USER, "sasl.password": PASSWORD},
        {"sasl_mechanism": "PLAIN", "sasl_plain_username": USER, "sasl_plain_password": PASSWORD},
        {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'x.PlainLoginModule required username="{USER}" password="{PASSWORD}";'},
    ],
)
@in_virtual_time
async def test_the_same_in_other_words(loop: SimulatedLoop, settings: dict[str, Setting]) -> None:
    brokers = SecuredBrokers(loop, lambda _: accepted())
    keys: dict[str, Setting] = {"bootstrap.servers": "broker1:9092", "security.protocol": "sasl_plaintext", **settings}
    client = Cluster(ClientConfig(PRODUCER_CONFIG, keys), clock=SimulatedClock(loop))
    await client.refresh()
    assert brokers.messages == [b"\0user\0pencil"]
    await client.close()
