"""Listeners, sockets, connections, threads."""

from __future__ import annotations

from odradek.config.definition import HIGH, INT, LIST, LONG, LOW, MEDIUM, STRING, Key, ListOf, at_least

KEYS: tuple[Key, ...] = (
    Key("advertised.listeners", LIST, None, HIGH, "", ListOf(empty=False, null=True)),
    Key("background.threads", INT, "10", HIGH, "", at_least(1)),
    Key("connection.failed.authentication.delay.ms", INT, "100", LOW, "", at_least(0)),
    Key("connections.max.idle.ms", LONG, "600000", MEDIUM, ""),
    Key("inter.broker.listener.name", STRING, None, MEDIUM, ""),
    Key("listener.security.protocol.map", STRING, "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", LOW, ""),
    Key("listeners", LIST, "PLAINTEXT://:9092", HIGH, "", ListOf(empty=False)),
    Key("max.connection.creation.rate", INT, "2147483647", MEDIUM, "", at_least(0)),
    Key("max.connections", INT, "2147483647", MEDIUM, "", at_least(0)),
    Key("max.connections.per.ip", INT, "2147483647", MEDIUM, "", at_least(0)),
    Key("max.connections.per.ip.overrides", STRING, "", MEDIUM, ""),
    Key("num.io.threads", INT, "8", HIGH, "", at_least(1)),
    Key("num.network.threads", INT, "3", HIGH, "", at_least(1)),
    Key("queued.max.request.bytes", LONG, "-1", MEDIUM, ""),
    Key("queued.max.requests", INT, "500", HIGH, "", at_least(1)),
    Key("request.timeout.ms", INT, "30000", HIGH, ""),
    Key("socket.connection.setup.timeout.max.ms", LONG, "30000", MEDIUM, ""),
    Key("socket.connection.setup.timeout.ms", LONG, "10000", MEDIUM, ""),
    Key("socket.listen.backlog.size", INT, "50", MEDIUM, "", at_least(1)),
    Key("socket.receive.buffer.bytes", INT, "102400", HIGH, ""),
    Key("socket.request.max.bytes", INT, "104857600", HIGH, "", at_least(1)),
    Key("socket.send.buffer.bytes", INT, "102400", HIGH, ""),
)
