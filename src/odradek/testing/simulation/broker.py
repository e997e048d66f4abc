"""Simulated broker that is a single-node cluster.

broker = SimulatedBroker(loop, seed=1)
await broker.start()
broker.kill()            # or broker.power_cut(), broker.pause(), broker.end_at_step(17, power=True)
await broker.start()
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.config.broker import standalone_config
from odradek.testing.simulation.disk import VirtualDisk
from odradek.testing.simulation.loop import SimulatedLoop
from odradek.testing.simulation.node import BrokerDied, SimulatedNode
from odradek.testing.simulation.trace import Trace

DATA = "/data"
PORT = 9092

__all__ = ["DATA", "PORT", "BrokerDied", "SimulatedBroker"]


class SimulatedBroker(SimulatedNode):
    """Simulated broker that is a single-node cluster. A start on an empty disk formats the disk."""

    def __init__(
        self,
        loop: SimulatedLoop,
        *,
        seed: int = 0,
        host: str = "broker",
        settings: Mapping[str, str] | None = None,
        disk: VirtualDisk | None = None,
        trace: Trace | None = None,
    ) -> None:
        given = {
            "log.dirs": DATA,
            "listeners": f"PLAINTEXT://{host}:{PORT},CONTROLLER://{host}:{PORT + 1}",
            "controller.quorum.bootstrap.servers": f"{host}:{PORT + 1}",
            **(settings or {}),
        }
        super().__init__(loop, host, lambda: standalone_config(given), seed=seed, disk=disk, trace=trace, format_if_empty=True)

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{PORT}"
