"""View of the cluster of a broker: the last image published to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.metadata.image import MetadataImage
    from odradek.metadata.registrations import BrokerRegistration


class MetadataCache:
    """Holder of the current immutable image. Read `image` once per request, so that a response describes one state of the cluster.

    The cache also decides which brokers clients see. A broker whose process is gone is fenced here long before the end of its session, but
    clients rely on the longer time. librdkafka forgets an unlisted broker, and requests that wait for its return wait in vain. So a fenced
    broker stays listed for the length of a session. A broker that has announced its shutdown is removed at once.
    """

    __slots__ = ("_linger_s", "_listed_until_s", "image")

    def __init__(self, image: MetadataImage, linger_s: float = 0.0) -> None:
        """`linger_s`: broker.session.timeout.ms in seconds when brokers are fenced before the end of their session, else 0."""
        self.image = image
        self._linger_s = linger_s
        self._listed_until_s: dict[int, float] = {}
        """Fenced broker -> monotonic seconds until which it is listed."""

    def publish(self, image: MetadataImage, now_s: float) -> None:
        """Take the next image. `now_s`: monotonic seconds."""
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
        """Return the brokers that clients see, sorted by id."""
        brokers, listed = self.image.cluster.brokers, self._listed_until_s
        if not listed:
            return list(self.image.cluster.alive_brokers())
        return [brokers[each] for each in sorted(brokers) if not brokers[each].fenced or listed.get(each, now_s) > now_s]
