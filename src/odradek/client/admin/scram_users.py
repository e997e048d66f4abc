"""Admin calls for SCRAM credentials of users."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence

from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.client.admin.asking import Peer
from odradek.client.admin.base import AdminBase
from odradek.client.admin.items import Outcomes, outcome, results
from odradek.client.admin.per_item import raising_only
from odradek.client.admin.types.security import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from odradek.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from odradek.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

_SALT_LENGTH = 32
_DIGESTS = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}


def describe_scram_request(users: Iterable[str] | None) -> DescribeUserScramCredentialsRequest:
    """Build the request; None asks for all users."""
    names = None if users is None else [DescribeUserScramCredentialsRequest.UserName(name=each) for each in users]
    return DescribeUserScramCredentialsRequest(users=names)


def described_scram(response: DescribeUserScramCredentialsResponse) -> Outcomes[str, list[ScramCredentialInfo]]:
    """Return the credentials, or the error, of every user. Raises KafkaError when the broker refused the request."""
    if response.error_code:
        raise KafkaError(code_of(response.error_code), response.error_message or "SCRAM credentials")
    return {
        each.user: outcome(each.error_code, each.error_message, f"user {each.user}")
        or [ScramCredentialInfo(ScramMechanism(info.mechanism), info.iterations) for info in each.credential_infos]
        for each in response.results
    }


def salted_password(mechanism: ScramMechanism, password: str | bytes, salt: bytes, iterations: int) -> bytes:
    """Return the salted password from which the server derives its keys (RFC 5802: Hi)."""
    secret = password.encode() if isinstance(password, str) else password
    return hashlib.pbkdf2_hmac(_DIGESTS[mechanism], secret, salt, iterations)


def alter_scram_request(
    alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion], salts: Mapping[UserScramCredentialUpsertion, bytes]
) -> AlterUserScramCredentialsRequest:
    """Build the request that sets and deletes credentials; `salts` has the salt of each credential to set."""
    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = []
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = []
    for each in alterations:
        if isinstance(each, UserScramCredentialDeletion):
            deletions.append(AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=each.user, mechanism=each.mechanism))
            continue
        salt = salts[each]
        upsertions.append(
            AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
                name=each.user,
                mechanism=each.mechanism,
                iterations=each.iterations,
                salt=salt,
                salted_password=salted_password(each.mechanism, each.password, salt, each.iterations),
            )
        )
    return AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)


def altered_scram(response: AlterUserScramCredentialsResponse) -> Outcomes[str, None]:
    """Return None or the error of every user."""
    return {each.user: outcome(each.error_code, each.error_message, f"user {each.user}") for each in response.results}


class ScramUserCalls(AdminBase):
    """Part of `AsyncAdmin` for SCRAM credentials."""

    async def try_describe_user_scram_credentials(self, users: Iterable[str] | None = None) -> Outcomes[str, list[ScramCredentialInfo]]:
        """Return the SCRAM credentials of users, by default of all. Error of a user without credentials: RESOURCE_NOT_FOUND."""
        wanted = None if users is None else list(dict.fromkeys(users))
        if wanted is not None and not wanted:
            return {}  # The broker takes an empty list for all users.

        async def ask(peer: Peer) -> Outcomes[str, list[ScramCredentialInfo]]:
            return described_scram(await peer.call(describe_scram_request(wanted), DescribeUserScramCredentialsResponse))

        return await self._any_broker("describing SCRAM credentials", ask)

    async def describe_user_scram_credentials(self, users: Iterable[str] | None = None) -> dict[str, list[ScramCredentialInfo]]:
        """Return the SCRAM credentials of users, by default of all. Raises the KafkaError of the first user without credentials."""
        return results(await self.try_describe_user_scram_credentials(users))

    async def try_alter_user_scram_credentials(
        self, alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion]
    ) -> Outcomes[str, None]:
        """Set and delete SCRAM credentials. One call takes one alteration per user: DUPLICATE_RESOURCE for a user with two.

        Other errors of a user: UNACCEPTABLE_CREDENTIAL for too few or too many iterations, RESOURCE_NOT_FOUND for a missing credential to
        delete. An empty password raises KafkaError(UNACCEPTABLE_CREDENTIAL) before anything is sent.
        """
        wanted = list(alterations)
        salts = {
            each: secrets.token_bytes(_SALT_LENGTH) if each.salt is None else each.salt
            for each in wanted
            if isinstance(each, UserScramCredentialUpsertion)
        }
        for each in salts:
            if not each.password:
                raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"the password of user {each.user} must not be empty")

        async def ask(peer: Peer, users: Sequence[str]) -> Outcomes[str, None]:
            asked = set(users)
            request = alter_scram_request([each for each in wanted if each.user in asked], salts)
            return altered_scram(await peer.call(request, AlterUserScramCredentialsResponse))

        return await self._at_controller((each.user for each in wanted), ask, name=lambda user: f"user {user}")

    alter_user_scram_credentials = raising_only(try_alter_user_scram_credentials)
