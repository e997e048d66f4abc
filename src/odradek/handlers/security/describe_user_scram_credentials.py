"""DescribeUserScramCredentials (50): SCRAM mechanisms for which users have credentials (KIP-554; org.apache.kafka.image.ScramImage).

ACL: DESCRIBE on Cluster. Quota: request time.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts

Result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
Credential = DescribeUserScramCredentialsResponse.CredentialInfo


def handle(
    context: RequestContext, request: DescribeUserScramCredentialsRequest, broker: BrokerParts
) -> DescribeUserScramCredentialsResponse:
    credentials = context.services.metadata.image.scram.credentials
    by_user: dict[str, list[DescribeUserScramCredentialsResponse.CredentialInfo]] = {}
    for (mechanism, user), credential in sorted(credentials.items()):
        by_user.setdefault(user, []).append(Credential(mechanism=mechanism, iterations=credential.iterations))
    asked = Counter([user.name for user in request.users]) if request.users else dict.fromkeys(by_user, 1)
    response = DescribeUserScramCredentialsResponse()
    for user, times in asked.items():
        result = Result(user=user)
        response.results.append(result)
        if times > 1:
            result.error_code = ErrorCode.DUPLICATE_RESOURCE
            result.error_message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        elif user not in by_user:
            result.error_code = ErrorCode.RESOURCE_NOT_FOUND
            result.error_message = f"Attempt to describe a user credential that does not exist: {user}"
        else:
            result.credential_infos = by_user[user]
    return response


def error_response(request: DescribeUserScramCredentialsRequest, error: KafkaError) -> DescribeUserScramCredentialsResponse:
    """Return the error at the top level and once per requested user, without user names."""
    results = [Result(error_code=error.code, error_message=error.message) for _ in request.users or ()]
    return DescribeUserScramCredentialsResponse(error_code=error.code, error_message=error.message, results=results)
