"""SASL settings of each listener, and of this node's logins to other nodes (BrokerSecurityConfigs, JaasContext).

A key may be given for one mechanism of a listener, for the listener, or in general; the most specific one applies. `sasl.jaas.config`
exists for a mechanism of a listener only. All settings are checked at the start. Errors are ConfigError, one line that names the key and
quotes no secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from odradek.base.errors import ConfigError
from odradek.config.definition import Key, T
from odradek.config.kerberos import KerberosSettings, kerberos_settings, service_name
from odradek.config.keys.odradek_only import ORG_APACHE_KAFKA_SASL_OAUTHBEARER_ALLOWED_FILES, ORG_APACHE_KAFKA_SASL_OAUTHBEARER_ALLOWED_URLS
from odradek.config.keys.security import (
    CONNECTIONS_MAX_REAUTH_MS,
    SASL_ENABLED_MECHANISMS,
    SASL_JAAS_CONFIG,
    SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES,
    SASL_KERBEROS_SERVICE_NAME,
    SASL_LOGIN_CALLBACK_HANDLER_CLASS,
    SASL_LOGIN_CONNECT_TIMEOUT_MS,
    SASL_LOGIN_READ_TIMEOUT_MS,
    SASL_MECHANISM_CONTROLLER_PROTOCOL,
    SASL_MECHANISM_INTER_BROKER_PROTOCOL,
    SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS,
    SASL_OAUTHBEARER_EXPECTED_AUDIENCE,
    SASL_OAUTHBEARER_EXPECTED_ISSUER,
    SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS,
    SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS,
    SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS,
    SASL_OAUTHBEARER_JWKS_ENDPOINT_URL,
    SASL_OAUTHBEARER_JWT_VALIDATOR_CLASS,
    SASL_OAUTHBEARER_SCOPE_CLAIM_NAME,
    SASL_OAUTHBEARER_SUB_CLAIM_NAME,
    SASL_SERVER_CALLBACK_HANDLER_CLASS,
    SASL_SERVER_MAX_RECEIVE_SIZE,
)
from odradek.config.listener_settings import listener_key, listener_value, own_value, parse_listener_key
from odradek.config.listeners import SASL_PROTOCOLS
from odradek.security.jaas import LoginModule, parse_jaas
from odradek.security.sasl.bearer_tokens import UnsecuredRules, unsecured_rules
from odradek.security.sasl.gssapi import GSSAPI
from odradek.security.sasl.scram import HASHES

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
MECHANISMS = (PLAIN, *HASHES, OAUTHBEARER, GSSAPI)
"""Mechanisms that are served."""

_OF_MECHANISMS = (SASL_JAAS_CONFIG.name, SASL_SERVER_CALLBACK_HANDLER_CLASS.name, SASL_LOGIN_CALLBACK_HANDLER_CLASS.name)
_JAVA = "org.apache.kafka.common.security"
_MODULES = {
    PLAIN: f"{_JAVA}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_JAVA}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_JAVA}.scram.ScramLoginModule",
    OAUTHBEARER: f"{_JAVA}.oauthbearer.OAuthBearerLoginModule",
    GSSAPI: "com.sun.security.auth.module.Krb5LoginModule",
}
_USER = "user_"
_WAIT_MS = 10_000
"""Time limit for connecting to a provider of keys, and for its response, when none is set."""
UNSECURED_HANDLER = f"{_JAVA}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
SIGNED_HANDLER = f"{_JAVA}.oauthbearer.OAuthBearerValidatorCallbackHandler"
_JWT_VALIDATORS = (f"{_JAVA}.oauthbearer.DefaultJwtValidator", f"{_JAVA}.oauthbearer.BrokerJwtValidator")
_SERVER_HANDLERS = {
    OAUTHBEARER: (UNSECURED_HANDLER, SIGNED_HANDLER),
    PLAIN: (f"{_JAVA}.plain.internals.PlainServerCallbackHandler",),
    GSSAPI: (f"{_JAVA}.authenticator.SaslServerCallbackHandler",),
    "SCRAM-SHA-256": (f"{_JAVA}.scram.internals.ScramServerCallbackHandler",),
    "SCRAM-SHA-512": (f"{_JAVA}.scram.internals.ScramServerCallbackHandler",),
}
"""Classes that may be named, because the broker behaves as they do."""


class BearerSettings(NamedTuple):
    """Rules for checking bearer tokens."""

    unsecured: UnsecuredRules | None = None
    """Rules for unsigned tokens, whose content is not protected; None when unsigned tokens are refused."""
    url: str = ""
    """Location of the provider's keys."""
    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    skew_s: float = 30.0
    scope_claim: str = "scope"
    subject_claim: str = "sub"
    refresh_s: float = 3600.0
    retry_s: float = 0.1
    retry_max_s: float = 10.0
    connect_s: float = 10.0
    read_s: float = 10.0


