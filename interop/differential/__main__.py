"""Compares Odradek with JVM Kafka on every API and version that Odradek advertises.

    python -m interop.differential [--only API ...] [--listener broker|controller|voter] [--versions all|ends] [--set KEY=VALUE ...]
                                   [--feature NAME=LEVEL ...] [--record FILE] [--verbose]

Both brokers are started on fresh folders with the same configuration, receive the same requests in the same order, valid and
invalid, and must give the same decoded answers: on the listener for clients first, then on that of the controller. Beside them two
controllers run, each the only live voter of three, that are taken through one story of votes and leaders (`quorum.py`).

Accepted differences stand in `exceptions.py`. Exit status 1 when there is another, when a request that could be sent was not, and, in a
run of everything, when an accepted difference did not occur.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from interop.differential.case import Case
from interop.differential.cases import CASES, broken_bodies, fill, odd_frames
from interop.differential.combinations import COMBINATIONS, fill_more
from interop.differential.compare import Difference, Plain, differences, which
from interop.differential.controller import CONTROLLER_CASES, fill_controller
from interop.differential.directories import WHOLE_VIEWS
from interop.differential.exceptions import EXCEPTIONS
from interop.differential.peer import CLOSED, Peer
from interop.differential.quorum import lone_voters, ready, story
from interop.differential.record import Recorded, keep_smallest, key_of, write
from interop.differential.settings import OVERRIDES
from interop.peers import BrokerProcess, both
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.errors import UnsupportedVersionError
from odradek.protocol.messages.api_versions import ApiVersionsRequest

Cases = Mapping[ApiKey, Callable[[int], Iterator[Case]]]


class Findings:
    """What has been found so far, on all listeners."""

    def __init__(self) -> None:
        self.requests = 0
        self.accepted: dict[int, int] = {}
        """Index of an exception -> how often it was met."""
        self.failed: list[tuple[str, Difference]] = []
        self.recorded: dict[str, Recorded] = {}
        """For each exception the smallest pair of answers in which it excuses something."""


class Comparison:
    """Two peers and the cases for them by API. `where` stands before the name of each case."""

    def __init__(
        self,
        ours: Peer,
        theirs: Peer,
        cases: Mapping[ApiKey, Callable[[int], Iterator[Case]]],
        findings: Findings,
        where: str,
        verbose: bool,
    ) -> None:
        self.ours, self.theirs = ours, theirs
        self.cases = cases
        self.findings = findings
        self.where = where
        self.verbose = verbose

    def compare(self, label: str, ours: Any, theirs: Any, api_key: ApiKey | None = None) -> None:
        label = self.where + label
        self.findings.requests += 1
        plain = Plain(self.ours, api_key).value(ours), Plain(self.theirs, api_key).value(theirs)
        found = [(difference, which(EXCEPTIONS, label, difference)) for difference in differences(*plain)]
        for difference, index in found:
            if index is None:
                self.differs(label, difference)
            else:
                self.findings.accepted[index] = self.findings.accepted.get(index, 0) + 1
        for index in {index for _, index in found if index is not None}:
            keep_smallest(self.findings.recorded, index, EXCEPTIONS, Recorded(label, *plain))
        if self.verbose:
            print(label)

    def differs(self, label: str, difference: Difference) -> None:
        self.findings.failed.append((label, difference))
        print(f"DIFFERS {label}\n    {difference.path or '(whole answer)'}")
        print(f"      odradek {difference.ours!r:.300}\n      jvm     {difference.theirs!r:.300}")

    def run(self, case: Case) -> list[bytes]:
        """Sends one case to both; returns the body that each got, none when the version can't carry it."""
        bodies: list[bytes] = []
        answers: list[Any] = []
        for peer in (self.ours, self.theirs):
            if case.before is not None:
                case.before(peer)
            built = case.build(peer)
            try:
                body = built if isinstance(built, bytes) else built.encode(case.version)
            except UnsupportedVersionError as error:
                if not case.unencodable:
                    self.differs(self.where + case.label, Difference("(the request)", f"is not encoded: {error}", "may be sent"))
                return []
            if case.unencodable:
                self.differs(self.where + case.label, Difference("(the request)", "is encoded", "cannot be sent"))
                return []
            asked = peer.broker if case.through_broker else peer
            answer = asked.exchange(case.api_key, case.version, body, patience=case.patience)
            decoded = not isinstance(answer, str) and hasattr(answer, "encode")
            if case.after is not None and decoded:
                case.after(peer, answer)
            bodies.append(body)
            answers.append(case.view(answer) if case.view is not None and decoded else answer)
        self.compare(case.label, *answers, case.api_key)
        return bodies

    def run_version(self, api_key: ApiKey, version: int) -> None:
        broken_from: list[bytes] = []
        for case in self.cases[api_key](version):
            bodies = self.run(case)
            if case.api_key == api_key and not any(broken_from):
                broken_from = bodies
        ours, theirs = broken_from or [b"", b""]
        flexible = API_INFO[api_key].is_flexible(version)
        for mine, other in zip(broken_bodies(ours, flexible), broken_bodies(theirs, flexible), strict=True):
            label = f"{api_key.name} v{version} {mine.name}"
            our_answer, their_answer = self.ours.exchange(api_key, version, mine.body), self.theirs.exchange(api_key, version, other.body)
            view = WHOLE_VIEWS.get(api_key)
            if mine.name == "all ones" and view is not None:
                our_answer, their_answer = (view(each) if hasattr(each, "encode") else each for each in (our_answer, their_answer))
            self.compare(label, our_answer, their_answer, api_key)
            if mine.meant is not None and our_answer == CLOSED and their_answer != CLOSED:
                # JVM Kafka has carried out the request that it read in the bytes. Odradek gets that request too, so that both states stay
                # equal, and has to give the same answer.
                self.compare(f"{label}, as it is meant", self.ours.exchange(api_key, version, mine.meant), their_answer, api_key)

    def run_unknown(self, ranges: Mapping[ApiKey, tuple[int, int]]) -> None:
        """Versions outside of the ranges, APIs of other listeners, and keys nobody knows."""
        for api_key, (low, high) in ranges.items():
            for version in sorted({-1, low - 1, high + 1, 99} - ({0} if api_key == ApiKey.PRODUCE else set())):
                label = f"{api_key.name} v{version} outside of its range"
                self.compare(label, *(self.raw(peer, api_key, version) for peer in (self.ours, self.theirs)))
        for api_key in API_INFO:
            if self.where and self.where.strip() not in API_INFO[api_key].listeners:
                version = API_INFO[api_key].max_version
                self.compare(
                    f"{api_key.name} v{version} elsewhere", *(self.raw(peer, api_key, version) for peer in (self.ours, self.theirs))
                )
        for key in (-1, 999, 32767):
            self.compare(f"unknown key {key}", *(self.raw(peer, key, 0) for peer in (self.ours, self.theirs)))

    def run_frames(self) -> None:
        """Frames with headers that no client sends, each on a connection of its own."""
        for name, data in odd_frames():
            answers = []
            for peer in (self.ours, self.theirs):
                peer.close()
                answer = peer.wire(data, 2)
                # The whole answer to ApiVersions is compared elsewhere: its first bytes are enough here.
                answers.append(answer[:6] if isinstance(answer, bytes) else answer)
                peer.close()
            self.compare(f"frame with {name}", *answers)

    def raw(self, peer: Peer, api_key: int, version: int) -> Any:
        header = api_key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + (5).to_bytes(4, "big") + b"\xff\xff"
        return peer.raw(header + bytes(16), 3)


