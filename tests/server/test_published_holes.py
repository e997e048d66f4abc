"""Holes of Kafka and its kin that were published and concern logins: each is tried here (CVE numbers in the names of the cases)."""

from __future__ import annotations

import asyncio
import hmac
import logging
import struct
from collections.abc import Callable

import pytest

from odradek.base.errors import ConfigError, ErrorCode
from odradek.config.broker import standalone_config
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.config.sasl import SIGNED_HANDLER
from odradek.controller.core.scram import alter_user_scram_credentials
from odradek.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from odradek.security.sasl import server as plain
from odradek.security.sasl.errors import SaslError
from odradek.security.sasl.scram_client import ScramClient
from odradek.security.sasl.server import PlainServer
from odradek.server.security.sasl_session import Outcome, SaslSession
from odradek.server.start.process import run_loop
from tests.config.sasl_support import ALLOWED_URLS, BEARER, HANDLER, LISTENERS, PLAIN, URL
from tests.controller.harness import Controller
from tests.network.support import peer
from tests.security.bearer_support import signed, unsigned, validate
from tests.security.sasl_support import finals, made, other_nonce, server_of
from tests.server.authentication_support import log_in, serving
from tests.server.hostile_support import uvarint
from tests.server.sasl_support import handshake, put, said, token
from tests.server.support import request

NONE_SIGNED = unsigned()
WRONG_ISSUER = signed(iss="https://evil")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack(">i", 100 << 20), id="CVE-2022-34917: a large message is announced"),
        pytest.param(struct.pack(">i", 512 * 1024 + 1) + b"x" * 1000, id="CVE-2022-34917: a large message begins"),
        pytest.param(
            struct.pack(">i", 400_000) + (request(18, 3, b"\x02a\x02b" + uvarint(20_000_000)) + b"\0" * 400_000)[:400_000],
            id="CVE-2026-111115: millions of tagged fields",
        ),
    ],
)
def test_strangers_get_no_memory(data: bytes) -> None:
    async def main() -> None:
        async with serving() as served, peer(served.sasl) as hostile, peer(served.sasl) as neighbour:
            hostile.writer.write(data)
            assert await hostile.closed()
            assert served.acceptor.pool.in_use <= 1 << 20
            assert (await log_in(neighbour)).error_code == 0

    run_loop(asyncio.wait_for(main(), 30))


def test_cve_2017_12610_alice_is_not_let_in_as_bob() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving(delay_s=0.1) as served, peer(served.sasl) as client:
            begin = loop.time()
            answer = await log_in(client, b"bob\0alice\0secret")
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert loop.time() - begin >= 0.1
            assert await client.closed()

    run_loop(asyncio.wait_for(main(), 30))


def test_cve_2024_56128_the_final_nonce_is_the_servers() -> None:
    server = server_of({"user": made()})
    session = SaslSession(("SCRAM-SHA-256",), {}, lambda _: server)
    put(session, handshake("SCRAM-SHA-256"))
    step = put(session, token(other_nonce(finals(server))))
    assert step.outcome is Outcome.FAILED
    assert said(SaslAuthenticateResponse, step, 2).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("bearer", [pytest.param(NONE_SIGNED, id="CVE-2026-33557"), pytest.param(WRONG_ISSUER, id="CVE-2026-110985")])
def test_a_token_is_signed_by_the_provider(bearer: str) -> None:
    with pytest.raises(Exception, match=r"algorithm|issuer"):
        validate(bearer)


def test_cve_2026_33557_nobody_starts_without_keys() -> None:
    for settings in (BEARER, {**BEARER, HANDLER: SIGNED_HANDLER}):
        with pytest.raises(ConfigError, match="is missing"):
            standalone_config({**LISTENERS, **settings})


@pytest.mark.parametrize("url", ["file:/etc/passwd", "http://169.254.169.254/latest", "https://inside/keys"])
def test_cve_2025_27817_only_what_is_allowed_is_read(url: str) -> None:
    with pytest.raises(ConfigError, match="cannot be accessed due to restrictions"):
        standalone_config({**LISTENERS, **BEARER, HANDLER: SIGNED_HANDLER, URL: url, ALLOWED_URLS: "https://issuer/keys"})


MODULES = ["com.sun.security.auth.module.JndiLoginModule", "com.sun.security.auth.module.LdapLoginModule", "org.example.PlainLoginModule"]
JAAS = "listener.name.out.plain.sasl.jaas.config"


@pytest.mark.parametrize("module", MODULES)
def test_cve_2023_25194_and_2025_27818_no_other_module_is_loaded(module: str) -> None:
    line = f'{module} required user_a="x";'
    with pytest.raises(ConfigError, match="must name the login module"):
        standalone_config({**LISTENERS, **PLAIN, JAAS: line})
    with pytest.raises(ConfigError):
        DynamicBrokerConfig(standalone_config({**LISTENERS, **PLAIN})).check({JAAS: line}, for_node=True)


def test_cve_2021_38153_secrets_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    digest: Callable[[bytes, bytes], bool] = hmac.compare_digest

    def counted(left: bytes, right: bytes) -> bool:
        compared.append(1)
        return digest(left, right)

    monkeypatch.setattr(plain.hmac, "compare_digest", counted)
    for message in (b"\0alice\0wrong", b"\0nobody\0wrong"):
        with pytest.raises(SaslError):
            PlainServer({"alice": "secret"}).answer(message)
    assert len(compared) == 2, "a user who does not exist costs the same"
    server = server_of({"user": made()})
    server.answer(finals(server))
    assert len(compared) > 3


def test_cve_2026_33558_no_log_has_the_password(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def main() -> None:
        async with serving() as served, peer(served.sasl) as one, peer(served.sasl) as two:
            await log_in(one, b"\0alice\0secret")
            await log_in(two, b"\0alice\0hush-hush")

    run_loop(asyncio.wait_for(main(), 30))
    assert not any(word in record.getMessage() for record in caplog.records for word in ("secret", "hush-hush"))


def test_cve_2026_10143_nobody_is_kept_busy_with_iterations() -> None:
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name="a", mechanism=1, iterations=2**31 - 1, salt=b"s", salted_password=b"p"
    )
    answer = Controller().ask(alter_user_scram_credentials, AlterUserScramCredentialsRequest(upsertions=[upsertion]))
    assert answer.results[0].error_code == ErrorCode.UNACCEPTABLE_CREDENTIAL
    client = ScramClient("SCRAM-SHA-256", "a", "p", "nonce")
    client.first()
    with pytest.raises(SaslError, match="iterations"):
        client.answer(b"r=nonce-of-the-server,s=c2FsdA==,i=999999999")
