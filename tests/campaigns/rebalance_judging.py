"""Checks of a history of rebalances: the members' records of assignments, reads and commits, against each other and against the groups'
log.

- one-owner: Two members never claim a partition at the same time. A claim begins when the rebalance listener is called, and ends when the
  listener returns or the process ends. The coordinator may end the claim of a paused process when the session timeout is over, however much
  later the member learns of that. In one generation a partition has one owner. In the log, two members never have the same partition in any
  generation or at any epoch.
- commits-go-on: The committed offset of a partition never decreases in the log, unless the member's next commit overtakes a commit without
  a response.
- fenced: The log has no commit of a client that is not a member, and no commit for another member's partition.
- positions-go-on: A member that gets a partition reads it from the committed offset on, without a gap. (librdkafka sometimes returns a
  record again, or a record that it fetched before it lost the partition for a moment.)
- at-least-once: A member read every acknowledged record, as it was sent.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from odradek.testing.history import Assigned, Event, Poll, Revoked, Send, read_history
from odradek.testing.history.anomalies import ALLOWED
from odradek.testing.history.checker import check
from tests.campaigns.group_log import Commit, GroupLog, GroupState, Partition, Revocation

if TYPE_CHECKING:
    from tests.campaigns.rebalances import Evidence

SLACK_S = 0.3
"""Seconds by which a heartbeat may be late on a busy machine."""
MOST_OF_A_KIND = 20
LEFT_TO_US = (*ALLOWED, "static-rebalance", "nonmonotonic-poll")
"""Anomalies that the history checker must not report here. Only the campaign knows which static members are to come back in time.
librdkafka sometimes returns a record again, which is counted.
"""


@dataclass
class Claim:
    """Time in which a member has a partition. No other member may have the partition until `guarded`."""

    group: str
    partition: Partition
    member: str
    generation: int
    begin: float
    end: float = math.inf
    guarded: float = math.inf
    reads: list[tuple[float, int]] = field(default_factory=list)


class Verdict(NamedTuple):
    problems: list[str]
    summary: str


class Silence(NamedTuple):
    """Time in which a process did not run, because it was paused or got no processor time."""

    host: str
    begun: float
    ended: float


def judge(
    folder: Path,
    evidence: Evidence,
    log: GroupLog,
    ends: Mapping[Partition, int],
    session_s: float,
    heartbeat_s: float,
    rebalance_s: float,
) -> Verdict:
    """Check the histories in the folder. `rebalance_s`: seconds that a member has to give partitions up."""
    history = read_history(sorted(folder.glob("*.jsonl")))
    members = set(evidence.hosts)
    deaths = {member: evidence.deaths.get(host, math.inf) for member, host in evidence.hosts.items()}
    claims = claims_of(history, members, deaths)
    after_s = session_s - heartbeat_s - SLACK_S
    # While the broker got no processor time, heartbeats waited before it: all members count as silent.
    starved = starvations(evidence.broker_silences, after_s / 2)
    everybody = [Silence(host, each.begun, each.ended + after_s / 2) for each in starved for host in set(evidence.hosts.values())]
    silences = [*evidence.pauses, *stalls(history), *everybody]
    guard(claims, evidence.hosts, silences, after_s)
    # Histories use the monotonic clock; logs of brokers and of librdkafka use the wall clock.
    wall = time.time() - time.monotonic()
    revocations = {name: [each._replace(since=each.since - wall) for each in state.revocations] for name, state in log.groups.items()}
    timeouts = {member: [at - wall for at in times] for member, times in evidence.heartbeats_given_up.items()}
    guard_deaf(claims, revocations, timeouts, session_s, rebalance_s)
    # The Python clients forget their membership between the notice of its loss and a commit that was requested before.
    forgetful = {member for member, client in evidence.clients.items() if client != "confluent"}
    problems = one_owner(claims, evidence.instances)
    accepted = 0
    times = commit_times(history)
    for group in sorted(log.groups):
        state = log.groups[group]
        accepted += len(state.commits)
        problems += [f"{group}: {problem}" for problem in limited(state.problems)]
        problems += limited(commits_go_on(group, state.commits, times))
        problems += limited(fenced(group, state.commits, forgetful))
        problems += limited(positions_go_on([claim for claim in claims if claim.group == group], state.commits, times))
    problems += limited(at_least_once(history, members, ends))
    # A new coordinator waits one session timeout; members may need longer to find it.
    allowed = {*LEFT_TO_US, "unexplained-fencing"} if evidence.brokers_killed else LEFT_TO_US
    problems += limited([f"history: {each}" for each in check(with_strikes(history, evidence, silences, after_s), allow=allowed)])
    refused = [event for event in history if event.function == "commit" and event.kind == "info"]
    late = sum(event.extra.get("insists") is True for event in refused)
    again = sum(after <= before for claim in claims for (_, before), (_, after) in pairwise(claim.reads))
    zombies = sum(claim.guarded < claim.end for claim in claims)
    read = sum(len(claim.reads) for claim in claims)
    summary = (
        f"{len(members)} members in {len(set(evidence.hosts.values()))} processes, {len(evidence.deaths)} of them killed, "
        f"{len(evidence.pauses)} pauses, {len(claims)} claims ({zombies} of members that were taken for dead), "
        f"{sum(ends.values())} records read {read} times ({again} times twice by the same member), {accepted} commits, "
        f"{len(refused)} requests to commit refused ({late} after a pause), "
        f"{len(starved)} times the broker did not run for more than {after_s / 2:.1f} s, "
        f"{len(evidence.given_up)} clients gave up {evidence.given_up[:3]}, "
        f"{len(evidence.deaf)} took no notice of what they were told {evidence.deaf[:3]}"
    )
    return Verdict(problems, summary)


def limited(problems: Sequence[str]) -> list[str]:
    """Return the first problems of one kind, with the number of the others."""
    more = len(problems) - MOST_OF_A_KIND
    return [*problems[:MOST_OF_A_KIND], f"... and {more} like the last"] if more > 0 else list(problems)


def deaf(
    owned: Mapping[str, frozenset[Partition]], state: GroupState, timeouts: Mapping[str, Sequence[float]], session_s: float
) -> list[str]:
    """Return the members that have less than a settled group's log says, because librdkafka ignored the response with the assignment.

    librdkafka gives up a heartbeat that is not answered within the heartbeat interval, and continues as if it had not sent the heartbeat. A
    coordinator, JVM Kafka's too, repeats an assignment only to a member that sends its full state. `owned` and `timeouts` (times of
    given-up heartbeats) are by client id. Empty if this does not explain all differences.
    """
    members = {state.client_ids.get(member_id, member_id): member for member_id, member in state.members.items()}
    if not state.settled or members.keys() != owned.keys():
        return []
    found = [name for name, member in members.items() if owned[name] != member.held]
    for name in found:
        member = members[name]
        if not (owned[name] < member.held and given_up_near(member.since, timeouts.get(name, ()), session_s)):
            return []
    return found


def given_up_near(told_at: float, given_up: Iterable[float], session_s: float) -> bool:
    """Return whether the heartbeat with a response may have been given up, before the response or while it was on its way.

    If there is a session timeout between the two, the member is not in the group any longer.
    """
    return any(abs(at - told_at) <= session_s for at in given_up)


def guard_deaf(
    claims: Iterable[Claim],
    revocations: Mapping[str, Iterable[Revocation]],
    timeouts: Mapping[str, Sequence[float]],
    session_s: float,
    rebalance_s: float,
) -> None:
    """End the guard of claims to partitions that a `deaf` member had to give up without learning of that, when its time to do so is over.

    `revocations` are by group. All times are of one clock.
    """
    for claim in claims:
        for revocation in revocations.get(claim.group, ()):
            if (
                claim.member == revocation.client_id
                and claim.partition in revocation.partitions
                and claim.begin < revocation.since + rebalance_s < claim.guarded
                and given_up_near(revocation.since, timeouts.get(claim.member, ()), session_s)
            ):
                claim.guarded = max(claim.begin, revocation.since + rebalance_s - SLACK_S)


def claims_of(history: Iterable[Event], members: set[str], deaths: Mapping[str, float]) -> list[Claim]:
    """Return every member's claims, with the records read under each."""
    claims: list[Claim] = []
    current: dict[tuple[str, Partition], Claim] = {}
    for event in history:
        if event.process not in members:
            continue
        for each in event.micro_operations:
            if isinstance(each, Assigned):
                claim = Claim(each.group or "", (each.topic, each.partition), event.process, each.generation or 0, event.time)
                claims.append(claim)
                current[event.process, claim.partition] = claim
            elif isinstance(each, Revoked):
                current.pop((event.process, (each.topic, each.partition))).end = event.time
            elif isinstance(each, Poll):
                current[event.process, (each.topic, each.partition)].reads.append((event.time, each.offset))
        if event.function == "crash":
            for key in [key for key in current if key[0] == event.process]:
                current.pop(key).end = event.time
    for claim in claims:
        claim.end = min(claim.end, deaths[claim.member])
        claim.guarded = claim.end
    return claims


