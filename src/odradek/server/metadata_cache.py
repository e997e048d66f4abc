"""The broker's view of the cluster: the last image that was published to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.metadata.image import MetadataImage
    from odradek.metadata.registrations import BrokerRegistration


class MetadataCache:
    """Holds the current immutable image. Read `image` once per request, so that one answer comes from one state of the cluster.

    It also knows which brokers clients are told of. A broker whose process is gone is fenced here long before its session would end, and
    clients count on the longer time: librdkafka forgets a broker that is not listed any more, and requests that wait for it to come back
    wait in vain. So a broker stays listed for the time of a session after it was fenced. One that has announced its end goes at once.
    """

    __slots__ = ("_linger_s", "_listed_until_s", "image")

    def __init__(self, image: MetadataImage, linger_s: float = 0.0) -> None:
        """`linger_s`: broker.session.timeout.ms, where brokers are fenced before that is over."""
        self.image = image
        self._linger_s = linger_s
        self._listed_until_s: dict[int, float] = {}
        """Of fenced brokers."""

    def publish(self, image: MetadataImage, now_s: float) -> None:
        """Takes the next image, at a time of the monotonic clock in seconds."""
        before, self.image = self.image.cluster.brokers, image
        brokers = image.cluster.brokers
        if brokers is before:
            return
        self._listed_until_s = {
            broker_id: until_s
            for broker_id, until_s in self._listed_until_s.items()
            if until_s > now_s and broker_id in brokers and brokers[broker_id].fenced
        }
        for broker_id, former in before.items():
            broker = brokers.get(broker_id)
            if broker is not None and broker.fenced and not former.fenced and not former.in_controlled_shutdown:
                self._listed_until_s[broker_id] = now_s + self._linger_s

    def listed(self, now_s: float) -> list[BrokerRegistration]:
        """The brokers that clients are told of, by id."""
        brokers, listed = self.image.cluster.brokers, self._listed_until_s
        if not listed:
            return list(self.image.cluster.alive_brokers())
        return [brokers[each] for each in sorted(brokers) if not brokers[each].fenced or listed.get(each, now_s) > now_s]
