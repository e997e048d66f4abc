"""Mutated logins for the authentication of connections, in process.

    python -m tests.campaigns.sasl --count 200000 --seed 1

Each conversation is that of a client that knows a user's name but not the password: frames in and out of order, some of them valid, with
bits flipped, bytes deleted, inserted and overwritten, with every mechanism. Named checks:
  only-protocol-errors   a session answers, refuses, or raises ProtocolError (the connection closes);
  nobody-gets-in         no conversation ends with a principal;
  no-hang                no frame takes longer than the deadline;
  memory-bounded         the peak memory of the process grows by less than the limit.
A failure prints the conversation; `--seed` repeats the run.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import resource
import sys
import time
from dataclasses import dataclass

from joserfc.jwk import RSAKey

from odradek.base.errors import ProtocolError
from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.security.sasl.bearer_tokens import PublicKeys, Rules, validate_signed
from odradek.security.sasl.oauthbearer import OAuthBearerServer
from odradek.security.sasl.scram import ScramKeys
from odradek.security.sasl.scram_server import ScramServer
from odradek.security.sasl.server import PlainServer, ServerExchange
from odradek.server.security.sasl_session import Outcome, SaslSession, Step

DEADLINE = 0.5
MEMORY_GROWTH_LIMIT = 64 << 20
NOW_S = 1_700_000_000
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@dataclass
class Outcomes:
    """Results of a run."""

    conversations: int = 0
    frames: int = 0
    refused: int = 0
    closed: int = 0
    slowest: float = 0.0


class Server:
    """Sessions with every mechanism, and users with unknown passwords."""

    def __init__(self, rng: random.Random) -> None:
        key = RSAKey.generate_key(2048, {"kid": "key-1"})
        self._keys = PublicKeys(json.dumps({"keys": [key.as_dict(private=False)]}))
        self._users = {"alice": rng.randbytes(16).hex()}
        self._credential = ScramKeys(b"salt-salt", rng.randbytes(32), rng.randbytes(32), 4096)
        self._nonces = rng

    def session(self) -> SaslSession:
        return SaslSession(MECHANISMS, dict.fromkeys(MECHANISMS, 1000), self._exchange)

    def _exchange(self, mechanism: str) -> ServerExchange:
        if mechanism == "PLAIN":
            return PlainServer(self._users)
        if mechanism == "OAUTHBEARER":
            return OAuthBearerServer(lambda token: validate_signed(token, self._keys, Rules(), NOW_S, lambda _: None))
        users = {"alice": self._credential}
        return ScramServer(mechanism, users.get, f"nonce{self._nonces.getrandbits(64)}")


def token(rng: random.Random) -> bytes:
    claims = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + rng.choice((-100, 100, 1 << 40)), "scope": rng.choice(("a b", ["a"], None, 5))}
    header = {"alg": rng.choice(("none", "RS256", "HS256", "ES256", "PS512", None)), "kid": rng.choice(("key-1", "other", None, 7))}
    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in (header, claims)]
    return b".".join(parts) + b"." + rng.choice((b"", b"AAAA", base64.urlsafe_b64encode(rng.randbytes(256)).rstrip(b"=")))


def messages(rng: random.Random, mechanism: str, challenge: bytes) -> bytes:
    """Return a message that the mechanism could expect."""
    if mechanism == "PLAIN":
        return rng.choice((b"\0alice\0guess", b"alice\0alice\0guess", b"\0\0", b"\0nobody\0x"))
    if mechanism == "OAUTHBEARER":
        return rng.choice((b"n,,\x01auth=Bearer " + token(rng) + b"\x01\x01", b"\x01", b"n,a=alice,\x01auth=Bearer x\x01\x01"))
    if challenge.startswith(b"r="):
        nonce = challenge.split(b",")[0]
        proof = base64.b64encode(rng.randbytes(rng.choice((32, 64))))
        return b"c=biws," + nonce + b",p=" + proof
    return rng.choice((b"n,,n=alice,r=nonce", b"n,,n=alice,r=nonce,tokenauth=true", b"n,,n=nobody,r=x", b"n,a=alice,n=alice,r=y"))


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Return the data, mutated in half of the cases: otherwise conversations would not proceed."""
    changed = bytearray(data)
    while rng.random() < 0.5 and changed:
        at = rng.randrange(len(changed))
        action = rng.randrange(5)
        if action == 0:
            changed[at] ^= 1 << rng.randrange(8)
        elif action == 1:
            del changed[at : at + rng.randrange(1, 20)]
        elif action == 2:
            changed[at:at] = rng.randbytes(rng.randrange(1, 20))
        elif action == 3:
            changed[at : at + 4] = rng.choice((b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff"))
        else:
            changed[at:at] = changed[at : at + 50] * rng.randrange(1, 100)
    return bytes(changed)


def frame(rng: random.Random, mechanism: str, challenge: bytes) -> bytes:
    kind = rng.randrange(10)
    if kind == 0:
        body, key, version = MetadataRequest(topics=[]).encode(12), 3, 12
    elif kind == 1:
        body, key, version = ApiVersionsRequest().encode(0), 18, 0
    elif kind < 4:
        version = rng.randrange(2)
        body, key = SaslHandshakeRequest(mechanism=rng.choice((mechanism, mechanism, "GSSAPI"))).encode(version), 17
    else:
        version = rng.randrange(3)
        message = mutate(rng, messages(rng, mechanism, challenge))
        if kind == 9:
            return message
        body, key = SaslAuthenticateRequest(auth_bytes=message).encode(version), 36
    return mutate(rng, encode_request_header(key, version, 1, "hostile") + body)


def challenge_of(step: Step) -> bytes:
    """Return the server's SCRAM challenge, or b""."""
    answer = b"".join(step.answer or ())
    at = answer.find(b"r=nonce")
    return b"" if at < 0 else answer[at:].split(b"\0")[0]


def converse(rng: random.Random, server: Server, seen: Outcomes) -> None:
    session, mechanism, challenge = server.session(), rng.choice(MECHANISMS), b""
    said: list[bytes] = []
    opening = encode_request_header(17, 1, 1, "hostile") + SaslHandshakeRequest(mechanism=mechanism).encode(1)
    for turn in range(rng.randrange(1, 8)):
        data = opening if turn == 0 and rng.random() < 0.8 else frame(rng, mechanism, challenge)
        said.append(data)
        begin = time.perf_counter()
        try:
            step = session.frame(memoryview(data), NOW_S * 1000, 0.0)
        except ProtocolError:
            seen.closed += 1
            break
        except Exception as error:
            raise SystemExit(f"only-protocol-errors: {type(error).__name__}: {error}\n{said!r}") from error
        finally:
            seen.frames += 1
            seen.slowest = max(seen.slowest, time.perf_counter() - begin)
        if session.principal is not None or session.authenticated or step.outcome is Outcome.AUTHENTICATED:
            raise SystemExit(f"nobody-gets-in: {session.principal}\n{said!r}")
        if step.outcome is Outcome.VERSIONS:
            session.versions_answered(without_error=rng.random() < 0.8)
        elif step.outcome in (Outcome.FAILED, Outcome.OUT_OF_TURN):
            seen.refused += 1
            break
        challenge = challenge_of(step) or challenge
    seen.conversations += 1


def run(count: int, seed: int) -> Outcomes:
    """Run `count` conversations. Raises SystemExit with the conversation when a check fails."""
    rng = random.Random(seed)
    server, seen = Server(rng), Outcomes()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for _ in range(count):
        converse(rng, server, seen)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    if seen.slowest > DEADLINE:
        raise SystemExit(f"no-hang: a frame took {seen.slowest:.3f} s")
    if grown > MEMORY_GROWTH_LIMIT:
        raise SystemExit(f"memory-bounded: {grown} bytes more")
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    seen = run(arguments.count, arguments.seed)
    print(
        f"{seen.conversations} conversations, {seen.frames} frames: {seen.refused} refused, {seen.closed} closed, nobody got in; "
        f"slowest {seen.slowest * 1000:.1f} ms",
        file=sys.stdout,
    )


if __name__ == "__main__":
    main()
