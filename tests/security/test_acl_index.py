"""An index of ACLs is what is left of them: whatever was added and removed before, in whatever order, and however often."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.security.acl_index import AclIndex
from odradek.security.acls import AccessControlEntry
from odradek.security.principal import Principal
from odradek.security.resources import Operation, PatternType, PermissionType, ResourceType
from tests.security.acl_support import Question, means, naive, naive_any

TOPIC = ResourceType.TOPIC
ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")

# Few of each, so that several ACLs meet in one place: the same pattern, principal and host, and often the very same ACL.
ENTRIES = st.builds(
    lambda kind, pattern, principal, host, operation, permission: AccessControlEntry(
        int(kind), pattern[1], int(pattern[0]), principal, host, int(operation), int(permission)
    ),
    st.sampled_from((TOPIC, ResourceType.GROUP)),
    st.sampled_from(
        ((PatternType.LITERAL, "ab"), (PatternType.LITERAL, "*"), (PatternType.PREFIXED, "a"), (PatternType.PREFIXED, "ab")),
    ),
    st.sampled_from(("User:alice", "User:*")),
    st.sampled_from(("*", "h")),
    st.sampled_from((Operation.READ, Operation.WRITE, Operation.ALL)),
    st.sampled_from((PermissionType.ALLOW, PermissionType.DENY)),
)
QUESTIONS: tuple[Question, ...] = tuple(
    (principal, host, operation, resource, name)
    for principal in (ALICE, BOB)
    for host in ("h", "other")
    for operation in (Operation.READ, Operation.DESCRIBE)
    for resource, name in ((TOPIC, "a"), (TOPIC, "ab"), (TOPIC, "abc"), (TOPIC, "b"), (ResourceType.GROUP, "ab"))
)


class Index(RuleBasedStateMachine):
    """ACLs come and go one at a time; each question is answered as if each of those that are left were looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.index = AclIndex()
        self.entries: list[AccessControlEntry] = []

    @rule(entry=ENTRIES)
    def add(self, entry: AccessControlEntry) -> None:
        self.index.add(entry)
        self.entries.append(entry)

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def add_again(self, data: st.DataObject) -> None:
        self.add(data.draw(st.sampled_from(self.entries)))

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        entry = self.entries.pop(data.draw(st.integers(0, len(self.entries) - 1)))
        self.index.remove(entry)

    @rule()
    def remove_all(self) -> None:
        while self.entries:
            self.index.remove(self.entries.pop(0))

    @invariant()
    def answers(self) -> None:
        assert len(self.index) == len(self.entries)
        for question in QUESTIONS:
            principal, host, operation, resource, name = question
            decision = self.index.decide(str(principal), host, operation, resource, name)
            assert (decision.allowed and not decision.denied) is naive(self.entries, question), question
            assert decision.any_acl is any(means(entry, resource, name) for entry in self.entries)
            explained = self.index.explain(str(principal), host, operation, resource, name)
            assert (explained is None) is not (decision.allowed or decision.denied), question
            assert explained is None or explained in self.entries
            assert (explained is not None and explained.permission_type == PermissionType.DENY) is decision.denied, "which one decides"
            if operation is Operation.READ:  # what an operation implies does not count there
                assert self.index.allows_any(str(principal), host, operation, resource) is naive_any(self.entries, question), question


TestIndex = Index.TestCase
TestIndex.settings = settings(max_examples=50, stateful_step_count=12)


def acl(operation: Operation, permission: PermissionType) -> AccessControlEntry:
    return AccessControlEntry(int(TOPIC), "a", int(PatternType.LITERAL), "User:alice", "*", int(operation), int(permission))


@pytest.mark.parametrize("left", [acl(Operation.READ, PermissionType.ALLOW), acl(Operation.WRITE, PermissionType.ALLOW)])
def test_a_denial_that_is_removed_denies_nothing_although_the_same_principal_has_other_acls(left: AccessControlEntry) -> None:
    index = AclIndex([left, denial := acl(Operation.READ, PermissionType.DENY)])
    assert index.decide("User:alice", "h", Operation.READ, TOPIC, "a").denied
    index.remove(denial)
    assert not index.decide("User:alice", "h", Operation.READ, TOPIC, "a").denied


def test_an_acl_that_is_there_twice_holds_until_both_are_gone() -> None:
    allowed = acl(Operation.READ, PermissionType.ALLOW)
    index = AclIndex([allowed, allowed])
    for count in (1, 0):
        index.remove(allowed)
        assert index.decide("User:alice", "h", Operation.READ, TOPIC, "a").allowed is bool(count)
    assert not index.decide("User:alice", "h", Operation.READ, TOPIC, "a").any_acl
    with pytest.raises(KeyError):
        index.remove(allowed)