class ListenerSasl(NamedTuple):
    """Authentication of a listener's clients. Its repr shows no secret."""

    listener: str
    mechanisms: tuple[str, ...]
    """Mechanisms in the order in which they are offered."""
    max_receive_size: int
    """Limit in bytes of a message whose sender has not authenticated yet."""
    max_reauth_ms: Mapping[str, int]
    """Duration of a session in milliseconds by mechanism; 0 without limit."""
    users: Mapping[str, str]
    """Password by user name, for PLAIN."""
    bearer: BearerSettings | None = None
    """Settings for OAUTHBEARER."""
    kerberos: KerberosSettings | None = None
    """Settings for GSSAPI."""

    def __repr__(self) -> str:
        return f"ListenerSasl({self.listener}, {','.join(self.mechanisms)})"


class NodeLogin(NamedTuple):
    """Credentials with which this node logs in to other nodes. Its repr shows no secret."""

    mechanism: str
    name: str = ""
    password: str = ""
    kerberos: KerberosSettings | None = None
    """Settings for GSSAPI, where `name` is the principal."""
    service: str = ""
    """Service name of the other nodes, for GSSAPI."""

    def __repr__(self) -> str:
        return f"NodeLogin({self.mechanism}, {self.name})"


def sasl_value(config: BrokerConfig, listener: str, mechanism: str, key: Key[T]) -> T:
    """Return the value that applies to a mechanism of a listener."""
    for each in (mechanism, ""):
        own = own_value(config, listener, key, each)
        if own is not None:
            return own
    return config[key]


def listener_sasl(config: BrokerConfig, listener: str) -> ListenerSasl:
    """Return the settings of a listener that requires SASL. Raises ConfigError."""
    own = own_value(config, listener, SASL_ENABLED_MECHANISMS)
    mechanisms = tuple(own if own is not None else config[SASL_ENABLED_MECHANISMS])
    name = SASL_ENABLED_MECHANISMS.name if own is None else listener_key(listener, SASL_ENABLED_MECHANISMS.name)
    if not mechanisms:
        raise ConfigError(f"{name} is empty, but the listener {listener} uses SASL; the mechanisms are {', '.join(MECHANISMS)}")
    for mechanism in mechanisms:
        if mechanism not in MECHANISMS:
            chosen = own is not None or config.is_set(SASL_ENABLED_MECHANISMS)
            hint = "" if chosen else f" (Kafka's default); set it to some of {', '.join(MECHANISMS)}"
            raise ConfigError(f"{name}: the listener {listener} offers {mechanism}{hint}, which Odradek does not support")
    return ListenerSasl(
        listener,
        mechanisms,
        listener_value(config, listener, SASL_SERVER_MAX_RECEIVE_SIZE),
        {each: sasl_value(config, listener, each, CONNECTIONS_MAX_REAUTH_MS) for each in mechanisms},
        _users(config, listener) if PLAIN in mechanisms else {},
        _bearer(config, listener) if OAUTHBEARER in mechanisms else None,
        _kerberos(config, listener) if GSSAPI in mechanisms else None,
    )


def node_login(config: BrokerConfig, listener: str, mechanism_key: Key[str]) -> NodeLogin | None:
    """Return the login of this node at `listener` of other nodes, by the mechanism in `mechanism_key`; None without SASL. Raises
    ConfigError.
    """
    if config.listener_security_protocols.get(listener) not in SASL_PROTOCOLS:
        return None
    mechanism = config[mechanism_key]
    if mechanism not in MECHANISMS:
        hint = "" if config.is_set(mechanism_key) else f" (Kafka's default); set it to one of {', '.join(MECHANISMS)}"
        raise ConfigError(f"{mechanism_key}={mechanism}{hint}: the listener {listener} uses SASL, and {mechanism} is not supported")
    key = listener_key(listener, SASL_JAAS_CONFIG.name, mechanism)
    module = _module(config, listener, mechanism)
    if module is None:
        raise ConfigError(
            f"{key} is missing: it has the credentials with which this node logs in to the listener {listener} of other nodes"
        )
    if mechanism == OAUTHBEARER:
        raise ConfigError(f"{mechanism_key}={mechanism}: nodes can log in to each other only with PLAIN, SCRAM or GSSAPI")
    if mechanism == GSSAPI:
        kerberos = _kerberos(config, listener)
        return NodeLogin(mechanism, kerberos.principal, kerberos=kerberos, service=_service(config, listener, module))
    username, password = module.options.get("username"), module.options.get("password")
    if not username or password is None:
        raise ConfigError(f"{key} needs a username and a password, with which this node logs in to the listener {listener} of other nodes")
    return NodeLogin(mechanism, username, password)


