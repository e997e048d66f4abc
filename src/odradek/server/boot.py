"""The order in which a node starts, as data; it stops in reverse.

Every step has a method `start_NAME` and may have a method `stop_NAME` on `server.broker.Broker`; a step whose start began is stopped,
whether the start succeeded or not. A stop that fails or takes longer than its time limit is logged and the next one runs: what comes last
(flushing the logs, the clean-shutdown marker, the locks) must always have its turn.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Step(NamedTuple):
    """`roles`: the nodes that have this step; `stop_timeout_s`: how long its stop may take."""

    name: str
    what: str
    roles: frozenset[str]
    stop_timeout_s: float


_BROKER: Final = frozenset({"broker"})
_CONTROLLER: Final = frozenset({"controller"})
_ALL: Final = frozenset({"broker", "controller"})

STEPS: Final[tuple[Step, ...]] = (
    Step("identity", "read meta.properties: cluster id, node id, directory ids", _ALL, 5),
    Step("directories", "lock the log directories; at the end close all logs, write the clean-shutdown markers and unlock", _ALL, 300),
    Step("listeners", "bind the listeners, without answering yet; at the end close what connections are left", _ALL, 5),
    Step("dispatch", "make the routes and the channel between the roles", _ALL, 5),
    Step("quorum", "open the metadata log and take part in the quorum", _ALL, 30),
    Step("controller_listeners", "answer on the controller listeners", _ALL, 5),
    Step("logs", "load the logs, recovering what was not closed cleanly", _BROKER, 5),
    Step("replicas", "make the replica manager; at the end answer what waits and write the high watermarks", _BROKER, 30),
    Step("metadata", "follow the metadata log: partitions take their roles with every image", _BROKER, 5),
    Step("tasks", "begin the regular tasks: retention, checkpoints, deletions, ISR checks", _BROKER, 5),
    Step("cleaner", "begin to compact logs", _BROKER, 10),
    Step("registration", "register with the controller, send heartbeats, be unfenced", _BROKER, 5),
    Step("broker_listeners", "answer clients; at the end have the leaders moved away and take no new requests", _BROKER, 30),
    Step("controller_registration", "register this controller with the active one, in the background", _CONTROLLER, 5),
)
