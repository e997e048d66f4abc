"""A node that decides about access: what it knows after a restart, what it says in the audit log, what patterns find."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from interop.differential.access_samples import G1, T1, T2
from odradek.base.errors import ErrorCode
from odradek.handlers import access
from odradek.handlers.access import Check
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.registry import request_class
from odradek.security.principal import ANONYMOUS, Principal
from odradek.security.resources import Operation, ResourceType
from odradek.server.security import audit
from odradek.testing.simulation.broker import SimulatedBroker
from odradek.testing.simulation.loop import SimulatedLoop, run
from tests.handlers.access_world import SETTINGS, AccessWorld, in_world

READ = Check(Operation.READ, ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED)
BEAT = request_class(ApiKey.HEARTBEAT)(group_id=G1, generation_id=1, member_id="nobody")


async def beat(world: AccessWorld, principal: Principal) -> ErrorCode:
    answer = await world.ask(ApiKey.HEARTBEAT, 4, BEAT, principal)
    return ErrorCode(answer.error_code)


def test_acls_hold_at_once_after_a_restart_and_until_they_are_deleted() -> None:
    async def story(world: AccessWorld) -> None:
        alice = await world.client([READ], [])
        nobody = Principal("User", "nobody")
        for _ in range(2):
            assert await beat(world, alice) is ErrorCode.UNKNOWN_MEMBER_ID
            assert await beat(world, nobody) is ErrorCode.GROUP_AUTHORIZATION_FAILED
            world.node.kill()
            await world.node.start()
            find = request_class(ApiKey.FIND_COORDINATOR)(key_type=0, coordinator_keys=[G1])
            await world.until(lambda: world.ask(ApiKey.FIND_COORDINATOR, 4, find), lambda answer: not answer.coordinators[0].error_code)  # noqa: B023
            await world.until(lambda: beat(world, ANONYMOUS), lambda code: code is ErrorCode.UNKNOWN_MEMBER_ID)
        message: Any = request_class(ApiKey.DELETE_ACLS)
        every = message.DeleteAclsFilter(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=str(alice),
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        answer = await world.ask(ApiKey.DELETE_ACLS, 3, message(filters=[every]))
        assert [len(result.matching_acls) for result in answer.filter_results] == [1]
        assert await beat(world, alice) is ErrorCode.GROUP_AUTHORIZATION_FAILED

    in_world(story)


def test_a_pattern_finds_no_topic_that_the_client_may_not_describe() -> None:
    async def story(world: AccessWorld) -> None:
        message: Any = request_class(ApiKey.CREATE_ACLS)
        one = message.AclCreation(
            resource_type=2, resource_name=T1, resource_pattern_type=3, principal="User:bob", host="*", operation=8, permission_type=3
        )
        group = message.AclCreation(
            resource_type=3, resource_name="acc.", resource_pattern_type=4, principal="User:bob", host="*", operation=3, permission_type=3
        )
        await world.ask(ApiKey.CREATE_ACLS, 3, message(creations=[one, group]))
        bob = Principal("User", "bob")

        async def subscribed(who: Principal, name: str) -> set[Any]:
            member = {"group_id": f"acc.{name}", "member_id": f"{name}MemberMemberMember"}
            pattern = {"rebalance_timeout_ms": 60_000, "subscribed_topic_regex": "acc[.].*", "topic_partitions": []}
            first = request_class(ApiKey.CONSUMER_GROUP_HEARTBEAT)(**member, member_epoch=0, **pattern)
            answer = await world.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, first, who)
            assert not answer.error_code, answer
            for _ in range(50):
                await asyncio.sleep(1)
                again = request_class(ApiKey.CONSUMER_GROUP_HEARTBEAT)(**member, member_epoch=answer.member_epoch)
                answer = await world.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, again, who)
                if answer.assignment is not None and answer.assignment.topic_partitions:
                    return {each.topic_id for each in answer.assignment.topic_partitions}
            raise AssertionError(answer)

        assert await subscribed(bob, "bob") == {world.topic_ids[T1]}
        assert await subscribed(ANONYMOUS, "everybody") == {world.topic_ids[T1], world.topic_ids[T2]}

    in_world(story)


def test_only_brokers_look_for_share_coordinators() -> None:
    async def story(world: AccessWorld) -> None:
        request = request_class(ApiKey.FIND_COORDINATOR)(key_type=2, coordinator_keys=[f"{G1}:{'A' * 22}:0"])

        async def code(checks: list[Check]) -> int:
            who = await world.client(checks, [])
            answer = await world.ask(ApiKey.FIND_COORDINATOR, 6, request, who)
            return int(answer.coordinators[0].error_code)

        assert await code([]) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert await code([access.FIND_SHARE_COORDINATOR]) == ErrorCode.COORDINATOR_NOT_AVAILABLE

    in_world(story)


class TestAudit:
    def lines(self, caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
        return [(record.levelno, record.getMessage()) for record in caplog.records if record.name == "kafka.authorizer.logger"]

    def test_who_is_denied_is_said_and_at_debug_who_is_allowed(self, caplog: pytest.LogCaptureFixture) -> None:
        async def story(world: AccessWorld) -> None:
            alice = await world.client([READ], [])
            for level in (logging.INFO, logging.DEBUG):
                caplog.set_level(level, "kafka.authorizer.logger")
                caplog.clear()
                await beat(world, alice)
                await beat(world, Principal("User", "mallory"))
                await world.ask(ApiKey.LIST_GROUPS, 0, request_class(ApiKey.LIST_GROUPS)(), Principal("User", "mallory"))
                topics = [request_class(ApiKey.LIST_OFFSETS).ListOffsetsTopic(name=T1)] * 2  # type: ignore[attr-defined]
                request = request_class(ApiKey.LIST_OFFSETS)(replica_id=-1, topics=topics)
                await world.ask(ApiKey.LIST_OFFSETS, 1, request, Principal("User", "mallory"))
                await asyncio.sleep(1)
                found = self.lines(caplog)
                denied = [line for at, line in found if at == logging.INFO]
                assert denied == [
                    f"Principal = User:mallory is Denied operation = READ from host = 10.0.0.7 on resource = Group:LITERAL:{G1} "
                    "for request = Heartbeat with resourceRefCount = 1 based on rule DefaultDeny",
                    f"Principal = User:mallory is Denied operation = DESCRIBE from host = 10.0.0.7 on resource = Topic:LITERAL:{T1} "
                    "for request = ListOffsets with resourceRefCount = 2 based on rule DefaultDeny",
                ]
                allowed = [line for at, line in found if at == logging.DEBUG and str(alice) in line]
                expected = (
                    f"Principal = {alice} is Allowed operation = READ from host = 10.0.0.7 on resource = Group:LITERAL:{G1} "
                    "for request = Heartbeat with resourceRefCount = 1 based on rule MatchingAcl(acl=StandardAcl(resourceType=GROUP, "
                    f"resourceName=acc., patternType=PREFIXED, principal={alice}, host=*, operation=READ, permissionType=ALLOW))"
                )
                assert allowed == ([expected] if level == logging.DEBUG else [])

        in_world(story)

    def test_names_are_one_line_and_bounded(self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
        """A client chooses the names of groups; what waits is given back, so that the next are written."""
        monkeypatch.setattr(audit, "MOST_BYTES", 300_000)

        async def story(world: AccessWorld) -> None:
            caplog.set_level(logging.INFO, "kafka.authorizer.logger")
            groups: Any = request_class(ApiKey.DESCRIBE_GROUPS)
            mallory = Principal("User", "mallory\nforged")
            for _ in range(3):
                caplog.clear()
                await world.ask(ApiKey.DESCRIBE_GROUPS, 5, groups(groups=["g\nforged\x1b[2K"]), mallory)
                await asyncio.sleep(1)
                ((_, line),) = self.lines(caplog)
                assert "User:mallory\\nforged is Denied" in line
                assert "Group:LITERAL:g\\nforged\\x1b[2K for" in line
                caplog.clear()
                await world.ask(ApiKey.DESCRIBE_GROUPS, 5, groups(groups=[f"{number}{'x' * 30_000}" for number in range(20)]), mallory)
                await asyncio.sleep(1)
                lines = self.lines(caplog)
                assert [level for level, _ in lines] == [logging.INFO] * 9 + [logging.WARNING]
                assert lines[-1][1].startswith("11 decisions were not logged")
                assert max(len(line) for _, line in lines) < 2_000
                assert "xxx... (30001 characters) for request" in lines[0][1]

        in_world(story)

    def test_what_waits_to_be_written_is_bounded_and_the_rest_is_counted(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(audit, "MOST_WAITING", 3)

        async def story(world: AccessWorld) -> None:
            caplog.set_level(logging.INFO, "kafka.authorizer.logger")
            caplog.clear()
            topics: Any = request_class(ApiKey.LIST_OFFSETS)
            request = topics(replica_id=-1, topics=[topics.ListOffsetsTopic(name=f"t{number}") for number in range(8)])
            await world.ask(ApiKey.LIST_OFFSETS, 1, request, Principal("User", "mallory"))
            await asyncio.sleep(1)
            lines = self.lines(caplog)
            assert [level for level, _ in lines] == [logging.INFO] * 3 + [logging.WARNING]
            assert lines[-1][1] == "5 decisions were not logged: there were too many at once"

        in_world(story)


def test_a_node_that_does_not_trust_itself_says_so_and_does_not_begin(caplog: pytest.LogCaptureFixture) -> None:
    """Kafka's too: without super.users and without ACLs its own broker may not register."""
    caplog.set_level(logging.INFO, "odradek")

    async def main(loop: SimulatedLoop) -> None:
        node = SimulatedBroker(loop, seed=2, settings={**SETTINGS, "super.users": "User:admin"})
        starting = asyncio.ensure_future(node.start())
        await asyncio.wait((starting,), timeout=20)
        assert not starting.done()
        starting.cancel()
        await asyncio.wait((starting,))
        node.kill()

    run(main)
    assert any("CLUSTER_AUTHORIZATION_FAILED" in record.getMessage() for record in caplog.records)