def check_sasl(config: BrokerConfig) -> None:
    """Raise ConfigError for the first invalid SASL setting."""
    _check_jaas_names(config)
    for endpoint in config.listeners:
        if endpoint.security_protocol in SASL_PROTOCOLS:
            listener_sasl(config, endpoint.listener)
    for listener, key in _login_listeners(config):
        node_login(config, listener, key)
    if config.is_broker:
        _check_inter_broker(config)


def _check_inter_broker(config: BrokerConfig) -> None:
    listener = config.inter_broker_listener_name
    if config.listener_security_protocols.get(listener) in SASL_PROTOCOLS:
        enabled = own_value(config, listener, SASL_ENABLED_MECHANISMS) or config[SASL_ENABLED_MECHANISMS]
        if config[SASL_MECHANISM_INTER_BROKER_PROTOCOL] not in enabled:
            raise ConfigError(
                "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when SASL is used for "
                "inter-broker communication"
            )


def _login_listeners(config: BrokerConfig) -> list[tuple[str, Key[str]]]:
    """Return the listeners of other nodes that this node connects to, and the keys of their mechanisms."""
    found = [(name, SASL_MECHANISM_CONTROLLER_PROTOCOL) for name in config.controller_listener_names[:1]]
    if config.is_broker:
        found.append((config.inter_broker_listener_name, SASL_MECHANISM_INTER_BROKER_PROTOCOL))
    return found


def _check_jaas_names(config: BrokerConfig) -> None:
    for name in config.given:
        setting = parse_listener_key(name)
        key = name if setting is None else setting.key
        if key in _OF_MECHANISMS and (setting is None or not setting.mechanism):
            raise ConfigError(
                f"{name} has no effect: a setting of a mechanism needs the name of a listener, {listener_key('NAME', key, 'plain')}"
            )
        if setting is not None and setting.mechanism and setting.mechanism.upper() not in MECHANISMS:
            raise ConfigError(f"{name}: {setting.mechanism.upper()} is not supported; the mechanisms are {', '.join(MECHANISMS)}")
        if setting is not None and key == SASL_JAAS_CONFIG.name:
            _module(config, setting.listener, setting.mechanism.upper())
        elif setting is not None and key == SASL_SERVER_CALLBACK_HANDLER_CLASS.name:
            given = own_value(config, setting.listener, SASL_SERVER_CALLBACK_HANDLER_CLASS, setting.mechanism) or ""
            _check_handler(name, given, _SERVER_HANDLERS[setting.mechanism.upper()])


def _check_handler(name: str, given: str, served: tuple[str, ...]) -> None:
    if given not in served:
        raise ConfigError(f"{name}={given}: Java classes cannot run here; the supported classes are {' or '.join(served)}")


def _module(config: BrokerConfig, listener: str, mechanism: str) -> LoginModule | None:
    key = listener_key(listener, SASL_JAAS_CONFIG.name, mechanism)
    line = own_value(config, listener, SASL_JAAS_CONFIG, mechanism)
    if line is None:
        return None
    module = parse_jaas(line, key)
    wanted = _MODULES[mechanism]
    if f"{module.package}.{module.name}" != wanted:
        raise ConfigError(f"{key} must name the login module {wanted}")
    return module


def _users(config: BrokerConfig, listener: str) -> dict[str, str]:
    module = _module(config, listener, PLAIN)
    if module is None:
        raise ConfigError(
            f"{listener_key(listener, SASL_JAAS_CONFIG.name, PLAIN)} is missing: the listener {listener} offers PLAIN and has no users"
        )
    return {name.removeprefix(_USER): value for name, value in module.options.items() if name.startswith(_USER)}


def _kerberos(config: BrokerConfig, listener: str) -> KerberosSettings:
    key = listener_key(listener, SASL_JAAS_CONFIG.name, GSSAPI)
    module = _module(config, listener, GSSAPI)
    if module is None:
        raise ConfigError(f"{key} is missing: the listener {listener} offers GSSAPI and has no key")
    _service(config, listener, module)
    rules = sasl_value(config, listener, GSSAPI, SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES)
    return kerberos_settings(module, key, rules)