def with_strikes(history: Iterable[Event], evidence: Evidence, silences: Iterable[Silence], after_s: float) -> list[Event]:
    """Return the history for the general checker: kills, and pauses longer than a session, become events of each member.

    The lives of a static member are one member there.
    """
    strikes: list[Event] = []
    for member, host in evidence.hosts.items():
        if host in evidence.deaths:
            strikes.append(Event(evidence.deaths[host], member, "info", "crash", (), {"how": "kill"}))
        for silence in silences:
            if silence.host == host and silence.ended - silence.begun >= after_s:
                strikes.append(Event(silence.begun, member, "info", "crash", (), {"how": "pause"}))
                strikes.append(Event(silence.ended, member, "info", "crash", (), {"how": "resume"}))
    told: list[Event] = []
    for event in history:
        instance = evidence.instances.get(event.process)
        if "stalled_since" in event.extra:
            continue
        told.append(event._replace(extra={**event.extra, "static": instance}) if instance is not None else event)
    return sorted([*told, *strikes], key=lambda event: event.time)


def stalls(history: Iterable[Event]) -> list[Silence]:
    """Return the times in which processes got no processor time, as they noticed themselves."""
    found: list[Silence] = []
    for event in history:
        since = event.extra.get("stalled_since")
        if isinstance(since, float):
            found.append(Silence(event.process, since, event.time))
    return found


