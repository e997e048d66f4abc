"""Separate hosts on one machine: network namespaces behind a router that can drop packets between them.

Each host is a namespace with one address and one link to the namespace of the program itself. The program's namespace forwards, and has an
address, too. A cut is a routing rule there that silently drops packets from one host to another, on all connections: neither side gets an
error. Linux, root, iproute2 and util-linux are needed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

CLONE_NEWNET = 0x40000000
ROUTER = "10.77.0.254"


def why_not() -> str:
    """Return what this machine lacks for namespaces, or "" when it lacks nothing."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "nsenter", "unshare"):
        if shutil.which(tool) is None:
            return f"network namespaces need {tool}"
    rule = "ip rule add iif odp0 to 10.77.0.1 ipproto tcp dport 9 blackhole"
    probe = ("unshare", "--net", "sh", "-c", f"ip link add odp0 type veth peer name odp1 && {rule}")
    done = subprocess.run(probe, capture_output=True, check=False)
    return "" if done.returncode == 0 else f"network namespaces with veth and routing rules: {done.stderr.decode(errors='replace').strip()}"


def leave_network() -> None:
    """Move this process, its threads and its children to a new network. Call this function before other threads exist. Raises OSError on
    failure.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWNET)")
    _ip("link", "set", "lo", "up")


class Network:
    """Numbered hosts around the namespace of this process, which must be separate (`leave_network`)."""

    def __init__(self, hosts: Iterable[int]) -> None:
        self.hosts = list(hosts)
        self._rules: list[list[str]] = []
        self._stem = f"odradek-{os.getpid()}"

    def address(self, host: int) -> str:
        return f"10.77.0.{host}"

    def prefix(self, host: int) -> tuple[str, ...]:
        """Return words that run a command on a host. `ip netns exec` is not used, as it keeps everything mounted that is mounted at its
        start.
        """
        return ("nsenter", f"--net=/run/netns/{self._name(host)}")

    def make(self) -> None:
        _ip("address", "add", f"{ROUTER}/32", "dev", "lo")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        for host in self.hosts:
            name, link = self._name(host), self._link(host)
            _ip("netns", "add", name)
            _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", link, "up")
            _ip("route", "add", f"{self.address(host)}/32", "dev", link, "src", ROUTER)
            inside = ("-n", name)
            _ip(*inside, "link", "set", "lo", "up")
            _ip(*inside, "address", "add", f"{self.address(host)}/32", "dev", "eth0")
            _ip(*inside, "link", "set", "eth0", "up")
            _ip(*inside, "route", "add", f"{ROUTER}/32", "dev", "eth0")
            _ip(*inside, "route", "add", "default", "via", ROUTER)

    def remove(self) -> None:
        for host in self.hosts:
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", self._name(host))

    def cut(self, sender: int, receiver: int, port: int | None = None) -> None:
        """Drop all packets from one host to the other. With a port, drop packets of connections to that port of either host."""
        way = ["iif", self._link(sender), "to", self.address(receiver)]
        ways = [way] if port is None else [[*way, "ipproto", "tcp", which, str(port)] for which in ("dport", "sport")]
        for rule in ways:
            _ip("rule", "add", "priority", "100", *rule, "blackhole")
            self._rules.append(rule)

    def heal(self) -> None:
        """Remove all cuts."""
        while self._rules:
            _ip("rule", "delete", "priority", "100", *self._rules[-1], "blackhole")
            self._rules.pop()

    def _name(self, host: int) -> str:
        return f"{self._stem}-{host}"

    def _link(self, host: int) -> str:
        return f"host{host}"


def _ip(*words: str) -> None:
    subprocess.run(("ip", *words), capture_output=True, check=True)