def _service(config: BrokerConfig, listener: str, module: LoginModule) -> str:
    given = sasl_value(config, listener, GSSAPI, SASL_KERBEROS_SERVICE_NAME)
    return service_name(module, listener_key(listener, SASL_JAAS_CONFIG.name, GSSAPI), given)


def _bearer(config: BrokerConfig, listener: str) -> BearerSettings:
    handler_key = listener_key(listener, SASL_SERVER_CALLBACK_HANDLER_CLASS.name, OAUTHBEARER)
    handler = own_value(config, listener, SASL_SERVER_CALLBACK_HANDLER_CLASS, OAUTHBEARER)
    if handler is None:
        raise ConfigError(
            f"{handler_key} is missing: OAUTHBEARER with signed tokens needs {SIGNED_HANDLER}; Kafka's default accepts unsigned "
            f"tokens and is for tests only; to use it, name it here: {UNSECURED_HANDLER}"
        )
    if handler == UNSECURED_HANDLER:
        module = _module(config, listener, OAUTHBEARER)
        try:
            return BearerSettings(unsecured=unsecured_rules({} if module is None else module.options))
        except ValueError as error:
            raise ConfigError(f"{listener_key(listener, SASL_JAAS_CONFIG.name, OAUTHBEARER)}: {error}") from None
    validator = sasl_value(config, listener, OAUTHBEARER, SASL_OAUTHBEARER_JWT_VALIDATOR_CLASS)
    if validator not in _JWT_VALIDATORS:
        raise ConfigError(
            f"sasl.oauthbearer.jwt.validator.class={validator}: Java classes cannot run here; the supported class is {_JWT_VALIDATORS[0]}"
        )
    url = sasl_value(config, listener, OAUTHBEARER, SASL_OAUTHBEARER_JWKS_ENDPOINT_URL)
    if not url:
        raise ConfigError(
            f"sasl.oauthbearer.jwks.endpoint.url is missing: the listener {listener} needs it to check the signatures of tokens"
        )
    _check_allowed(config, url)
    audiences = sasl_value(config, listener, OAUTHBEARER, SASL_OAUTHBEARER_EXPECTED_AUDIENCE)
    connect_ms = sasl_value(config, listener, OAUTHBEARER, SASL_LOGIN_CONNECT_TIMEOUT_MS)
    read_ms = sasl_value(config, listener, OAUTHBEARER, SASL_LOGIN_READ_TIMEOUT_MS)
    return BearerSettings(
        url=url,
        issuer=sasl_value(config, listener, OAUTHBEARER, SASL_OAUTHBEARER_EXPECTED_ISSUER),
        audiences=tuple(audiences or ()),
        skew_s=float(sasl_value(config, listener, OAUTHBEARER, SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS)),
        scope_claim=sasl_value(config, listener, OAUTHBEARER, SASL_OAUTHBEARER_SCOPE_CLAIM_NAME),
        subject_claim=sasl_value(config, listener, OAUTHBEARER, SASL_OAUTHBEARER_SUB_CLAIM_NAME),
        refresh_s=sasl_value(config, listener, OAUTHBEARER, SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS) / 1000,
        retry_s=sasl_value(config, listener, OAUTHBEARER, SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS) / 1000,
        retry_max_s=sasl_value(config, listener, OAUTHBEARER, SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS) / 1000,
        connect_s=(connect_ms or _WAIT_MS) / 1000,
        read_s=(read_ms or _WAIT_MS) / 1000,
    )


def _check_allowed(config: BrokerConfig, url: str) -> None:
    """Raise ConfigError unless the operator has also listed the URL as allowed (ConfigurationUtils.throwIfURLIsNotAllowed)."""
    scheme = urlsplit(url).scheme.lower()
    if scheme not in ("file", "http", "https"):
        raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url={url}: it must begin with file:, http: or https:")
    if url not in config[ORG_APACHE_KAFKA_SASL_OAUTHBEARER_ALLOWED_URLS]:
        raise ConfigError(
            f"sasl.oauthbearer.jwks.endpoint.url={url} cannot be accessed due to restrictions; "
            f"add it to {ORG_APACHE_KAFKA_SASL_OAUTHBEARER_ALLOWED_URLS}"
        )
    if scheme == "file" and unquote(urlsplit(url).path) not in config[ORG_APACHE_KAFKA_SASL_OAUTHBEARER_ALLOWED_FILES]:
        raise ConfigError(
            f"sasl.oauthbearer.jwks.endpoint.url={url}: the file is not named in {ORG_APACHE_KAFKA_SASL_OAUTHBEARER_ALLOWED_FILES}"
        )
