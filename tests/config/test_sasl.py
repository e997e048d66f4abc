"""What the keys of SASL may say."""

from __future__ import annotations

import pytest

from odradek.base.errors import ConfigError
from odradek.config.broker import standalone_config
from odradek.config.keys.security import SASL_MECHANISM_CONTROLLER_PROTOCOL, SASL_MECHANISM_INTER_BROKER_PROTOCOL
from odradek.config.sasl import (
    SIGNED_HANDLER,
    UNSECURED_HANDLER,
    BearerSettings,
    ListenerSasl,
    NodeLogin,
    listener_sasl,
    node_login,
)
from tests.config.sasl_support import ALLOWED_URLS, BEARER, HANDLER, JAVA, LISTENERS, PLAIN, URL, USERS


def test_a_listener_has_its_mechanisms_users_and_limits() -> None:
    settings = {
        "listener.name.out.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        "connections.max.reauth.ms": "5000",
        "listener.name.out.plain.connections.max.reauth.ms": "100",
        "listener.name.out.sasl.server.max.receive.size": "1000",
    }
    sasl = listener_sasl(standalone_config({**LISTENERS, **PLAIN, **settings}), "OUT")
    users = {"alice": "a, secret", "bob": "b"}
    assert sasl == ListenerSasl("OUT", ("SCRAM-SHA-512", "PLAIN"), 1000, {"SCRAM-SHA-512": 5000, "PLAIN": 100}, users)
    assert "secret" not in repr(sasl)


def test_a_node_logs_in_by_the_line_of_its_listener() -> None:
    settings = {"inter.broker.listener.name": "OUT", "sasl.mechanism.inter.broker.protocol": "PLAIN"}
    config = standalone_config({**LISTENERS, **PLAIN, **settings})
    login = node_login(config, "OUT", SASL_MECHANISM_INTER_BROKER_PROTOCOL)
    assert login == NodeLogin("PLAIN", "node", "node-secret")
    assert "secret" not in repr(login)
    assert node_login(config, "CONTROLLER", SASL_MECHANISM_CONTROLLER_PROTOCOL) is None


KERBEROS = "listener.name.out.gssapi.sasl.jaas.config"
LOCAL_RULES = "sasl.kerberos.principal.to.local.rules"
GSSAPI = {"listener.name.out.sasl.enabled.mechanisms": "GSSAPI", "sasl.kerberos.service.name": "kafka"}


def krb5(without: str, instead: str = "") -> dict[str, str]:
    """A line of Kerberos, changed."""
    options = {"useKeyTab": "true", "storeKey": "true", "keyTab": '"/a/keytab"', "principal": '"kafka/host@REALM"', "doNotPrompt": "true"}
    words = [f"{name}={value}" for name, value in options.items() if name != without]
    return {KERBEROS: f"com.sun.security.auth.module.Krb5LoginModule required {' '.join(words)} {instead};"}


