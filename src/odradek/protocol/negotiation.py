"""Choice of request versions: the highest that both sides know (KIP-35), after one exchange per connection (KIP-511)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

NEWEST_API_VERSIONS = 4
"""Version of ApiVersions that is tried first."""


class ApiVersionTable:
    """Version ranges that one node has announced."""

    __slots__ = ("features", "node", "ranges")

    def __init__(self, ranges: Mapping[int, tuple[int, int]]) -> None:
        self.ranges: dict[int, tuple[int, int]] = dict(ranges)
        self.node = "the broker"
        """Name of the node in errors."""
        self.features: dict[str, int] = {}
        """Levels of the cluster's features, as far as the node has announced them (KIP-584)."""

    @classmethod
    def announced(cls, api_keys: Iterable[tuple[int, int, int]]) -> ApiVersionTable:
        """Return the table of (key, minimum, maximum), as an ApiVersions response lists them."""
        return cls({key: (low, high) for key, low, high in api_keys})

    def supports(self, api_key: ApiKey, version: int) -> bool:
        """Return whether the node supports this version of the API."""
        low, high = self.ranges.get(api_key, (0, -1))
        return low <= version <= high

    def choose(self, api_key: ApiKey, *, at_most: int | None = None, at_least: int = 0) -> int:
        """Return the highest version that both sides support, within the caller's bounds.

        Raises KafkaError UNSUPPORTED_VERSION, naming the API and both ranges, without a common version.
        """
        ours_low, ours_high = own_range(api_key)
        ours_high = max(ours_high, at_least)  # A version that is not stable yet is sent if the caller asks for it.
        low, high = max(ours_low, at_least), ours_high if at_most is None else min(ours_high, at_most)
        announced = self.ranges.get(api_key)
        if announced is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{self.node} does not support {api_key.name}")
        version = min(high, announced[1])
        if version < max(low, announced[0]):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self.node} supports {api_key.name} {announced[0]} to {announced[1]}, this client needs a version from {low} to {high}",
            )
        return version


def own_range(api_key: ApiKey) -> tuple[int, int]:
    """Return the versions of the API that this client sends: all stable ones."""
    info = API_INFO[api_key]
    return info.min_version, info.max_version - 1 if info.latest_version_unstable else info.max_version


class Negotiation:
    """First exchange on a connection. A node that does not know the newest ApiVersions names its own version, and is asked again.

    negotiation = Negotiation("1.0")
    while (table := negotiation.answered(send(ApiKey.API_VERSIONS, negotiation.version, negotiation.question()))) is None: ...
    """

    __slots__ = ("_software_version", "version")

    def __init__(self, software_version: str) -> None:
        self._software_version = software_version
        self.version = NEWEST_API_VERSIONS
        """Version of the request to send."""

    def question(self) -> bytes:
        """Return the body of the ApiVersions request, in `version`."""
        request = ApiVersionsRequest(client_software_name="odradek", client_software_version=self._software_version)
        return request.encode(self.version)

    def answered(self, body: memoryview) -> ApiVersionTable | None:
        """Return the node's version ranges, or None: ask again, in the new `version`.

        Raises KafkaError when the node answers with an error, ProtocolError for a malformed response.
        """
        if bytes(body[:2]) == b"\x00\x23":
            # UNSUPPORTED_VERSION comes in version 0, whatever the version of the request.
            refused = ApiVersionsResponse.decode(body, 0)
            highest = max((entry.max_version for entry in refused.api_keys if entry.api_key == ApiKey.API_VERSIONS), default=0)
            if self.version == 0 or highest >= self.version:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the broker refuses all versions of ApiVersions")
            self.version = highest
            return None
        response = ApiVersionsResponse.decode(body, self.version)
        if response.error_code:
            raise KafkaError(code_of(response.error_code), "ApiVersions")
        table = ApiVersionTable.announced((entry.api_key, entry.min_version, entry.max_version) for entry in response.api_keys)
        table.features = {feature.name: feature.max_version_level for feature in response.finalized_features}
        return table