def advertised(peer: Peer) -> dict[ApiKey, tuple[int, int]]:
    answer = peer.call(ApiKey.API_VERSIONS, 3, ApiVersionsRequest(client_software_name="odd", client_software_version="1"))
    return {ApiKey(entry.api_key): (entry.min_version, entry.max_version) for entry in answer.api_keys}


def of_clients(api_key: ApiKey, version: int) -> Iterator[Case]:
    """The cases for the listener that clients use."""
    yield from CASES[api_key](version)
    if api_key in COMBINATIONS:
        yield from COMBINATIONS[api_key](version)


CLIENT_CASES = {api_key: partial(of_clients, api_key) for api_key in CASES}
LISTENERS = ("broker", "controller", "voter")


def peer_of(broker: BrokerProcess) -> Peer:
    spellings = {str(broker.port): "(port)", str(broker.controller_port): "(controller port)", str(broker.data): "(folder)"}
    return Peer(broker.name, broker.port, spellings)


def chosen(ranges: Mapping[ApiKey, tuple[int, int]], only: list[str], which: str) -> Iterator[tuple[ApiKey, int]]:
    for api_key, (low, high) in ranges.items():
        if only and api_key.name not in only:
            continue
        low = max(low, 3) if api_key == ApiKey.PRODUCE else low
        for version in range(low, high + 1) if which == "all" else sorted({low, high}):
            yield api_key, version


