"""Listener scopes, and the destination of requests to the controller."""

from __future__ import annotations

BROKER = "broker"
CONTROLLER = "controller"
"""Listener scopes: a client-facing or inter-broker listener, and a controller listener."""

LOOPBACK = "loopback"
"""Connection id of requests that a node sends to itself."""

TO_CONTROLLER = -1
"""Destination for `BrokerParts.channel`: the active controller."""
