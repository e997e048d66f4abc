"""Identity of the client from its configuration: Java's sasl.jaas.config, or the keys of Python and C clients.

A missing or invalid key raises ConfigError, in one line that names the key; no message ever holds a secret.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, cast

from odradek.base.errors import ConfigError
from odradek.client.settings.common_keys import (
    SASL_JAAS_CONFIG,
    SASL_KERBEROS_DOMAIN_NAME,
    SASL_KERBEROS_KEYTAB,
    SASL_KERBEROS_PRINCIPAL,
    SASL_KERBEROS_SERVICE_NAME,
    SASL_LOGIN_CONNECT_TIMEOUT_MS,
    SASL_LOGIN_READ_TIMEOUT_MS,
    SASL_LOGIN_RETRY_BACKOFF_MAX_MS,
    SASL_LOGIN_RETRY_BACKOFF_MS,
    SASL_MECHANISM,
    SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_ID,
    SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_SECRET,
    SASL_OAUTHBEARER_HEADER_URLENCODE,
    SASL_OAUTHBEARER_SCOPE,
    SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL,
    SASL_OAUTHBEARER_TOKEN_PROVIDER,
    SASL_PASSWORD,
    SASL_USERNAME,
    SECURITY_PROTOCOL,
)
from odradek.client.settings.config import ClientConfig
from odradek.config.kerberos import check_options, flag, service_name
from odradek.security.jaas import LoginModule, parse_jaas
from odradek.security.sasl.client import OAuthToken

TokenProvider = Callable[[], "OAuthToken | str | tuple[str, float] | Awaitable[OAuthToken | str | tuple[str, float]]"]
"""Function or coroutine function that returns an OAuthToken, its text, or (text, Unix seconds of its end; confluent-kafka's oauth_cb)."""

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER", "GSSAPI")
_MODULES = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": SCRAM,
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
    "Krb5LoginModule": ("GSSAPI",),
}
_JAAS = "sasl.jaas.config"
_UNSECURED = "unsecuredLogin"
_OF_KERBEROS: Final = (SASL_KERBEROS_KEYTAB, SASL_KERBEROS_PRINCIPAL, SASL_KERBEROS_DOMAIN_NAME, SASL_KERBEROS_SERVICE_NAME)
TOKEN_PROVIDER: Final = SASL_OAUTHBEARER_TOKEN_PROVIDER
TOKEN_ENDPOINT: Final = SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL
CLIENT_ID: Final = SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_ID
CLIENT_SECRET: Final = SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_SECRET
SCOPE: Final = SASL_OAUTHBEARER_SCOPE
OF_TOKEN_ENDPOINT: Final = (
    CLIENT_ID,
    CLIENT_SECRET,
    SCOPE,
    SASL_OAUTHBEARER_HEADER_URLENCODE,
    SASL_LOGIN_CONNECT_TIMEOUT_MS,
    SASL_LOGIN_READ_TIMEOUT_MS,
    SASL_LOGIN_RETRY_BACKOFF_MS,
    SASL_LOGIN_RETRY_BACKOFF_MAX_MS,
)
"""Keys that say how to ask an authorization server for tokens."""
_OF_BEARER: Final = (TOKEN_PROVIDER, TOKEN_ENDPOINT, *OF_TOKEN_ENDPOINT)


class KerberosLogin(NamedTuple):
    """Kerberos principal whose tickets are used, and the service."""

    service: str
    host: str = ""
    """Host of the service; "" for the host that is dialled."""
    principal: str = ""
    keytab: str = ""
    cache: str = ""
    """Place of the tickets without a keytab; "" for the library's default cache."""


class Credentials(NamedTuple):
    """Credentials of one mechanism: name and password, a source of tokens, or tickets."""

    mechanism: str
    username: str = ""
    password: str = ""
    delegation_token: bool = False
    provider: TokenProvider | None = None
    unsecured: dict[str, str] | None = None
    """Options of an unsigned token."""
    kerberos: KerberosLogin | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism})"


def credentials_of(config: ClientConfig) -> Credentials | None:
    """Return the credentials; None if the security protocol has no SASL. Raises ConfigError for missing or contradictory keys."""
    protocol = config[SECURITY_PROTOCOL].upper()
    if not protocol.startswith("SASL_"):
        for key in (SASL_USERNAME, SASL_PASSWORD, SASL_JAAS_CONFIG, *_OF_KERBEROS, *_OF_BEARER):
            if config.is_set(key):
                raise ConfigError(
                    f"Configuration {key} has no effect with security.protocol={protocol}: it needs SASL_SSL or SASL_PLAINTEXT"
                )
        return None
    mechanism = config[SASL_MECHANISM]
    if mechanism not in MECHANISMS:
        raise ConfigError(f"Invalid value {mechanism} for configuration sasl.mechanism: it must be one of {', '.join(MECHANISMS)}")
    line = config[SASL_JAAS_CONFIG]
    module = None if line is None else parse_jaas(line)
    if module is not None:
        _check_module(module, mechanism)
    if mechanism == "GSSAPI":
        _check_not_of_bearer(config, mechanism)
        return Credentials(mechanism, kerberos=_kerberos(config, module))
    for key in _OF_KERBEROS:
        if config.is_set(key):
            raise ConfigError(f"Configuration {key} has no effect with sasl.mechanism={mechanism}: it is for GSSAPI")
    if mechanism == "OAUTHBEARER":
        return _bearer(config, module)
    _check_not_of_bearer(config, mechanism)
    return _named(config, mechanism, module)


