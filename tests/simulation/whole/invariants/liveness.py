"""When all is well again, all comes together: one controller, every node with the metadata, every partition led where it should be and with
all of its replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.whole.story import Story


class LivenessPromises:
    """See the module's text."""

    def __init__(self, story: Story) -> None:
        self._story = story

    async def wait(self, virtual_s: float) -> None:
        """It must be so within so many virtual seconds; what comes later is waited for twice as long, so that the story can go on."""
        for patience_s in (virtual_s, virtual_s * 2):
            try:
                await self._story.cluster.wait_until(lambda: not self.missing(), patience_s, every_s=0.5)
            except TimeoutError:
                self._story.problem("liveness", f"{patience_s:.0f} s after all was healed: {'; '.join(self.missing()[:5])}")
            else:
                return

    def missing(self) -> list[str]:
        """What is not as it should be, now."""
        cluster = self._story.cluster
        kraft = {node: cluster.kraft(node) for node in cluster.ids}
        found = [f"node {node} is down" for node in cluster.ids if kraft[node] is None or cluster.is_starting(node)]
        leaders = {each.leader_and_epoch for each in kraft.values() if each is not None}
        active = [node for node, each in kraft.items() if each is not None and each.is_active_controller]
        if len(active) != 1:
            found.append(f"active controllers: {active}")
        if len(leaders) != 1:
            found.append(f"the quorum's leader is {sorted(leaders)}")
        found += [f"node {node} has not caught up" for node, each in kraft.items() if each is not None and not each.caught_up.done]
        image = cluster.image()
        if image is None:
            return found
        for node in cluster.broker_ids:
            broker = image.cluster.brokers.get(node)
            if broker is None or broker.fenced:
                found.append(f"broker {node} is fenced")
        for topic in image.topics.by_name.values():
            for number, partition in topic.partitions.items():
                if partition.leader != partition.replicas[0]:
                    found.append(f"{topic.name}-{number} is led by {partition.leader}, not {partition.replicas[0]}")
                if set(partition.isr) != set(partition.replicas):
                    found.append(f"{topic.name}-{number} has the ISR {sorted(partition.isr)} of {sorted(partition.replicas)}")
        return found
