"""Keys of TLS, SASL, tokens, authorization."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    SHORT,
    STRING,
    Key,
    ListOf,
    OneOf,
    at_least,
    between,
    keys_in,
    non_null,
)

AUTHORIZER_CLASS_NAME: Final = Key(
    "authorizer.class.name", STRING, "", LOW, "Class of the authorizer; empty: everyone may perform every operation.", non_null
)
CONNECTIONS_MAX_REAUTH_MS: Final = Key(
    "connections.max.reauth.ms",
    LONG,
    "0",
    MEDIUM,
    "Longest time before an authenticated session must authenticate again, in ms; 0 is without limit.",
)
DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS: Final = Key(
    "delegation.token.expiry.check.interval.ms",
    LONG,
    "3600000",
    LOW,
    "Time between checks for expired delegation tokens, in ms.",
    at_least(1),
)
DELEGATION_TOKEN_EXPIRY_TIME_MS: Final = Key(
    "delegation.token.expiry.time.ms",
    LONG,
    "86400000",
    MEDIUM,
    "How long a delegation token is valid before it must be renewed, in ms.",
    at_least(1),
)
DELEGATION_TOKEN_MAX_LIFETIME_MS: Final = Key(
    "delegation.token.max.lifetime.ms",
    LONG,
    "604800000",
    MEDIUM,
    "Longest lifetime of a delegation token, renewals included, in ms.",
    at_least(1),
)
DELEGATION_TOKEN_SECRET_KEY: Final = Key(
    "delegation.token.secret.key", PASSWORD, None, MEDIUM, "Secret that delegation tokens are signed with, the same on all nodes."
)
EARLY_START_LISTENERS: Final = Key(
    "early.start.listeners", LIST, None, HIGH, "Listeners that open before the authorizer has loaded the ACLs.", ListOf(null=True)
)
PRINCIPAL_BUILDER_CLASS: Final = Key(
    "principal.builder.class",
    CLASS,
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    MEDIUM,
    "Class that builds the principal of an authenticated connection.",
)
SASL_CLIENT_CALLBACK_HANDLER_CLASS: Final = Key(
    "sasl.client.callback.handler.class", CLASS, None, MEDIUM, "Class that supplies credentials when this node is a SASL client."
)
SASL_ENABLED_MECHANISMS: Final = Key("sasl.enabled.mechanisms", LIST, "GSSAPI", MEDIUM, "SASL mechanisms this broker accepts.", ListOf())
SASL_JAAS_CONFIG: Final = Key("sasl.jaas.config", PASSWORD, None, MEDIUM, "Login modules and options, in JAAS form.")
SASL_KERBEROS_KINIT_CMD: Final = Key("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", MEDIUM, "Path of kinit.")
SASL_KERBEROS_MIN_TIME_BEFORE_RELOGIN: Final = Key(
    "sasl.kerberos.min.time.before.relogin", LONG, "60000", MEDIUM, "Shortest time between Kerberos logins, in ms."
)
SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES: Final = Key(
    "sasl.kerberos.principal.to.local.rules", LIST, "DEFAULT", MEDIUM, "Rules that turn Kerberos principals into short names.", ListOf()
)
SASL_KERBEROS_SERVICE_NAME: Final = Key("sasl.kerberos.service.name", STRING, None, MEDIUM, "Kerberos name of the service.")
SASL_KERBEROS_TICKET_RENEW_JITTER: Final = Key(
    "sasl.kerberos.ticket.renew.jitter", DOUBLE, "0.05", MEDIUM, "Random part of the renewal time of a Kerberos ticket."
)
SASL_KERBEROS_TICKET_RENEW_WINDOW_FACTOR: Final = Key(
    "sasl.kerberos.ticket.renew.window.factor", DOUBLE, "0.8", MEDIUM, "Fraction of a ticket's lifetime after which it is renewed."
)
SASL_LOGIN_CALLBACK_HANDLER_CLASS: Final = Key(
    "sasl.login.callback.handler.class", CLASS, None, MEDIUM, "Class that supplies credentials for the login."
)
SASL_LOGIN_CLASS: Final = Key("sasl.login.class", CLASS, None, MEDIUM, "Class that logs in.")
SASL_LOGIN_CONNECT_TIMEOUT_MS: Final = Key(
    "sasl.login.connect.timeout.ms", INT, None, LOW, "Time limit for connecting to the authentication provider, in ms."
)
SASL_LOGIN_READ_TIMEOUT_MS: Final = Key(
    "sasl.login.read.timeout.ms", INT, None, LOW, "Time limit for reading from the authentication provider, in ms."
)
SASL_LOGIN_REFRESH_BUFFER_SECONDS: Final = Key(
    "sasl.login.refresh.buffer.seconds", SHORT, "300", MEDIUM, "A credential is refreshed at least this many seconds before it expires."
)
SASL_LOGIN_REFRESH_MIN_PERIOD_SECONDS: Final = Key(
    "sasl.login.refresh.min.period.seconds", SHORT, "60", MEDIUM, "Shortest time between refreshes of a credential, in seconds."
)
SASL_LOGIN_REFRESH_WINDOW_FACTOR: Final = Key(
    "sasl.login.refresh.window.factor", DOUBLE, "0.8", MEDIUM, "Fraction of a credential's lifetime after which it is refreshed."
)
SASL_LOGIN_REFRESH_WINDOW_JITTER: Final = Key(
    "sasl.login.refresh.window.jitter", DOUBLE, "0.05", MEDIUM, "Random part of the time of a refresh."
)
SASL_LOGIN_RETRY_BACKOFF_MAX_MS: Final = Key(
    "sasl.login.retry.backoff.max.ms", LONG, "10000", LOW, "Longest pause between login attempts, in ms."
)
SASL_LOGIN_RETRY_BACKOFF_MS: Final = Key("sasl.login.retry.backoff.ms", LONG, "100", LOW, "First pause between login attempts, in ms.")
SASL_MECHANISM_CONTROLLER_PROTOCOL: Final = Key(
    "sasl.mechanism.controller.protocol", STRING, "GSSAPI", HIGH, "SASL mechanism for connections to controllers."
)
SASL_MECHANISM_INTER_BROKER_PROTOCOL: Final = Key(
    "sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", MEDIUM, "SASL mechanism for connections between brokers."
)
SASL_OAUTHBEARER_ASSERTION_ALGORITHM: Final = Key(
    "sasl.oauthbearer.assertion.algorithm",
    STRING,
    "RS256",
    MEDIUM,
    "Algorithm that signs client assertions.",
    OneOf("ES256", "RS256", ignore_case=True),
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_AUD: Final = Key(
    "sasl.oauthbearer.assertion.claim.aud", STRING, None, MEDIUM, "Audience in client assertions."
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_EXP_SECONDS: Final = Key(
    "sasl.oauthbearer.assertion.claim.exp.seconds", INT, "300", LOW, "Lifetime of a client assertion, in seconds.", between(0, 86400)
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_ISS: Final = Key(
    "sasl.oauthbearer.assertion.claim.iss", STRING, None, MEDIUM, "Issuer in client assertions."
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_JTI_INCLUDE: Final = Key(
    "sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, "false", MEDIUM, "Whether client assertions carry a unique id."
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_NBF_SECONDS: Final = Key(
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    INT,
    "60",
    LOW,
    "Seconds before its issue from which a client assertion is valid.",
    between(0, 3600),
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_SUB: Final = Key(
    "sasl.oauthbearer.assertion.claim.sub", STRING, None, MEDIUM, "Subject in client assertions."
)
SASL_OAUTHBEARER_ASSERTION_FILE: Final = Key(
    "sasl.oauthbearer.assertion.file", STRING, None, MEDIUM, "File that contains a client assertion."
)
SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_FILE: Final = Key(
    "sasl.oauthbearer.assertion.private.key.file", STRING, None, MEDIUM, "File with the key that signs client assertions."
)
SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_PASSPHRASE: Final = Key(
    "sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None, MEDIUM, "Passphrase of that key."
)
SASL_OAUTHBEARER_ASSERTION_TEMPLATE_FILE: Final = Key(
    "sasl.oauthbearer.assertion.template.file", STRING, None, MEDIUM, "File with a template for client assertions."
)
SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_ID: Final = Key(
    "sasl.oauthbearer.client.credentials.client.id", STRING, None, MEDIUM, "Client id of the OAuth client-credentials grant."
)
SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_SECRET: Final = Key(
    "sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None, MEDIUM, "Client secret of the OAuth client-credentials grant."
)
SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS: Final = Key(
    "sasl.oauthbearer.clock.skew.seconds", INT, "30", LOW, "Allowed difference of clocks when tokens are checked, in seconds."
)
SASL_OAUTHBEARER_EXPECTED_AUDIENCE: Final = Key(
    "sasl.oauthbearer.expected.audience", LIST, "", HIGH, "Accepted audiences; a token must name one of them.", ListOf()
)
SASL_OAUTHBEARER_EXPECTED_ISSUER: Final = Key("sasl.oauthbearer.expected.issuer", STRING, None, HIGH, "Required issuer of tokens.")
SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS: Final = Key(
    "sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, "3600000", LOW, "Time between refreshes of the provider's keys, in ms."
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS: Final = Key(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    LONG,
    "10000",
    LOW,
    "Longest pause between attempts to fetch the provider's keys, in ms.",
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS: Final = Key(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, "100", LOW, "First pause between attempts to fetch the provider's keys, in ms."
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_URL: Final = Key(
    "sasl.oauthbearer.jwks.endpoint.url", STRING, None, MEDIUM, "Address of the provider's keys (JWKS)."
)
SASL_OAUTHBEARER_JWT_RETRIEVER_CLASS: Final = Key(
    "sasl.oauthbearer.jwt.retriever.class",
    CLASS,
    "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    MEDIUM,
    "Class that retrieves tokens.",
)
SASL_OAUTHBEARER_JWT_VALIDATOR_CLASS: Final = Key(
    "sasl.oauthbearer.jwt.validator.class",
    CLASS,
    "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    MEDIUM,
    "Class that validates tokens.",
)
SASL_OAUTHBEARER_SCOPE: Final = Key("sasl.oauthbearer.scope", STRING, None, MEDIUM, "Scope to request in tokens.")
SASL_OAUTHBEARER_SCOPE_CLAIM_NAME: Final = Key("sasl.oauthbearer.scope.claim.name", STRING, "scope", LOW, "Claim that holds the scope.")
SASL_OAUTHBEARER_SUB_CLAIM_NAME: Final = Key("sasl.oauthbearer.sub.claim.name", STRING, "sub", LOW, "Claim that holds the subject.")
SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL: Final = Key(
    "sasl.oauthbearer.token.endpoint.url", STRING, None, MEDIUM, "Address of the token endpoint."
)
SASL_SERVER_CALLBACK_HANDLER_CLASS: Final = Key(
    "sasl.server.callback.handler.class", CLASS, None, MEDIUM, "Class that verifies the credentials of SASL clients."
)
SASL_SERVER_MAX_RECEIVE_SIZE: Final = Key(
    "sasl.server.max.receive.size", INT, "524288", MEDIUM, "Largest message during SASL authentication, in bytes."
)
SECURITY_INTER_BROKER_PROTOCOL: Final = Key(
    "security.inter.broker.protocol",
    STRING,
    "PLAINTEXT",
    MEDIUM,
    "Security protocol between brokers; only without inter.broker.listener.name.",
    OneOf("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
)
SECURITY_PROVIDERS: Final = Key("security.providers", STRING, None, LOW, "Classes of security providers.")
SSL_ALLOW_DN_CHANGES: Final = Key(
    "ssl.allow.dn.changes", BOOLEAN, "false", LOW, "Whether a new certificate may have a different distinguished name."
)
SSL_ALLOW_SAN_CHANGES: Final = Key(
    "ssl.allow.san.changes", BOOLEAN, "false", LOW, "Whether a new certificate may omit alternative names of the old one."
)
SSL_CIPHER_SUITES: Final = Key("ssl.cipher.suites", LIST, "", MEDIUM, "Allowed cipher suites; empty: those of the platform.", ListOf())
SSL_CLIENT_AUTH: Final = Key(
    "ssl.client.auth",
    STRING,
    "none",
    MEDIUM,
    "Whether clients need a certificate: required, requested or none.",
    OneOf("required", "requested", "none"),
)
SSL_ENABLED_PROTOCOLS: Final = Key("ssl.enabled.protocols", LIST, "TLSv1.2,TLSv1.3", MEDIUM, "Allowed TLS versions.", ListOf())
SSL_ENDPOINT_IDENTIFICATION_ALGORITHM: Final = Key(
    "ssl.endpoint.identification.algorithm",
    STRING,
    "https",
    LOW,
    "How the peer's host name is verified; empty: it is not verified.",
)
SSL_ENGINE_FACTORY_CLASS: Final = Key("ssl.engine.factory.class", CLASS, None, LOW, "Class that makes TLS engines.")
SSL_KEY_PASSWORD: Final = Key("ssl.key.password", PASSWORD, None, MEDIUM, "Password of the private key.")
SSL_KEYMANAGER_ALGORITHM: Final = Key("ssl.keymanager.algorithm", STRING, "SunX509", MEDIUM, "Algorithm of the key manager.")
SSL_KEYSTORE_CERTIFICATE_CHAIN: Final = Key("ssl.keystore.certificate.chain", PASSWORD, None, MEDIUM, "Certificate chain, in PEM.")
SSL_KEYSTORE_KEY: Final = Key("ssl.keystore.key", PASSWORD, None, MEDIUM, "Private key, in PEM.")
SSL_KEYSTORE_LOCATION: Final = Key("ssl.keystore.location", STRING, None, MEDIUM, "File of the key store.")
SSL_KEYSTORE_PASSWORD: Final = Key("ssl.keystore.password", PASSWORD, None, MEDIUM, "Password of the key store.")
SSL_KEYSTORE_TYPE: Final = Key("ssl.keystore.type", STRING, "JKS", MEDIUM, "Format of the key store.")
SSL_PRINCIPAL_MAPPING_RULES: Final = Key(
    "ssl.principal.mapping.rules", STRING, "DEFAULT", LOW, "Rules that turn a certificate's name into a principal."
)
SSL_PROTOCOL: Final = Key("ssl.protocol", STRING, "TLSv1.3", MEDIUM, "TLS version preferred.")
SSL_PROVIDER: Final = Key("ssl.provider", STRING, None, MEDIUM, "Name of the TLS provider.")
SSL_SECURE_RANDOM_IMPLEMENTATION: Final = Key("ssl.secure.random.implementation", STRING, None, LOW, "Random number generator for TLS.")
SSL_TRUSTMANAGER_ALGORITHM: Final = Key("ssl.trustmanager.algorithm", STRING, "PKIX", MEDIUM, "Algorithm of the trust manager.")
SSL_TRUSTSTORE_CERTIFICATES: Final = Key("ssl.truststore.certificates", PASSWORD, None, MEDIUM, "Trusted certificates, in PEM.")
SSL_TRUSTSTORE_LOCATION: Final = Key("ssl.truststore.location", STRING, None, MEDIUM, "File of the trust store.")
SSL_TRUSTSTORE_PASSWORD: Final = Key("ssl.truststore.password", PASSWORD, None, MEDIUM, "Password of the trust store.")
SSL_TRUSTSTORE_TYPE: Final = Key("ssl.truststore.type", STRING, "JKS", MEDIUM, "Format of the trust store.")

KEYS: Final = keys_in(globals())
