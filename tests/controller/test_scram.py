"""SCRAM credentials in the controller, and those that a cluster is formatted with."""

from __future__ import annotations

import base64

import pytest

from odradek.base.errors import ErrorCode
from odradek.controller.core.scram import alter_user_scram_credentials
from odradek.controller.scram_arguments import ScramArgumentError, scram_records
from odradek.metadata.features import METADATA_VERSION
from odradek.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from odradek.protocol.messages.metadata_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from odradek.security.sasl.scram import keys_of, salted_password
from tests.controller.harness import Controller, level_records

SALT = b"some salt"
SALTED = salted_password("SCRAM-SHA-256", "secret", SALT, 4096)
Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion


def setting(name: str, mechanism: int = 1, iterations: int = 4096) -> Upsertion:
    return Upsertion(name=name, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=SALTED)


def ask(controller: Controller, *changes: Deletion | Upsertion) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, Deletion)],
        upsertions=[each for each in changes if isinstance(each, Upsertion)],
    )
    response = controller.ask(alter_user_scram_credentials, request)
    return {each.user: (each.error_code, each.error_message) for each in response.results}


def test_what_is_kept_of_a_password_is_its_keys() -> None:
    controller = Controller()
    assert ask(controller, setting("alice")) == {"alice": (0, None)}
    record = controller.log[-1].message
    keys = keys_of("SCRAM-SHA-256", SALTED, SALT, 4096)
    assert isinstance(record, UserScramCredentialRecord)
    assert (record.name, record.mechanism, record.iterations) == ("alice", 1, 4096)
    assert (record.salt, record.stored_key, record.server_key) == keys[:3]
    assert ask(controller, setting("alice", 2)) == {"alice": (0, None)}
    assert ask(controller, Deletion(name="alice", mechanism=1)) == {"alice": (0, None)}
    assert isinstance(controller.log[-1].message, RemoveUserScramCredentialRecord)
    assert dict(controller.core.context.state.scram.items()) == {(2, "alice"): True}


TWICE = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ([setting("")], {"": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")}),
        ([setting("a", 0)], {"a": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")}),
        ([setting("a", 3)], {"a": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")}),
        ([setting("a", 1, 4095)], {"a": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")}),
        ([setting("a", 2, 16385)], {"a": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")}),
        ([setting("a", 2, 16384)], {"a": (0, None)}),
        (
            [Deletion(name="a", mechanism=1)],
            {"a": (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")},
        ),
        ([setting("a"), setting("a", 2)], {"a": TWICE}),
        ([setting("a"), setting("a", 2), setting("a", 2)], {"a": TWICE}),
        ([Deletion(name="there", mechanism=1), setting("there", 2)], {"there": TWICE}),
        ([Deletion(name="there", mechanism=1), Deletion(name="there", mechanism=1)], {"there": TWICE}),
        ([setting("b"), setting("a", 9)], {"b": (0, None), "a": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")}),
        ([], {}),
    ],
)
def test_each_user_has_an_answer_of_its_own(changes: list[Deletion | Upsertion], answer: dict[str, tuple[int, str | None]]) -> None:
    controller = Controller()
    ask(controller, setting("there"))
    before = len(controller.log)
    assert ask(controller, *changes) == answer
    assert len(controller.log) - before == sum(not code for code, _ in answer.values())


def test_an_old_cluster_has_no_credentials() -> None:
    controller = Controller()
    controller.append(level_records({METADATA_VERSION: 10}))
    told = (ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
    assert ask(controller, setting("a"), Deletion(name="b", mechanism=1)) == {"a": told, "b": told}


def zeros(size: int) -> bytes:
    return b"\0" * size


def test_credentials_of_a_new_cluster() -> None:
    salt, salted = base64.b64encode(SALT).decode(), base64.b64encode(SALTED).decode()
    arguments = [
        "SCRAM-SHA-256=[name=alice,password=secret]",
        'SCRAM-SHA-512=[name="b=b", iterations=8192,password=" x "]',
        f"SCRAM-SHA-256=[name=carol,salt={salt},saltedpassword={salted}]",
    ]
    first, second, third = [each.message for each in scram_records(arguments, zeros)]
    assert isinstance(first, UserScramCredentialRecord)
    assert isinstance(second, UserScramCredentialRecord)
    assert isinstance(third, UserScramCredentialRecord)
    made = keys_of("SCRAM-SHA-256", salted_password("SCRAM-SHA-256", "secret", zeros(16), 4096), zeros(16), 4096)
    assert (first.name, first.mechanism, first.salt, first.stored_key, first.server_key, first.iterations) == ("alice", 1, *made)
    assert (second.name, second.mechanism, second.iterations) == ("b=b", 2, 8192)
    assert third.stored_key == keys_of("SCRAM-SHA-256", SALTED, SALT, 4096).stored_key


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("SCRAM-SHA-256", "Failed to find equals sign"),
        ("SCRAM-SHA-1=[name=a,password=hush]", "The add-scram mechanism SCRAM-SHA-1 is not supported."),
        ("SCRAM-SHA-256=name=a,password=hush", "Expected configuration string to start with ["),
        ("SCRAM-SHA-256=[name=a,password=hush", "Expected configuration string to end with ]"),
        ("SCRAM-SHA-256=[password=hush]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=aHVzaA==]", "You must supply 'salt' with 'saltedpassword' to add-scram"),
        (
            "SCRAM-SHA-256=[name=a,password=hush,iterations=4095]",
            "The 'iterations' value must be >= 4096 for add-scram using SCRAM-SHA-256",
        ),
        (
            "SCRAM-SHA-512=[name=a,password=hush,iterations=16385]",
            "The 'iterations' value must be <= 16384 for add-scram using SCRAM-SHA-512",
        ),
        ("SCRAM-SHA-256=[name=a,password=hush,iterations=many]", "Failed to parse iterations count: many"),
        ("SCRAM-SHA-256=[name=a,password=hush,salt=???]", "Failed to decode given salt"),
        ("SCRAM-SHA-256=[name=a,password=hush,colour=blue]", "Unknown SCRAM configurations: colour"),
        ("SCRAM-SHA-256=[name=a,hush]", "No equals sign found"),
    ],
)
def test_a_credential_that_makes_no_sense(argument: str, message: str) -> None:
    with pytest.raises(ScramArgumentError) as error:
        scram_records([argument], zeros)
    assert message in str(error.value)
    assert "hush" not in str(error.value)
