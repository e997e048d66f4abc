"""The standard authorizer decides as if it looked at every ACL, whatever came and went before."""

from __future__ import annotations

import random
import tracemalloc
from itertools import count
from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.security.acl_index import AclIndex, Decision
from odradek.security.acls import AccessControlEntry, AclFilter
from odradek.security.principal import ANONYMOUS, Principal, parse_super_users
from odradek.security.resources import Operation, PatternType, PermissionType, ResourceType
from odradek.security.standard import StandardAuthorizer
from tests.security.acl_support import naive, naive_any, random_entry, random_question

ALICE = Principal("User", "alice")


@pytest.mark.parametrize("seed", range(40))
def test_decisions_are_those_of_every_acl_looked_at(seed: int) -> None:
    rng = random.Random(seed)
    default = rng.random() < 0.3
    supers = ("User:bob",) if rng.random() < 0.3 else ()
    authorizer: StandardAuthorizer[int] = StandardAuthorizer(supers, allow_without_acl=default)
    ids = count()
    authorizer.load({next(ids): random_entry(rng) for _ in range(rng.randrange(12))})
    for _ in range(30):
        for _ in range(20):
            question = random_question(rng)
            entries = authorizer.entries.values()
            assert authorizer.allows(*question) == naive(entries, question, supers, allow_without_acl=default), question
            expected = str(question[0]) in supers or naive_any(entries, question, allow_without_acl=default)
            assert authorizer.allows_any(*question[:4]) == expected, question
        gone = rng.sample(sorted(authorizer.entries), min(rng.randrange(4), len(authorizer.entries)))
        authorizer.change({**dict.fromkeys(gone), **{next(ids): random_entry(rng) for _ in range(rng.randrange(4))}})
    authorizer.change(dict.fromkeys(authorizer.entries))
    assert authorizer.indexed == 0


@pytest.mark.parametrize("seed", range(10))
def test_the_rule_that_is_named_is_one_that_decides(seed: int) -> None:
    rng = random.Random(seed)
    entries = [random_entry(rng) for _ in range(15)]
    authorizer: StandardAuthorizer[int] = StandardAuthorizer(["User:bob"], allow_without_acl=seed % 2 == 0)
    authorizer.load(dict(enumerate(entries)))
    for _ in range(200):
        question = random_question(rng)
        rule, allowed = authorizer.explain(*question), authorizer.allows(*question)
        if rule == "SuperUser":
            assert allowed
            assert question[0].name == "bob"
        elif rule.startswith("Default"):
            assert allowed is (rule == "DefaultAllow")
        else:
            (named,) = {entry for entry in entries if rule == f"MatchingAcl(acl={entry})"}
            assert allowed is (named.permission_type == PermissionType.ALLOW)
            assert naive([named], question) is allowed


def test_until_the_acls_are_loaded_only_super_users_may_do_anything() -> None:
    authorizer: StandardAuthorizer[int] = StandardAuthorizer(["User:ANONYMOUS"], allow_without_acl=True)
    question = ("h", Operation.READ, ResourceType.TOPIC, "t")
    assert authorizer.allows(ANONYMOUS, *question)
    for ask in (lambda: authorizer.allows(ALICE, *question), lambda: authorizer.allows_any(ALICE, *question[:3])):
        with pytest.raises(KafkaError) as refused:
            ask()
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    authorizer.load({})
    assert authorizer.allows(ALICE, *question)


def test_what_is_remembered_is_bounded() -> None:
    authorizer: StandardAuthorizer[int] = StandardAuthorizer(allow_without_acl=True, most_remembered=100)
    authorizer.load({})
    for number in range(1_000):
        authorizer.allows(ALICE, "h", Operation.READ, ResourceType.TOPIC, str(number))
        authorizer.allows_any(ALICE, str(number), Operation.WRITE, ResourceType.TOPIC)
        assert 0 < authorizer.remembered <= 100


