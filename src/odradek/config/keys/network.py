"""Keys of listeners, sockets, connections, threads."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import HIGH, INT, LIST, LONG, LOW, MEDIUM, STRING, Key, ListOf, at_least, keys_in

ADVERTISED_LISTENERS: Final = Key(
    "advertised.listeners",
    LIST,
    None,
    HIGH,
    "Addresses that clients and other brokers connect to; those of listeners when not set.",
    ListOf(empty=False, null=True),
)
BACKGROUND_THREADS: Final = Key("background.threads", INT, "10", HIGH, "Workers for background tasks.", at_least(1))
CONNECTION_FAILED_AUTHENTICATION_DELAY_MS: Final = Key(
    "connection.failed.authentication.delay.ms",
    INT,
    "100",
    LOW,
    "Pause before a connection that failed to authenticate is closed, in ms.",
    at_least(0),
)
CONNECTIONS_MAX_IDLE_MS: Final = Key("connections.max.idle.ms", LONG, "600000", MEDIUM, "Connections idle for longer, in ms, are closed.")
INTER_BROKER_LISTENER_NAME: Final = Key(
    "inter.broker.listener.name", STRING, None, MEDIUM, "Name of the listener that brokers use among themselves."
)
LISTENER_SECURITY_PROTOCOL_MAP: Final = Key(
    "listener.security.protocol.map",
    STRING,
    "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    LOW,
    "Security protocol of each listener name.",
)
LISTENERS: Final = Key("listeners", LIST, "PLAINTEXT://:9092", HIGH, "Addresses to listen on, as NAME://host:port.", ListOf(empty=False))
MAX_CONNECTION_CREATION_RATE: Final = Key(
    "max.connection.creation.rate", INT, "2147483647", MEDIUM, "Largest number of new connections per second.", at_least(0)
)
MAX_CONNECTIONS: Final = Key("max.connections", INT, "2147483647", MEDIUM, "Largest number of open connections.", at_least(0))
MAX_CONNECTIONS_PER_IP: Final = Key(
    "max.connections.per.ip", INT, "2147483647", MEDIUM, "Largest number of open connections from one address.", at_least(0)
)
MAX_CONNECTIONS_PER_IP_OVERRIDES: Final = Key(
    "max.connections.per.ip.overrides", STRING, "", MEDIUM, "Exceptions to max.connections.per.ip, as host:count."
)
NUM_IO_THREADS: Final = Key("num.io.threads", INT, "8", HIGH, "Threads that handle requests.", at_least(1))
NUM_NETWORK_THREADS: Final = Key("num.network.threads", INT, "3", HIGH, "Threads per listener that read and write sockets.", at_least(1))
QUEUED_MAX_REQUEST_BYTES: Final = Key(
    "queued.max.request.bytes",
    LONG,
    "-1",
    MEDIUM,
    "Bytes of requests being received and handled before reading stops; -1 is without limit.",
)
QUEUED_MAX_REQUESTS: Final = Key(
    "queued.max.requests", INT, "500", HIGH, "Number of requests waiting to be handled before reading stops.", at_least(1)
)
REQUEST_TIMEOUT_MS: Final = Key("request.timeout.ms", INT, "30000", HIGH, "How long to wait for a response, in ms.")
SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS: Final = Key(
    "socket.connection.setup.timeout.max.ms", LONG, "30000", MEDIUM, "Upper bound of the time limit for opening a connection, in ms."
)
SOCKET_CONNECTION_SETUP_TIMEOUT_MS: Final = Key(
    "socket.connection.setup.timeout.ms", LONG, "10000", MEDIUM, "First time limit for opening a connection, in ms."
)
SOCKET_LISTEN_BACKLOG_SIZE: Final = Key(
    "socket.listen.backlog.size", INT, "50", MEDIUM, "Number of connections that may wait to be accepted.", at_least(1)
)
SOCKET_RECEIVE_BUFFER_BYTES: Final = Key(
    "socket.receive.buffer.bytes", INT, "102400", HIGH, "Receive buffer of sockets, in bytes; -1 leaves it to the kernel."
)
SOCKET_REQUEST_MAX_BYTES: Final = Key("socket.request.max.bytes", INT, "104857600", HIGH, "Largest request, in bytes.", at_least(1))
SOCKET_SEND_BUFFER_BYTES: Final = Key(
    "socket.send.buffer.bytes", INT, "102400", HIGH, "Send buffer of sockets, in bytes; -1 leaves it to the kernel."
)

KEYS: Final = keys_in(globals())
