"""Reports to the controller in which log directory each replica of this broker lies (AssignmentsManager, KIP-858).

One AssignReplicasToDirs request is under way at a time, with all assignments that wait by then. Failed assignments are sent again with
growing pauses. An assignment completes without a request when the metadata shows it already, or when this broker has lost the replica. The
metadata of this broker may be older than the last request. Until the metadata shows the last request, an assignment is compared with that
request. Otherwise a replica could keep the wrong directory: a replica that is assigned back because the directory it was to move to has
failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple, cast
from uuid import UUID

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.base.ids import TopicIdPartition, TopicPartition
from odradek.base.timing import Alarm, Backoff
from odradek.handlers.scopes import TO_CONTROLLER
from odradek.metadata.features import directory_assignment_supported
from odradek.server.cluster.channel import InterBrokerChannel

if TYPE_CHECKING:
    from odradek.metadata.image import MetadataImage
    from odradek.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
    from odradek.protocol.schema import Message
    from odradek.replication.metadata_changes import Changed

logger = logging.getLogger(__name__)

MOST_IN_A_REQUEST = 2250
"""Most assignments in one request (AssignReplicasToDirsRequest.MAX_ASSIGNMENTS_PER_REQUEST)."""
_FIRST_RETRY_MS, _LONGEST_RETRY_MS = 100, 10_000

_Key = tuple[UUID, int]


class _Assignment(NamedTuple):
    partition: TopicIdPartition
    directory: UUID
    done: Deferred[None]


class AssignmentsManager:
    """Sender of assignments; `assign` implements `replication.future_replicas.AssignDirectory`."""

    def __init__(
        self,
        channel: InterBrokerChannel,
        clock: Clock,
        broker_id: int,
        broker_epoch: Callable[[], int],
        image: Callable[[], MetadataImage],
    ) -> None:
        """`image` returns the newest metadata that this broker knows."""
        self._channel = channel
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._image = image
        self._waiting: dict[_Key, _Assignment] = {}
        """Latest assignment of each replica that is not sent yet. The response to an earlier one under way completes only the earlier one.
        """
        self._sent: dict[_Key, UUID | None] = {}
        """Directories that were sent to the controller and that the metadata does not show yet; None where the request failed."""
        self._in_flight = False
        self._alarm = Alarm(clock, self._send)
        self._backoff = Backoff(_FIRST_RETRY_MS, _LONGEST_RETRY_MS)
        self._closed = False

    def assign(self, partition: TopicIdPartition, directory: UUID) -> Deferred[None]:
        """Return a Deferred that completes when the controller has the assignment.

        Fails with OPERATION_NOT_ATTEMPTED when an assignment of the same replica to another directory replaces this assignment first.
        """
        key = (partition.topic_id, partition.partition)
        earlier = self._waiting.pop(key, None)
        done: Deferred[None] = Deferred()
        self._waiting[key] = _Assignment(partition, directory, done)
        if earlier is not None:
            earlier.done.fail(KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, f"{partition} is assigned to another directory now"))
        if not self._in_flight and not self._alarm.is_set:
            self._alarm.set(0)
        return done

    def replicas_changed(self, leaders: Changed, followers: Changed, gone: Collection[TopicPartition]) -> None:
        """Forget the assignments sent for replicas that are gone: a replica that comes back is assigned again.

        A subscriber of `replication.metadata_changes.MetadataChanges.on_leadership`.
        """
        if gone:
            self._forget_shown()

    def close(self) -> None:
        """Send no further request; waiting assignments stay uncompleted."""
        self._closed = True
        self._alarm.close()

    def _send(self) -> None:
        if self._closed or self._in_flight:
            return
        self._forget_shown()
        sent: dict[_Key, _Assignment] = {}
        for key, assignment in list(self._waiting.items()):
            if self._waiting.get(key) is not assignment:
                continue  # a callback of a completed assignment has replaced it; the newer one waits for the next request
            if not self._is_news(assignment):
                del self._waiting[key]
                assignment.done.complete(None)
            elif len(sent) < MOST_IN_A_REQUEST:
                sent[key] = self._waiting.pop(key)
        if not sent:
            return
        self._in_flight = True
        self._sent |= {key: assignment.directory for key, assignment in sent.items()}
        request = self._request(list(sent.values()))
        self._channel.send(TO_CONTROLLER, request.API_KEY, request, 0).add_callback(lambda answer: self._answered(sent, answer))

    def _forget_shown(self) -> None:
        topics = self._image().topics
        for (topic_id, number), directory in list(self._sent.items()):
            registration = topics.partition_by_id(topic_id, number)
            here = registration is not None and self._broker_id in registration.replicas
            if registration is None or not here or registration.directory(self._broker_id) == directory:
                del self._sent[topic_id, number]

    def _is_news(self, assignment: _Assignment) -> bool:
        image = self._image()
        if not directory_assignment_supported(image.features.metadata_version or 0):
            return False
        key = (assignment.partition.topic_id, assignment.partition.partition)
        registration = image.topics.partition_by_id(*key)
        if registration is None or self._broker_id not in registration.replicas:
            return False
        return self._sent.get(key, registration.directory(self._broker_id)) != assignment.directory

    def _request(self, assignments: list[_Assignment]) -> AssignReplicasToDirsRequest:
        from odradek.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest

        directories: dict[UUID, AssignReplicasToDirsRequest.DirectoryData] = {}
        topics: dict[tuple[UUID, UUID], AssignReplicasToDirsRequest.TopicData] = {}
        for partition, directory, _ in assignments:
            entry = directories.get(directory)
            if entry is None:
                entry = directories[directory] = AssignReplicasToDirsRequest.DirectoryData(id=directory, topics=[])
            topic = topics.get((directory, partition.topic_id))
            if topic is None:
                topic = topics[directory, partition.topic_id] = AssignReplicasToDirsRequest.TopicData(
                    topic_id=partition.topic_id, partitions=[]
                )
                entry.topics.append(topic)
            topic.partitions.append(AssignReplicasToDirsRequest.PartitionData(partition_index=partition.partition))
        return AssignReplicasToDirsRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), directories=list(directories.values())
        )

    def _answered(self, sent: dict[_Key, _Assignment], answer: Deferred[Message]) -> None:
        self._in_flight = False
        failed = dict(sent)
        reason: object = answer.error
        if answer.error is None:
            response = cast("AssignReplicasToDirsResponse", answer.result())
            reason = code_of(response.error_code).name
            if response.error_code == ErrorCode.NONE:
                for directory in response.directories:
                    for topic in directory.topics:
                        for partition in topic.partitions:
                            key = (topic.topic_id, partition.partition_index)
                            if partition.error_code == ErrorCode.NONE and key in failed:
                                failed.pop(key).done.complete(None)
                            else:
                                reason = code_of(partition.error_code).name
        for key, assignment in failed.items():
            # The controller may have applied the assignment in spite of the failure.
            self._sent[key] = None
            if key in self._waiting:
                assignment.done.fail(
                    KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, f"{assignment.partition} is assigned to another directory now")
                )
            else:
                self._waiting[key] = assignment
        if failed:
            logger.warning("the controller did not accept %d log directory assignment(s) (%s); retrying later", len(failed), reason)
            self._alarm.set(self._backoff.next_s())
        else:
            self._backoff.reset()
            if self._waiting and not self._alarm.is_set:
                self._alarm.set(0)
