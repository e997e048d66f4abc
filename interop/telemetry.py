"""JVM Kafka with a plugin that receives clients' metrics (jvm/PushReceiver.java), and the MBeans of a running JVM (jvm/Beans.java)."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from interop.peers import JvmBroker, jvm_libs

_FOLDER = Path(__file__).with_name("jvm")


class TelemetryBroker(JvmBroker):
    """JVM Kafka that asks its clients for metrics."""

    def __init__(self, folder: Path, overrides: Mapping[str, str] | None = None) -> None:
        reporters = "org.apache.kafka.common.metrics.JmxReporter,PushReceiver"
        super().__init__(folder, {"metric.reporters": reporters, **(overrides or {})}, heap="512m")
        self._classes = folder / "classes"

    def start_command(self) -> list[str]:
        source = _FOLDER / "PushReceiver.java"
        subprocess.run(["javac", "-cp", f"{jvm_libs()}/*", "-d", str(self._classes), str(source)], check=True, timeout=60)
        command = super().start_command()
        place = command.index("-cp") + 1
        command[place] += f":{self._classes}"
        return command


def beans(pid: int) -> dict[str, set[str]]:
    """Return the MBeans of a Java process: name -> attributes."""
    done = subprocess.run(["java", str(_FOLDER / "Beans.java"), str(pid)], check=True, timeout=60, capture_output=True, text=True)
    found: dict[str, set[str]] = {}
    for line in done.stdout.splitlines():
        name, _, attributes = line.partition("\t")
        found[name] = set(attributes.rstrip(",").split(","))
    return found
