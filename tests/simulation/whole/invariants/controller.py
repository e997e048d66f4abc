"""What the controller has answered is true for ever: topics, partitions, configurations; no producer id is given twice, alone or in a
block; what it decides about partitions makes sense; and all controllers have the state that their log says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from odradek.base.undo import UndoJournal
from odradek.consensus.voters import BOOTSTRAP_SNAPSHOT_ID
from odradek.controller.core.quorum import QuorumControllerCore
from odradek.controller.kraft.metadata_log import next_offset_after
from odradek.controller.kraft.records import decode_batches
from odradek.metadata.registrations import NO_LEADER
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from odradek.testing.simulation.wiretap import TappedRequest

if TYPE_CHECKING:
    from odradek.controller.kraft import KRaftNode
    from odradek.metadata.image import MetadataImage, TopicImage
    from odradek.metadata.registrations import PartitionRegistration
    from tests.simulation.whole.story import Story

_RETENTION = 1_000_000_000
"""A topic's retention.ms is this and the number of the change."""


class ControllerPromises:
    """Told by those who ask the controller what it has confirmed."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._topics: dict[str, tuple[UUID, int]] = {}
        self._going: dict[str, UUID] = {}
        self._deleted: set[UUID] = set()
        self._configs: dict[str, int] = {}
        self._unsure: set[str] = set()
        self._given: dict[int, int] = {}
        self._blocks: list[tuple[range, str]] = []
        """Of producer ids, with the host that each was given to."""
        self._read: dict[int, dict[str, TopicImage]] = {}
        """The topics of the image that a node published last."""
        story.tap.on_response.append(self._answered)

    def _problem(self, text: str) -> None:
        self._story.problem("controller", text)

    # -- what was confirmed ----------------------------------------------------------------------------------------------------------

    def topic_created(self, name: str, topic_id: UUID, partitions: int) -> None:
        self._topics[name] = (topic_id, partitions)

    def topic_id(self, name: str) -> UUID:
        """The id of a topic that is there."""
        return self._topics[name][0]

    def topic_grown(self, name: str, partitions: int) -> None:
        self._topics[name] = (self._topics[name][0], partitions)

    def topic_deletion_asked(self, name: str) -> None:
        self._going[name] = self._topics.pop(name)[0]

    def topic_deleted(self, name: str) -> None:
        self._deleted.add(self._going.pop(name))

    def config_changed(self, name: str, number: int) -> None:
        self._configs[name] = number

    def unsure_of(self, name: str) -> None:
        """A change of the topic was not confirmed: it may be made at any time from now on."""
        self._unsure.add(name)

    def producer_id_given(self, node: int, producer_id: int) -> None:
        if producer_id in self._given:
            self._problem(f"producer id {producer_id} was given out by node {self._given[producer_id]} and by node {node}")
        self._given[producer_id] = node
        for block, host in self._blocks:
            if producer_id in block and host != self._story.cluster.host(node):
                self._problem(f"producer id {producer_id} was given out by node {node} and is of a block of {host}")

    def _answered(self, asked: TappedRequest, body: memoryview) -> None:
        if asked.api_key != ApiKey.ALLOCATE_PRODUCER_IDS:
            return
        response = AllocateProducerIdsResponse.decode(body, asked.version)
        if response.error_code:
            return
        block = range(response.producer_id_start, response.producer_id_start + response.producer_id_len)
        for other, host in self._blocks:
            if block.start < other.stop and other.start < block.stop:
                self._problem(f"producer ids {block} were given to {asked.source}, and {other} to {host}")
        for producer_id, node in self._given.items():
            if producer_id in block and asked.source != self._story.cluster.host(node):
                self._problem(f"producer ids {block} were given to {asked.source}, and {producer_id} out by node {node}")
        self._blocks.append((block, asked.source))

    # -- what is decided -------------------------------------------------------------------------------------------------------------

    def published(self, node: int, image: MetadataImage) -> None:
        """A node has read on in the metadata."""
        before, now = self._read.get(node, {}), image.topics.by_name
        for name, topic in now.items():
            former = before.get(name)
            if former is topic:
                continue
            known = former.partitions if former is not None and former.topic_id == topic.topic_id else {}
            for number, partition in topic.partitions.items():
                if wrong := _wrong_with(partition, known.get(number)):
                    self._problem(f"{name}-{number} is {partition} at offset {image.offset} on node {node}: {wrong}")
        self._read[node] = dict(now)

    # -- at the end ------------------------------------------------------------------------------------------------------------------

    async def compare_at_the_end(self) -> None:
        """Compares what was confirmed with the metadata, and the controllers with each other and with their logs."""
        cluster = self._story.cluster
        nodes = [kraft for node in cluster.ids if (kraft := cluster.kraft(node)) is not None]
        try:
            await cluster.wait_until(lambda: _are_level(nodes), 30, what="all nodes have read the same metadata")
        except TimeoutError as error:
            self._story.problem("liveness", str(error))
            return
        self._compare_with_metadata(nodes[0])
        first = nodes[0].image
        for kraft in nodes[1:]:
            if (kraft.image.topics, kraft.image.cluster, kraft.image.configs) != (first.topics, first.cluster, first.configs):
                self._problem(f"the images of nodes {nodes[0].node_id} and {kraft.node_id} differ at offset {first.offset}")
        for kraft in nodes:
            if kraft.controller is not None and _comparable(kraft.controller.core) != _comparable(self._replay(kraft)):
                self._problem(f"the controller's state on node {kraft.node_id} is not what its log says")

    def _compare_with_metadata(self, kraft: KRaftNode) -> None:
        image = kraft.image
        for name, (topic_id, partitions) in self._topics.items():
            topic = image.topics.by_name.get(name)
            if topic is None:
                self._problem(f"the topic {name}, which was created, is not there")
            elif topic.topic_id != topic_id:
                self._problem(f"the topic {name} has another id")
            elif len(topic.partitions) < partitions:
                self._problem(f"the topic {name} has {len(topic.partitions)} partitions, not {partitions}")
            if name in self._configs and name not in self._unsure:
                value = image.configs.topic(name).get("retention.ms")
                if value != str(_RETENTION + self._configs[name]):
                    self._problem(f"retention.ms of {name} is {value}, changed to {_RETENTION + self._configs[name]}")
        for topic_id in self._deleted & image.topics.by_id.keys():
            self._problem(f"the topic {image.topics.topic_name(topic_id)}, which was deleted, is there")

    def _replay(self, kraft: KRaftNode) -> QuorumControllerCore:
        """A controller which reads the node's log from its beginning."""
        core = QuorumControllerCore(self._story.cluster.config(kraft.node_id), kraft.cluster_id, self._story.rng("replay"), UndoJournal())
        log = kraft.log
        offset = log.start_offset
        latest = log.latest_snapshot()
        if latest is not None and latest != BOOTSTRAP_SNAPSHOT_ID:
            for batch in log.read_snapshot(latest):
                for record in batch.records:
                    core.replay(record.message, latest.offset - 1)
            offset = latest.offset
        while offset < kraft.high_watermark:
            data = log.read(offset, up_to=kraft.high_watermark)
            for batch in decode_batches(data):
                if batch.base_offset >= offset:
                    for index, each in enumerate(batch.records):
                        core.replay(each.message, batch.base_offset + index)
            offset = next_offset_after(data, offset)
        return core


def _wrong_with(partition: PartitionRegistration, before: PartitionRegistration | None) -> str:
    """What contradicts itself, or what the node has read before; "" for a partition as it should be."""
    replicas, isr, elr = set(partition.replicas), set(partition.isr), set(partition.elr)
    if partition.leader != NO_LEADER and partition.leader not in isr:
        return "its leader is not in sync"
    if not isr | elr | set(partition.last_known_elr) <= replicas:
        return "who may lead it is no replica"
    if isr & elr:
        return "in sync, and eligible without being so"
    if before is not None and partition.leader_epoch == before.leader_epoch and partition.leader != before.leader:
        return f"another leader in the epoch of {before}"
    if before is not None and (partition.leader_epoch < before.leader_epoch or partition.partition_epoch < before.partition_epoch):
        return f"an epoch went back from {before}"
    return ""


def _comparable(core: QuorumControllerCore) -> object:
    """The state, without the offsets of registrations, which snapshots do not hold."""
    features, brokers, _, *rest = core.state.comparable()
    return features, brokers, *rest


def _are_level(nodes: list[KRaftNode]) -> bool:
    ends = {node.image.offset for node in nodes}
    return len(ends) == 1 and len({node.high_watermark for node in nodes}) == 1