def starvations(silences: Iterable[Silence], least_s: float) -> list[Silence]:
    """Merge silences that follow each other within a second, and return those that last at least `least_s` seconds in total."""
    found: list[Silence] = []
    lasted: list[float] = []
    for silence in silences:
        if found and silence.begun - found[-1].ended < 1:
            found[-1] = found[-1]._replace(ended=silence.ended)
            lasted[-1] += silence.ended - silence.begun
        else:
            found.append(silence)
            lasted.append(silence.ended - silence.begun)
    return [silence for silence, seconds in zip(found, lasted, strict=True) if seconds >= least_s]


def guard(claims: Iterable[Claim], hosts: Mapping[str, str], silences: Iterable[Silence], after_s: float) -> None:
    """End the guard of claims of members that were silent for too long: the coordinator may remove such members."""
    by_host: dict[str, list[Silence]] = defaultdict(list)
    for silence in silences:
        if silence.ended - silence.begun >= after_s:
            by_host[silence.host].append(silence)
    for claim in claims:
        for silence in by_host[hosts[claim.member]]:
            if claim.begin < silence.ended and silence.begun < claim.end:
                claim.guarded = min(claim.guarded, max(claim.begin, silence.begun + after_s))


def one_owner(claims: Iterable[Claim], instances: Mapping[str, str | None]) -> list[str]:
    """Check that claims to one partition do not overlap, and that a generation has one claim."""
    problems: list[str] = []
    by_partition: dict[tuple[str, Partition], list[Claim]] = defaultdict(list)
    for claim in claims:
        by_partition[claim.group, claim.partition].append(claim)
    for (group, partition), some in by_partition.items():
        some.sort(key=lambda each: each.begin)
        last: Claim | None = None
        in_generation: dict[int, str] = {}
        for claim in some:
            if last is not None and claim.begin < last.guarded and last.member != claim.member:
                problems.append(
                    f"one-owner: {group} {partition}: {claim.member} has it since {claim.begin:.3f} in generation {claim.generation}, "
                    f"{last.member} in {last.generation} from {last.begin:.3f} to {last.end:.3f}, undisturbed until {last.guarded:.3f}"
                )
            if last is None or claim.guarded > last.guarded:
                last = claim
            owner = instances.get(claim.member) or claim.member
            if in_generation.setdefault(claim.generation, owner) != owner:
                problems.append(
                    f"one-owner: {group} {partition}: both {in_generation[claim.generation]} and {owner} in generation {claim.generation}"
                )
    return limited(problems)


def commits_go_on(group: str, commits: Iterable[Commit], times: Mapping[tuple[str, int], tuple[float, float]]) -> list[str]:
    """Check that committed offsets do not decrease. A commit without a response, on a connection that was given up, may come after the
    member's next one.
    """
    problems: list[str] = []
    last: dict[Partition, Commit] = {}
    for commit in commits:
        before = last.get(commit.partition)
        overtaken = (
            before is not None
            and (commit.member, commit.member_id) == (before.member, before.member_id)
            and commit.number < before.number
            and times[commit.member, commit.number][1] > times[before.member, before.number][0]
        )
        if before is not None and commit.offset < before.offset and not overtaken:
            problems.append(f"commits-go-on: {group} {commit.partition}: {before.offset} became {commit.offset}: {before}, then {commit}")
        last[commit.partition] = commit
    return problems


