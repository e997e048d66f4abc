"""Policies of a node with the controller role: loaded before the node changes anything, so that an error leaves no traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.config.keys.cluster import ALTER_CONFIG_POLICY_CLASS_NAME, CREATE_TOPIC_POLICY_CLASS_NAME
from odradek.config.policies import ALTER_CONFIG, CREATE_TOPIC
from odradek.server.step import Step

if TYPE_CHECKING:
    from odradek.controller.core.policies import Policies
    from odradek.policies import AlterConfigPolicy, CreateTopicPolicy
    from odradek.server.start.node import Node


class LoadPolicies(Step["Policies | None"]):
    """Step that makes the policies of the configuration. Its stop closes them, after their last use."""

    name = "policies"

    def __init__(self, node: Node) -> None:
        self._config = node.config
        self._policies: list[CreateTopicPolicy | AlterConfigPolicy] = []

    async def start(self) -> Policies | None:
        config = self._config
        names = [config[CREATE_TOPIC_POLICY_CLASS_NAME], config[ALTER_CONFIG_POLICY_CLASS_NAME]]
        if not config.is_controller or not any(names):
            return None
        from odradek.controller.core.policies import Policies
        from odradek.policies.loading import load

        found: list[Any] = [None, None]
        for place, (key, name) in enumerate(zip((CREATE_TOPIC, ALTER_CONFIG), names, strict=True)):
            if name:
                found[place] = load(key, name, config.given)
                self._policies.append(found[place])
        return Policies(*found)

    async def stop(self) -> None:
        if not self._policies:
            return
        from odradek.policies.loading import close

        for policy in self._policies:
            close(policy)