@pytest.mark.parametrize("name", ["x" * 32_000, "\U0001f600" * 8_000, "x" * 30])
def test_what_is_remembered_is_bounded_in_bytes(name: str) -> None:
    """A client chooses names, and how long they are."""
    authorizer: StandardAuthorizer[int] = StandardAuthorizer(allow_without_acl=True)
    authorizer.load({0: AccessControlEntry(2, "denied", 3, "User:*", "*", 2, PermissionType.DENY)})
    tracemalloc.start()
    try:
        for number in range(2_000):
            assert authorizer.allows(ALICE, "h", Operation.READ, ResourceType.TOPIC, f"{number}{name}")
            assert authorizer.allows(Principal("User", f"{number}{name}"), "h", Operation.READ, ResourceType.TOPIC, "t")
            assert not authorizer.allows(ALICE, "h", Operation.READ, ResourceType.TOPIC, "denied")
        authorizer.change({0: None})
        assert authorizer.allows(ALICE, "h", Operation.READ, ResourceType.TOPIC, "denied")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_decision_is_taken_once_until_an_acl_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after as many as are remembered at once, twice over: room that was given back is used again."""
    looked = 0
    decide = AclIndex.decide

    def counted(*args: Any) -> Any:
        nonlocal looked
        looked += 1
        return decide(*args)

    monkeypatch.setattr(AclIndex, "decide", counted)
    authorizer: StandardAuthorizer[int] = StandardAuthorizer(allow_without_acl=True, most_bytes=10_000)
    authorizer.load({})
    for number in range(200):
        looked = 0
        for _ in range(5):
            for name in (f"topic-{number}", "other"):
                authorizer.allows(ALICE, "h", Operation.READ, ResourceType.TOPIC, name)
        assert looked <= 3, f"{number}: once each, and once more where all were forgotten between"


HOSTS = [
    ("::1", "0:0:0:0:0:0:0:1"),
    ("0:0:0:0:0:0:0:1", "0:0:0:0:0:0:0:1"),
    ("::ffff:10.0.0.1", "10.0.0.1"),
    ("::ffff:a00:1", "10.0.0.1"),
    ("0:0:0:0:0:FFFF:10.0.0.1", "10.0.0.1"),
    ("10.0.0.1", "10.0.0.1"),
    ("2001:DB8::00ff:0", "2001:db8:0:0:0:0:ff:0"),
    ("fe80::1%2", "fe80:0:0:0:0:0:0:1%2"),
]
"""Host of an ACL, and the address of a connection as Java's InetAddress.getHostAddress writes it."""


@pytest.mark.parametrize(("written", "peer"), HOSTS)
@pytest.mark.parametrize("permission", [PermissionType.ALLOW, PermissionType.DENY])
def test_hosts_of_acls_are_compared_as_addresses(written: str, peer: str, permission: PermissionType) -> None:
    authorizer: StandardAuthorizer[int] = StandardAuthorizer(allow_without_acl=permission is PermissionType.DENY)
    entry = AccessControlEntry(3, "g", 3, "User:alice", written, int(Operation.READ), permission)
    authorizer.load({0: entry, 1: entry._replace(host=peer)})
    said = permission is PermissionType.ALLOW

    def asked(host: str) -> bool:
        found = {
            authorizer.allows(ALICE, host, Operation.READ, ResourceType.GROUP, "g"),
            authorizer.allows_any(ALICE, host, Operation.READ, ResourceType.GROUP) if said else False,
        }
        assert len(found) == 1
        return found.pop()

    assert asked(peer) is said
    assert asked("2001:db8:0:0:0:0:ff:1") is False
    authorizer.change({1: None})
    assert asked(peer) is said, "one of two texts of the address is left"
    assert authorizer.entries == {0: entry}, "an ACL stays as it was written"
    authorizer.change({0: None})
    assert authorizer.allows(ALICE, peer, Operation.READ, ResourceType.GROUP, "g") is not said