def fenced(group: str, commits: Iterable[Commit], forgetful: Container[str] = ()) -> list[str]:
    """Check the author of each commit. `forgetful` members may have committed without a generation, which a group without members
    accepts.
    """
    problems: list[str] = []
    for commit in commits:
        if not commit.members and (commit.claimed_generation < 0 or commit.member in forgetful):
            continue
        if not commit.is_member:
            problems.append(f"fenced: {group}: accepted from somebody who is no member: {commit}")
        elif commit.owner is not None and commit.owner != commit.member_id:
            problems.append(f"fenced: {group}: accepted for a partition of {commit.owner}: {commit}")
    return problems


def commit_times(history: Iterable[Event]) -> dict[tuple[str, int], tuple[float, float]]:
    """Return (member, number) of a commit -> the times of its request and of its success (infinity without success)."""
    times: dict[tuple[str, int], tuple[float, float]] = {}
    for event in history:
        number = event.extra.get("id")
        if event.function == "commit" and isinstance(number, int):
            if event.kind == "invoke":
                times[event.process, number] = (event.time, math.inf)
            elif event.kind == "ok":
                times[event.process, number] = (times[event.process, number][0], event.time)
    return times


def positions_go_on(claims: Iterable[Claim], commits: Iterable[Commit], times: Mapping[tuple[str, int], tuple[float, float]]) -> list[str]:
    """Check that the first offset read under a claim is a committed one: the last one completed before, or one under way."""
    problems: list[str] = []
    by_partition: dict[Partition, list[tuple[float, float, int]]] = defaultdict(list)
    for commit in commits:
        asked, done = times[commit.member, commit.number]
        by_partition[commit.partition].append((asked, done, commit.offset))
    # Lower bound of the committed offset, by the time at which it was known.
    known: dict[Partition, tuple[list[float], list[int]]] = {}
    for partition, some in by_partition.items():
        known[partition] = ([], [])
        highest = 0
        for done, offset in sorted((done, offset) for _, done, offset in some if done < math.inf):
            highest = max(highest, offset)
            known[partition][0].append(done)
            known[partition][1].append(highest)
    had: set[tuple[Partition, str]] = set()
    for claim in claims:
        again = (claim.partition, claim.member) in had
        had.add((claim.partition, claim.member))
        if not claim.reads:
            continue
        at, first = claim.reads[left_from_before(claim) if again else 0]
        moments, offsets = known.get(claim.partition, ([], []))
        index = bisect_right(moments, claim.begin)
        least = offsets[index - 1] if index else 0
        if first != least and not any(asked < at and offset == first > least for asked, _, offset in by_partition[claim.partition]):
            problems.append(
                f"positions-go-on: {claim.group} {claim.partition}: {claim.member} began at {first} in generation {claim.generation} "
                f"at {claim.begin:.3f}, when {least} was committed"
            )
        for (_, before), (_, after) in pairwise(claim.reads):
            if after > before + 1:
                problems.append(
                    f"positions-go-on: {claim.group} {claim.partition}: {claim.member} read {after} after {before} in {claim.generation}"
                )
    return problems


def left_from_before(claim: Claim) -> int:
    """Return the number of a claim's first reads that were fetched under an earlier claim: records in order, before the position goes
    back.
    """
    return next((index for index, ((_, before), (_, after)) in enumerate(pairwise(claim.reads), 1) if after < before), 0)


def at_least_once(history: Iterable[Event], members: set[str], ends: Mapping[Partition, int]) -> list[str]:
    problems: list[str] = []
    sent: dict[tuple[str, int, int], object] = {}
    read: dict[tuple[str, int, int], object] = {}
    for event in history:
        for each in event.micro_operations:
            if isinstance(each, Send) and each.offset is not None and event.kind == "ok":
                sent[each.topic, each.partition, each.offset] = each.value
            elif isinstance(each, Poll) and event.process in members:
                read[each.topic, each.partition, each.offset] = each.value
    for place, value in sent.items():
        if place not in read:
            problems.append(f"at-least-once: nobody read {place}")
        elif read[place] != value:
            problems.append(f"at-least-once: {place} was read as {read[place]!r}, sent as {value!r}")
    for (topic, partition), end in ends.items():
        missing = [offset for offset in range(end) if (topic, partition, offset) not in sent]
        if missing:
            problems.append(f"at-least-once: {topic}-{partition} has offsets up to {end}, of which {missing[:5]} were never acknowledged")
    return problems