def compare_listener(comparison: Comparison, only: list[str], versions: str, fill: Callable[[Peer], None]) -> list[str]:
    """Compares a listener of both nodes; the names of the APIs that we serve there and that have no cases."""
    ours, theirs = advertised(comparison.ours), advertised(comparison.theirs)
    for api_key, served in ours.items():
        comparison.compare(f"range of {api_key.name}", served, theirs.get(api_key))
    for peer in (comparison.ours, comparison.theirs):
        fill(peer)
    for api_key, version in chosen(ours, only, versions):
        if api_key in comparison.cases:
            comparison.run_version(api_key, version)
    if not only:
        comparison.run_unknown(ours)
    return sorted(f"{comparison.where}{api_key.name}" for api_key in ours if api_key not in comparison.cases)


def compare_story(comparison: Comparison) -> None:
    """Compares what two voters say and do in one story of a quorum."""
    for peer in (comparison.ours, comparison.theirs):
        ready(peer)
    for case in story():
        comparison.run(case)


def fill_all(peer: Peer) -> None:
    fill(peer)
    fill_more(peer)


def main() -> None:
    parser = argparse.ArgumentParser(description="identical frames to JVM Kafka and to Odradek")
    parser.add_argument("--only", nargs="*", default=[], help="API names such as PRODUCE")
    parser.add_argument("--listener", choices=LISTENERS, help="only this one: for clients, of the controller, of a lone voter")
    parser.add_argument("--versions", choices=("all", "ends"), default="all", help="every version, or the first and the last of each range")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="configuration of both brokers")
    parser.add_argument("--feature", nargs="*", default=[], metavar="NAME=LEVEL", help="levels of features that both are formatted with")
    parser.add_argument("--record", type=Path, help="where to keep a pair of answers for each exception (tests/interop/recorded.json)")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    known = {api_key.name: None for api_key in (*CLIENT_CASES, *CONTROLLER_CASES)}
    if unknown := set(options.only) - known.keys():
        parser.error(f"there are no cases for {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    overrides = OVERRIDES | dict(setting.split("=", 1) for setting in options.set)
    features = {name: int(level) for name, level in (feature.split("=", 1) for feature in options.feature)}
    findings, untested = Findings(), list[str]()
    wanted = [options.listener] if options.listener else LISTENERS[: 2 if options.only else 3]
    with contextlib.ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="odradek-differential-")))
        voters = running.enter_context(lone_voters(folder)) if "voter" in wanted else []
        if wanted != ["voter"]:
            pair = running.enter_context(both(folder, overrides, features))
            peers = [peer_of(node) for node in pair]
            if "broker" in wanted:
                clients = Comparison(*peers, CLIENT_CASES, findings, "", options.verbose)
                untested += compare_listener(clients, options.only, options.versions, fill_all)
                if not options.only:
                    clients.run_frames()
            if "controller" in wanted:
                at_controllers = [Peer(node.name, node.controller_port, broker=peer) for node, peer in zip(pair, peers, strict=True)]
                controllers = Comparison(*at_controllers, CONTROLLER_CASES, findings, "controller ", options.verbose)
                untested += compare_listener(controllers, options.only, options.versions, fill_controller)
        if voters:
            compare_story(Comparison(*voters, {}, findings, "voter ", options.verbose))
    reasons: dict[str, int] = {}
    for index, count in findings.accepted.items():
        reasons[EXCEPTIONS[index].why] = reasons.get(EXCEPTIONS[index].why, 0) + count
    for why, count in sorted(reasons.items()):
        print(f"accepted {count:5} x {why}")
    if untested:
        print(f"no cases for: {', '.join(untested)}")
    whole = not (options.only or options.listener or options.set or options.feature) and options.versions == "all"
    idle = [entry for index, entry in enumerate(EXCEPTIONS) if whole and not entry.elsewhere and index not in findings.accepted]
    for entry in idle:
        print(f"no longer needed: {entry.case} {entry.path}: {entry.why}")
    if options.record is not None:
        write(options.record, findings.recorded, {key_of(entry) for entry in EXCEPTIONS})
    print(f"{findings.requests} requests compared, {len(findings.failed)} differences, {sum(findings.accepted.values())} accepted")
    sys.exit(1 if findings.failed or untested or idle else 0)


if __name__ == "__main__":
    main()
