"""Random programs of records, waits and changes of quotas, against the quota managers of JVM Kafka on a clock that stands still."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.peers import run_jvm_tool
from odradek.base.errors import KafkaError
from odradek.quotas.clients import ClientRates
from odradek.quotas.entities import DEFAULT, Name, QuotaKind
from odradek.quotas.mutations import MutationQuota, MutationRates
from odradek.quotas.replication import ReplicationQuota
from odradek.quotas.samples import SampledRate, SimpleRate, Window

pytestmark = pytest.mark.jvm

SOURCE = Path(__file__).with_name("jvm") / "Quotas.java"
T0 = 1_700_000_000_000
USERS, CLIENTS = ("u", "v", "w"), ("c", "d", "e", "")


def program(seed: int, steps: int) -> Iterator[str]:
    rng = random.Random(seed)
    now = T0
    yield f"at {now}"
    kinds = rng.choice([[(False, True)], [(True, False)], [(True, True)], [(False, True), (True, False), (True, True)]])
    for _ in range(steps):
        now += rng.choice([0, 0, 1, 7, 250, 999, 1000, 1001, 3500, 12_000, 40_000])
        yield f"at {now}"
        user, client = rng.choice(USERS), rng.choice(CLIENTS)
        match rng.randrange(12):
            case 0 | 1:
                of_user, of_client = rng.choice(kinds)
                owner = f"{rng.choice([*USERS, '*']) if of_user else '-'} {rng.choice(['c', 'd', '*']) if of_client else '-'}"
                yield f"quota {owner} {rng.choice(['-', '0.5', '3.0', '100.0', '100.0', '5000.0'])}"
            case 2 | 3 | 4:
                yield f"record {user} {client} {rng.choice([0, 1, 40.5, 900, 20_000])}"
            case 5:
                yield f"unrecord {user} {client} {rng.choice([1, 900])}"
            case 6:
                yield f"most {user} {client}"
            case 7:
                yield f"{rng.choice(['strict', 'permissive'])} {user} {client}"
                for _ in range(rng.randrange(1, 6)):
                    yield f"mutate {rng.randrange(0, 60)}"
                    if rng.random() < 0.4:
                        now += rng.randrange(0, 900)
                        yield f"at {now}"
            case 8 | 9:
                yield f"rate {rng.choice([0, 5, 17.25, 4000, -5])}"
                yield "measure"
            case 10:
                yield f"limit {rng.choice([10.0, 1000.0])}"
            case _:
                yield f"move {rng.choice([1, 100, 4000])}"
                yield "exceeded"


class Ours:
    """The same operations on our side, with the same answers."""

    def __init__(self, window: Window) -> None:
        self.now = 0
        self.bytes = ClientRates(QuotaKind.FETCH, window)
        self.mutations = MutationRates(window)
        self.mutation: MutationQuota | None = None
        self.rate, self.simple = SampledRate(window), SimpleRate(window)
        self.replicas = ReplicationQuota(window)

    def answer(self, line: str) -> str:
        word, *given = line.split(" ")
        return str(getattr(self, word)(*given) or "")

    def at(self, now: str) -> None:
        self.now = int(now)

    def quota(self, user: str, client: str, limit: str) -> None:
        names: dict[str, Name] = {"-": None, "*": DEFAULT}
        for usages in (self.bytes.usages, self.mutations.usages):
            usages.table.update(names.get(user, user), names.get(client, client), None if limit == "-" else float(limit))
            usages.settle()

    def record(self, user: str, client: str, value: str) -> str:
        return str(self.bytes.record(user, client, float(value), self.now))

    def unrecord(self, user: str, client: str, value: str) -> None:
        self.bytes.note(user, client, -float(value), self.now)

    def most(self, user: str, client: str) -> str:
        return bits(min(self.bytes.most_at_once(user, client, self.now), 1.7976931348623157e308))

    def strict(self, user: str, client: str) -> None:
        self.mutation = self.mutations.quota_for(user, client, self.now, strict=True)

    def permissive(self, user: str, client: str) -> None:
        self.mutation = self.mutations.quota_for(user, client, self.now, strict=False)

    def mutate(self, partitions: str) -> str:
        if self.mutation is None:
            return "served 0"
        outcome = "served"
        try:
            self.mutation.record(int(partitions), self.now)
        except KafkaError:
            outcome = "refused"
        return f"{outcome} {self.mutation.throttle_ms(self.now)}"

    def rate_(self, value: str) -> None:
        self.rate.record(float(value), self.now)
        self.simple.record(float(value), self.now)

    def measure(self) -> str:
        return f"{bits(self.rate.measure(self.now))} {self.rate.span_ms(self.now)} {bits(self.simple.measure(self.now))}"

    def limit(self, rate: str) -> None:
        self.replicas.limit(int(float(rate)))

    def move(self, size: str) -> None:
        self.replicas.record(int(size), self.now)

    def exceeded(self) -> str:
        return str(self.replicas.exceeded(self.now)).lower()


def bits(value: float) -> str:
    return f"{struct.unpack('>Q', struct.pack('>d', value))[0]:x}"


@pytest.mark.parametrize(("samples", "seconds"), [(11, 1), (2, 2)])
def test_the_numbers_are_those_of_kafka(samples: int, seconds: int) -> None:
    lines = [line for seed in range(1) for line in program(seed * 10 + samples, 4000)]
    done = run_jvm_tool(str(SOURCE), str(samples), str(seconds), stdin="\n".join(lines).encode() + b"\n")
    assert done.returncode == 0, done.stderr.decode()
    theirs = done.stdout.decode().split("\n")[:-1]
    ours = Ours(Window(samples, seconds * 1000))
    said = {"refused": 0, "true": 0, "throttled": 0}
    for number, (line, their) in enumerate(zip(lines, theirs, strict=True)):
        mine = ours.answer(line.replace("rate ", "rate_ ", 1) if line.startswith("rate ") else line)
        assert mine == their, f"after {number} operations: {line}"
        said["refused"] += their.startswith("refused")
        said["true"] += their == "true"
        said["throttled"] += line.startswith("record") and their not in ("", "0")
    assert min(said.values()) > 20, said
