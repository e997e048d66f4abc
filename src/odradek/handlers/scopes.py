"""Where a request comes in, and where one to the controller goes."""

from __future__ import annotations

BROKER = "broker"
CONTROLLER = "controller"
"""Listener scopes: a client-facing or inter-broker listener, and a controller listener."""

LOOPBACK = "loopback"
"""The connection id of what a node asks itself."""

TO_CONTROLLER = -1
"""Destination of a request through `services.channel`: whoever is the active controller."""