def test_decisions_are_remembered_again_after_all_were_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of a megabyte fill what may be remembered; then ACLs change, or there is no more room, and others are remembered."""
    authorizer: StandardAuthorizer[int] = StandardAuthorizer(allow_without_acl=True)
    authorizer.load({})
    asked: list[str] = []
    decide = AclIndex.decide

    def counted(index: AclIndex, principal: str, host: str, operation: int, resource: int, name: str) -> Decision:
        asked.append(name)
        return decide(index, principal, host, operation, resource, name)

    monkeypatch.setattr(AclIndex, "decide", counted)
    long = ["x" * (1 << 20) + str(number) for number in range(12)]
    for changes in ({0: LITERAL}, {0: None}, {}):
        for name in (*long, "short", "short"):
            authorizer.allows(ALICE, "h", Operation.READ, ResourceType.TOPIC, name)
        assert asked.count("short") == 1
        authorizer.change(changes)
        asked.clear()


def test_acls_that_are_loaded_anew_are_all_that_there_are() -> None:
    authorizer: StandardAuthorizer[int] = StandardAuthorizer()
    question = (ALICE, "h", Operation.READ, ResourceType.TOPIC, "team.a")
    for entries, allowed in (({0: LITERAL}, True), ({}, False), ({0: LITERAL}, True)):
        authorizer.load(entries)
        assert authorizer.allows(*question) is allowed
        assert authorizer.allows_any(*question[:4]) is allowed
    denied = LITERAL._replace(permission_type=int(PermissionType.DENY))
    for entry, allowed in ((denied, False), (LITERAL, True)):
        authorizer.change({0: entry})
        assert authorizer.allows(*question) is allowed


def test_who_asks_and_from_where_is_a_part_of_what_is_remembered() -> None:
    authorizer: StandardAuthorizer[int] = StandardAuthorizer()
    authorizer.load({0: LITERAL._replace(host="h")})
    for _ in range(2):
        for principal, host, allowed in ((ALICE, "h", True), (ALICE, "i", False), (Principal("Group", "alice"), "h", False)):
            assert authorizer.allows(principal, host, Operation.READ, ResourceType.TOPIC, "team.a") is allowed
            assert authorizer.allows_any(principal, host, Operation.READ, ResourceType.TOPIC) is allowed


def test_an_acl_of_a_later_release_allows_nothing_and_denies_nothing_known() -> None:
    entries = [
        AccessControlEntry(2, "t", 3, "User:alice", "*", 99, PermissionType.DENY),
        AccessControlEntry(2, "t", 3, "User:alice", "*", -1, PermissionType.ALLOW),
    ]
    authorizer: StandardAuthorizer[int] = StandardAuthorizer(allow_without_acl=True)
    authorizer.load(dict(enumerate(entries)))
    assert not authorizer.allows(ALICE, "h", Operation.READ, ResourceType.TOPIC, "t")
    authorizer.change({0: None, 1: None})
    assert authorizer.allows(ALICE, "h", Operation.READ, ResourceType.TOPIC, "t")


def test_super_users_are_read_as_kafka_reads_them() -> None:
    assert parse_super_users(" User:alice ;; User:CN=a,O=b;") == {"User:alice", "User:CN=a,O=b"}
    assert parse_super_users("") == frozenset()
    with pytest.raises(ValueError, match="principalType:principalName"):
        parse_super_users("alice")


LITERAL = AccessControlEntry(2, "team.a", 3, "User:alice", "*", 3, 3)
PREFIXED = AccessControlEntry(2, "team.", 4, "User:alice", "*", 3, 3)
EVERY = AccessControlEntry(2, "*", 3, "User:*", "10.0.0.1", 4, 2)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, [LITERAL, PREFIXED, EVERY]),
        ({"resource_type": 3}, []),
        ({"resource_type": 2}, [LITERAL, PREFIXED, EVERY]),
        ({"resource_name": "team.a"}, [LITERAL]),
        ({"resource_name": "team.a", "pattern_type": PatternType.MATCH}, [LITERAL, PREFIXED, EVERY]),
        ({"resource_name": "other", "pattern_type": PatternType.MATCH}, [EVERY]),
        ({"resource_name": "team.a", "pattern_type": PatternType.PREFIXED}, []),
        ({"pattern_type": PatternType.PREFIXED}, [PREFIXED]),
        ({"principal": "User:alice"}, [LITERAL, PREFIXED]),
        ({"host": "10.0.0.1"}, [EVERY]),
        ({"host": "10.0.0.9"}, []),
        ({"operation": 4}, [EVERY]),
        ({"operation": 2}, []),
        ({"permission_type": 3}, [LITERAL, PREFIXED]),
    ],
)
def test_a_filter_finds_what_it_says(changes: dict[str, object], found: list[AccessControlEntry]) -> None:
    everything = AclFilter(1, None, 1, None, None, 1, 1)
    wanted = everything._replace(**changes)  # type: ignore[arg-type]
    assert [entry for entry in (LITERAL, PREFIXED, EVERY) if wanted.matches(entry)] == found
