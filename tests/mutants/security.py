"""Bugs of the room security, and of where its decisions are taken."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "an-allow-beats-a-deny",
        "security/standard.py",
        "return decision.allowed and not decision.denied",
        "return decision.allowed",
        "whoever is denied something may do it, if another ACL allows it",
        "security/test_standard.py",
    ),
    Mutant(
        "decisions-outlive-acls",
        "security/standard.py",
        "                self._index.add(entry)\n        self._forget()\n",
        "                self._index.add(entry)\n",
        "an ACL that was removed goes on allowing what it allowed",
        "security/test_standard.py",
    ),
    Mutant(
        "everybody-before-the-acls-are-known",
        "security/standard.py",
        "        if not self.ready:\n"
        '            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The authorizer is not ready: the ACLs have not been loaded yet.")\n',
        "",
        "a controller that has not read its ACLs decides without them",
        "security/test_standard.py",
    ),
    Mutant(
        "what-is-remembered-grows",
        "security/standard.py",
        "        if len(self._remembered) >= _MOST_REMEMBERED or self._remembered_bytes + size > _MOST_BYTES:\n            self._forget()\n",
        "",
        "clients that ask for many names fill the broker's memory",
        "security/test_standard.py",
    ),
    Mutant(
        "a-denial-implies-others",
        "security/acl_index.py",
        "return Decision(bool(allowed & _ALLOW_BITS[operation]), bool(denied & _DENY_BITS[operation]), any_acl)",
        "return Decision(bool(allowed & _ALLOW_BITS[operation]), bool(denied & _ALLOW_BITS[operation]), any_acl)",
        "whoever must not write may not look either",
        "security/test_standard.py",
    ),
    Mutant(
        "the-last-acl-of-a-cell-stays",
        "security/acl_index.py",
        "        self.allowed = self.denied = 0\n",
        "",
        "an ACL that was removed goes on allowing what it allowed, beside others of the same principal",
        "security/test_standard.py",
    ),
    Mutant(
        "wildcards-reach-names-of-stars",
        "security/acl_index.py",
        "        if not name.startswith(WILDCARD):\n            cells",
        "        if True:\n            cells",
        "groups whose names begin with a star are open to whom Kafka denies them",
        "security/test_standard.py",
    ),
    Mutant(
        "any-topic-for-the-denied",
        "security/acl_index.py",
        "        if _EVERY_RESOURCE in denials:\n            return False\n",
        "",
        "whoever may write to no topic gets producer ids",
        "security/test_standard.py",
    ),
    Mutant(
        "acls-are-not-followed",
        "server/authorization.py",
        "        elif delta.acls:\n            self._authorizer.change(delta.acls)\n",
        "",
        "ACLs hold only after the next restart",
        "server/test_authorization.py",
    ),
    Mutant(
        "audit-without-a-bound",
        "server/audit.py",
        "        if len(self._waiting) >= MOST_WAITING or self._waiting_bytes + size > MOST_BYTES:\n            self._left_out += 1\n            return\n",
        "",
        "a client that is denied again and again fills the broker's memory",
        "server/test_authorization.py",
    ),
    Mutant(
        "controller-decides-for-itself",
        "server/dispatch.py",
        "            with controller.on_behalf_of(allows, count):\n                return operation(controller, request, version)\n",
        "            return operation(controller, request, version)\n",
        "whoever may send a request to the controller may create and delete topics",
        "handlers/test_access.py",
    ),
    Mutant(
        "client-rights-outlive-its-request",
        "controller/core/context.py",
        "            self._allows = self._count = None\n",
        "            pass\n",
        "the controller's own work is refused with the rights of the client before",
        "controller/test_core_acls.py",
    ),
    Mutant(
        "patterns-find-everything",
        "coordinator/group/consumer/regexes.py",
        "if matches(name) and (may_describe is None or may_describe(name)):",
        "if matches(name):",
        "a pattern shows the names of topics that its subscriber may not describe",
        "server/test_authorization.py",
    ),
    Mutant(
        "acl-twice",
        "controller/core/acls.py",
        "if error is None and entry not in context.state.acl_ids and entry not in added:",
        "if error is None and entry not in context.state.acl_ids:",
        "an ACL that is named twice in a request has two ids, and outlives its deletion by the controller's own count",
        "controller/test_core_acls.py",
    ),
)
