"""Which version of a request to send: the highest that both sides know (KIP-35)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.api_keys import API_INFO, ApiKey


class ApiVersionTable:
    """The version ranges that one node has announced."""

    __slots__ = ("ranges",)

    def __init__(self, ranges: Mapping[int, tuple[int, int]]) -> None:
        self.ranges: dict[int, tuple[int, int]] = dict(ranges)

    @classmethod
    def announced(cls, api_keys: Iterable[tuple[int, int, int]]) -> ApiVersionTable:
        """From (key, minimum, maximum) as an ApiVersions answer lists them."""
        return cls({key: (low, high) for key, low, high in api_keys})

    def supports(self, api_key: ApiKey, version: int) -> bool:
        """Whether the node serves this version of the API."""
        low, high = self.ranges.get(api_key, (0, -1))
        return low <= version <= high

    def choose(self, api_key: ApiKey, *, at_most: int | None = None, at_least: int = 0) -> int:
        """The highest version that both sides serve, within the caller's bounds.

        KafkaError(UNSUPPORTED_VERSION), naming the API and both ranges, when there is none.
        """
        ours_low, ours_high = own_range(api_key)
        low, high = max(ours_low, at_least), ours_high if at_most is None else min(ours_high, at_most)
        announced = self.ranges.get(api_key)
        if announced is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"the broker does not serve {api_key.name}")
        version = min(high, announced[1])
        if version < max(low, announced[0]):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the broker serves {api_key.name} {announced[0]} to {announced[1]}, this client needs one of {low} to {high}",
            )
        return version


def own_range(api_key: ApiKey) -> tuple[int, int]:
    """The versions of the API that this client sends: all stable ones."""
    info = API_INFO[api_key]
    return info.min_version, info.max_version - 1 if info.latest_version_unstable else info.max_version