def _check_not_of_bearer(config: ClientConfig, mechanism: str) -> None:
    for key in _OF_BEARER:
        if config.is_set(key):
            raise ConfigError(f"Configuration {key} has no effect with sasl.mechanism={mechanism}: it is for OAUTHBEARER")


def _check_module(module: LoginModule, mechanism: str) -> None:
    mechanisms = _MODULES.get(module.name)
    if mechanisms is None:
        raise ConfigError(f"sasl.jaas.config names the login module {module.name}; this client supports {', '.join(_MODULES)}")
    if mechanism not in mechanisms:
        raise ConfigError(f"sasl.jaas.config names {module.name}, which is not for sasl.mechanism={mechanism}")


def _named(config: ClientConfig, mechanism: str, module: LoginModule | None) -> Credentials:
    if module is None:
        username, password = config[SASL_USERNAME], config[SASL_PASSWORD]
        if username is None or password is None:
            missing = SASL_USERNAME if username is None else SASL_PASSWORD
            raise ConfigError(
                f"sasl.mechanism={mechanism} needs sasl.username and sasl.password, or sasl.jaas.config: {missing} is missing"
            )
        return Credentials(mechanism, username, password)
    for key in (SASL_USERNAME, SASL_PASSWORD):
        if config.is_set(key):
            raise ConfigError(f"Configuration {key} excludes sasl.jaas.config: give one of them")
    options = dict(module.options)
    username, password = options.pop("username", None), options.pop("password", None)
    if username is None or password is None:
        raise ConfigError("sasl.jaas.config needs a username and a password")
    token = options.pop("tokenauth", "false").lower() == "true" if mechanism in SCRAM else False
    if options:
        raise ConfigError(f"sasl.jaas.config has an unknown option: {sorted(options)[0]}")
    return Credentials(mechanism, username, password, delegation_token=token)


def _bearer(config: ClientConfig, module: LoginModule | None) -> Credentials:
    for key in (SASL_USERNAME, SASL_PASSWORD):
        if config.is_set(key):
            raise ConfigError(f"Configuration {key} has no effect with sasl.mechanism=OAUTHBEARER: give {TOKEN_PROVIDER}")
    provider = config.callable(TOKEN_PROVIDER)
    options = dict(module.options) if module is not None else {}
    unsecured = {name: value for name, value in options.items() if name.startswith(_UNSECURED)}
    from odradek.client.security.token_endpoint import endpoint_of

    endpoint = endpoint_of(config, {name: value for name, value in options.items() if name not in unsecured})
    sources = {TOKEN_PROVIDER: provider, TOKEN_ENDPOINT: endpoint, "a token in sasl.jaas.config": unsecured}
    given = [name for name, source in sources.items() if source]
    if len(given) > 1:
        raise ConfigError(f"{given[0]} excludes {given[1]}: give one of them")
    if not given:
        raise ConfigError(f"sasl.mechanism=OAUTHBEARER needs {TOKEN_PROVIDER}, a callable that returns a token, or {TOKEN_ENDPOINT}")
    source = cast("TokenProvider | None", endpoint if provider is None else provider)
    return Credentials("OAUTHBEARER", provider=source, unsecured=unsecured or None)


def _kerberos(config: ClientConfig, module: LoginModule | None) -> KerberosLogin:
    for key in (SASL_USERNAME, SASL_PASSWORD):
        if config.is_set(key):
            default = "" if config.is_set(SASL_MECHANISM) else ", which is the default"
            raise ConfigError(f"Configuration {key} has no effect with sasl.mechanism=GSSAPI{default}")
    host = config[SASL_KERBEROS_DOMAIN_NAME] or ""
    keytab, principal = config[SASL_KERBEROS_KEYTAB] or "", config[SASL_KERBEROS_PRINCIPAL] or ""
    if module is None:
        if keytab and not principal:
            raise ConfigError("sasl.kerberos.keytab needs sasl.kerberos.principal, the name of the principal in the keytab")
        return KerberosLogin(config[SASL_KERBEROS_SERVICE_NAME], host, principal, keytab)
    for key in _OF_KERBEROS[:2]:
        if config.is_set(key):
            raise ConfigError(f"Configuration {key} excludes sasl.jaas.config: give one of them")
    options = dict(module.options)
    default_holds = config.is_set(SASL_KERBEROS_SERVICE_NAME) or "serviceName" not in options
    service = service_name(module, _JAAS, config[SASL_KERBEROS_SERVICE_NAME] if default_holds else None)
    options.pop("serviceName", None)
    flag(options, "storeKey", _JAAS)
    with_keytab, with_cache = flag(options, "useKeyTab", _JAAS), flag(options, "useTicketCache", _JAAS)
    principal, keytab = options.pop("principal", ""), options.pop("keyTab", "").removeprefix("file:")
    cache = options.pop("ticketCache", "").removeprefix("file:")
    check_options(options, _JAAS)
    if with_keytab == with_cache:
        raise ConfigError(f"{_JAAS} needs either useKeyTab=true or useTicketCache=true")
    if with_cache:
        if keytab:
            raise ConfigError(f"{_JAAS}: keyTab excludes useTicketCache=true: give one of them")
        return KerberosLogin(service, host, principal, cache=cache)
    if not keytab or not principal:
        raise ConfigError(f"{_JAAS} with useKeyTab=true needs keyTab and principal")
    return KerberosLogin(service, host, principal, keytab)
