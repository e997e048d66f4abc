"""SCRAM credentials of users (org.apache.kafka.controller.ScramControlManager, KIP-554). Keys are stored, passwords are not."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core.context import ControllerContext
from odradek.controller.core.result import ControllerResult, VersionedRecord
from odradek.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from odradek.protocol.messages.metadata_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from odradek.security.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM_MECHANISMS, keys_of

SCRAM_SINCE = 11
"""metadata.version 3.5-IV2, since which credential records exist."""

Result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion

_TWICE = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")


def alter_user_scram_credentials(
    context: ControllerContext, request: AlterUserScramCredentialsRequest, version: int
) -> ControllerResult[AlterUserScramCredentialsResponse]:
    """Set and delete SCRAM credentials; each user succeeds or fails independently (AlterUserScramCredentials, 51).

    ACL: ALTER on Cluster. Quota: request time.
    """
    problems: dict[str, tuple[ErrorCode, str]] = {}
    deletions: dict[str, Deletion] = {}
    upsertions: dict[str, Upsertion] = {}
    for deletion in request.deletions:
        if deletion.name not in problems:
            problem = _TWICE if deletions.pop(deletion.name, None) else _deletion_problem(context, deletion)
            if problem is None:
                deletions[deletion.name] = deletion
            else:
                problems[deletion.name] = problem
    for upsertion in request.upsertions:
        if upsertion.name not in problems:
            twice = upsertions.pop(upsertion.name, None) or deletions.pop(upsertion.name, None)
            problem = _TWICE if twice else _upsertion_problem(context, upsertion)
            if problem is None:
                upsertions[upsertion.name] = upsertion
            else:
                problems[upsertion.name] = problem
    records = [VersionedRecord(RemoveUserScramCredentialRecord(name=each.name, mechanism=each.mechanism), 0) for each in deletions.values()]
    records += [VersionedRecord(_record(each), 0) for each in upsertions.values()]
    response = AlterUserScramCredentialsResponse(results=[Result(user=name, error_message=None) for name in [*deletions, *upsertions]])
    response.results += [Result(user=name, error_code=code, error_message=message) for name, (code, message) in problems.items()]
    return ControllerResult(records, response, atomic=True)


def _deletion_problem(context: ControllerContext, deletion: Deletion) -> tuple[ErrorCode, str] | None:
    problem = _problem(context, deletion.name, deletion.mechanism)
    if problem is None and (deletion.mechanism, deletion.name) not in context.state.scram:
        return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
    return problem


def _upsertion_problem(context: ControllerContext, upsertion: Upsertion) -> tuple[ErrorCode, str] | None:
    problem = _problem(context, upsertion.name, upsertion.mechanism)
    if problem is None and upsertion.iterations < MIN_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if problem is None and upsertion.iterations > MAX_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    return problem


def _problem(context: ControllerContext, name: str, mechanism: int) -> tuple[ErrorCode, str] | None:
    if context.state.metadata_version < SCRAM_SINCE:
        return ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM"
    if not name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if mechanism not in SCRAM_MECHANISMS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    return None


def _record(upsertion: Upsertion) -> UserScramCredentialRecord:
    mechanism = SCRAM_MECHANISMS[upsertion.mechanism]
    keys = keys_of(mechanism, bytes(upsertion.salted_password), bytes(upsertion.salt), upsertion.iterations)
    return UserScramCredentialRecord(
        name=upsertion.name,
        mechanism=upsertion.mechanism,
        salt=keys.salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=keys.iterations,
    )


def alter_user_scram_credentials_error(request: AlterUserScramCredentialsRequest, error: KafkaError) -> AlterUserScramCredentialsResponse:
    """Return a response with `error` for every user of the request."""
    names = dict.fromkeys([*[each.name for each in request.deletions], *[each.name for each in request.upsertions]])
    return AlterUserScramCredentialsResponse(
        results=[Result(user=name, error_code=error.code, error_message=error.message) for name in names]
    )