BEARER_LINE = "listener.name.out.oauthbearer.sasl.jaas.config"
BEARER_MODULE = f"{JAVA}.oauthbearer.OAuthBearerLoginModule"
ALLOWED_FILES = "org.apache.kafka.sasl.oauthbearer.allowed.files"
JAAS = "listener.name.out.plain.sasl.jaas.config"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"listener.name.out.sasl.enabled.mechanisms": None}, f"{KERBEROS} is missing: the listener OUT offers GSSAPI and has no key"),
        ({"listener.name.out.sasl.enabled.mechanisms": "PLAIN,DIGEST-MD5"}, "the listener OUT offers DIGEST-MD5, which Odradek does not"),
        ({"listener.name.out.sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms is empty, but the listener OUT uses SASL"),
        ({JAAS: None}, f"{JAAS} is missing: the listener OUT offers PLAIN and has no users"),
        ({JAAS: "hush"}, f"Invalid value [hidden] for configuration {JAAS}: it must be `LoginModule"),
        ({JAAS: 'org.example.PlainLoginModule required user_a="hush";'}, f"must name the login module {JAVA}.plain.PlainLoginModule"),
        ({"sasl.jaas.config": USERS}, "sasl.jaas.config has no effect: a setting of a mechanism needs the name of a listener"),
        (
            {"listener.name.out.sasl.jaas.config": USERS},
            "a setting of a mechanism needs the name of a listener, listener.name.name.plain.sasl.jaas.config",
        ),
        ({"listener.name.out.digest-md5.sasl.jaas.config": "x"}, "DIGEST-MD5 is not supported; the mechanisms are PLAIN, SCRAM-SHA-256"),
        ({KERBEROS: "x"}, f"Invalid value [hidden] for configuration {KERBEROS}: it must be `LoginModule"),
        ({KERBEROS: USERS}, f"{KERBEROS} must name the login module com.sun.security.auth.module.Krb5LoginModule"),
        (GSSAPI | krb5("useKeyTab"), f"{KERBEROS} needs useKeyTab=true"),
        (GSSAPI | krb5("storeKey"), f"{KERBEROS} needs storeKey=true"),
        (GSSAPI | krb5("storeKey", "storeKey=maybe"), f"{KERBEROS}: storeKey must be true or false"),
        (GSSAPI | krb5("keyTab"), f"{KERBEROS} needs keyTab"),
        (GSSAPI | krb5("principal"), f"{KERBEROS} needs principal, the name of the service"),
        (GSSAPI | krb5("principal", 'principal="*"'), f"{KERBEROS} needs principal, the name of the service"),
        (GSSAPI | krb5("", "useTicketCache=true"), f"{KERBEROS}: useTicketCache=true is not supported for nodes"),
        (GSSAPI | krb5("", "debug=true"), f"{KERBEROS}: debug=true works only in Java"),
        (GSSAPI | krb5("", "pass=hush"), f"{KERBEROS} has an unknown option: pass"),
        (GSSAPI | krb5("") | {"sasl.kerberos.service.name": None}, "No serviceName defined in either JAAS or Kafka config"),
        (GSSAPI | krb5("", "serviceName=other"), f"Conflicting serviceName values found in JAAS and Kafka configs: other in {KERBEROS}"),
        (GSSAPI | krb5("") | {LOCAL_RULES: "RULE:x"}, f"{LOCAL_RULES}: Invalid rule: RULE:x"),
        ({"sasl.kerberos.kinit.cmd": "/bin/kinit"}, "sasl.kerberos.kinit.cmd=/bin/kinit needs an external process that renews tickets"),
        ({"listener.name.out.plain.sasl.server.callback.handler.class": "org.example.Mine"}, "Java classes cannot run here"),
        ({"inter.broker.listener.name": "OUT"}, f"{KERBEROS} is missing: it has the credentials with which this node logs in"),
        (
            {"inter.broker.listener.name": "OUT", "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"},
            "listener.name.out.scram-sha-256.sasl.jaas.config is missing: it has the credentials with which this node logs in",
        ),
        (
            {
                "inter.broker.listener.name": "OUT",
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
                "listener.name.out.scram-sha-256.sasl.jaas.config": f"{JAVA}.scram.ScramLoginModule required username=x password=y;",
            },
            "must be included in sasl.enabled.mechanisms when SASL is used for inter-broker communication",
        ),
        (
            {
                "inter.broker.listener.name": "OUT",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                JAAS: f"{JAVA}.plain.PlainLoginModule required user_a=hush;",
            },
            "needs a username and a password, with which this node logs in to the listener OUT of other nodes",
        ),
        (BEARER, "sasl.server.callback.handler.class is missing: OAUTHBEARER with signed tokens needs"),
        (
            {**BEARER, HANDLER: SIGNED_HANDLER},
            "sasl.oauthbearer.jwks.endpoint.url is missing: the listener OUT needs it to check the signatures",
        ),
        ({**BEARER, HANDLER: SIGNED_HANDLER, URL: "ftp://keys"}, "it must begin with file:, http: or https:"),
        ({**BEARER, HANDLER: SIGNED_HANDLER, URL: "http://keys"}, f"cannot be accessed due to restrictions; add it to {ALLOWED_URLS}"),
        (
            {**BEARER, HANDLER: SIGNED_HANDLER, URL: "file:/keys", ALLOWED_URLS: "file:/keys", ALLOWED_FILES: "/other"},
            f"the file is not named in {ALLOWED_FILES}",
        ),
        (
            {**BEARER, HANDLER: UNSECURED_HANDLER, BEARER_LINE: f"{BEARER_MODULE} required unsecuredValidatorScope=x;"},
            "listener.name.out.oauthbearer.sasl.jaas.config: unknown option unsecuredValidatorScope",
        ),
        ({"connections.max.idle.ms": "50"}, "connection.failed.authentication.delay.ms must be less than connections.max.idle.ms=50"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_key(changed: dict[str, str | None], message: str) -> None:
    settings: dict[str, str | None] = {**LISTENERS, **PLAIN, **changed}
    with pytest.raises(ConfigError) as problem:
        standalone_config({name: value for name, value in settings.items() if value is not None})
    assert message in str(problem.value)
    assert "hush" not in str(problem.value)
    assert len(str(problem.value).splitlines()) == 1


def test_the_handlers_of_kafka_may_be_named() -> None:
    name = "listener.name.out.plain.sasl.server.callback.handler.class"
    standalone_config({**LISTENERS, **PLAIN, name: f"{JAVA}.plain.internals.PlainServerCallbackHandler"})


def test_signed_tokens_have_keys_that_are_allowed() -> None:
    settings = {
        **BEARER,
        HANDLER: SIGNED_HANDLER,
        URL: "file:///keys%20here",
        ALLOWED_URLS: "http://other,file:///keys%20here",
        ALLOWED_FILES: "/keys here",
        "listener.name.out.oauthbearer.sasl.oauthbearer.expected.issuer": "https://issuer",
        "sasl.oauthbearer.expected.audience": "a,b",
    }
    bearer = listener_sasl(standalone_config({**LISTENERS, **settings}), "OUT").bearer
    assert bearer == BearerSettings(url="file:///keys%20here", issuer="https://issuer", audiences=("a", "b"))


SIGNED = {**BEARER, HANDLER: SIGNED_HANDLER, URL: "http://keys", ALLOWED_URLS: "http://keys"}
TOKENS = "sasl.oauthbearer."


@pytest.mark.parametrize("where", ["", "listener.name.out.", "listener.name.out.oauthbearer."])
@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (f"{TOKENS}expected.issuer", "https://issuer", {"issuer": "https://issuer"}),
        (f"{TOKENS}expected.audience", "a,b", {"audiences": ("a", "b")}),
        (f"{TOKENS}clock.skew.seconds", "7", {"skew_s": 7.0}),
        (f"{TOKENS}scope.claim.name", "roles", {"scope_claim": "roles"}),
        (f"{TOKENS}sub.claim.name", "who", {"subject_claim": "who"}),
        (f"{TOKENS}jwks.endpoint.refresh.ms", "7000", {"refresh_s": 7.0}),
        (f"{TOKENS}jwks.endpoint.retry.backoff.ms", "7000", {"retry_s": 7.0}),
        (f"{TOKENS}jwks.endpoint.retry.backoff.max.ms", "7000", {"retry_max_s": 7.0}),
        ("sasl.login.connect.timeout.ms", "7000", {"connect_s": 7.0}),
        ("sasl.login.read.timeout.ms", "7000", {"read_s": 7.0}),
    ],
)
def test_a_key_of_tokens_sets_what_it_says_and_nothing_else(where: str, name: str, value: str, expected: dict[str, object]) -> None:
    bearer = listener_sasl(standalone_config({**LISTENERS, **SIGNED, where + name: value}), "OUT").bearer
    assert bearer is not None
    defaults = {
        "unsecured": None,
        "url": "http://keys",
        "issuer": None,
        "audiences": (),
        "skew_s": 30.0,
        "scope_claim": "scope",
        "subject_claim": "sub",
        "refresh_s": 3600.0,
        "retry_s": 0.1,
        "retry_max_s": 10.0,
        "connect_s": 10.0,
        "read_s": 10.0,
    }
    assert bearer._asdict() == {**defaults, **expected}


def test_kerberos() -> None:
    config = standalone_config({**LISTENERS, **GSSAPI, **krb5(""), LOCAL_RULES: "RULE:[1:$1],DEFAULT", "inter.broker.listener.name": "OUT"})
    sasl, login = listener_sasl(config, "OUT"), node_login(config, "OUT", SASL_MECHANISM_INTER_BROKER_PROTOCOL)
    assert sasl.kerberos == ("kafka/host@REALM", "/a/keytab", ("RULE:[1:$1]", "DEFAULT"))
    assert login is not None
    assert (login.mechanism, login.name, login.service, login.kerberos) == ("GSSAPI", "kafka/host@REALM", "kafka", sasl.kerberos)
