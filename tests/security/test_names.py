"""Names in certificates and principals of them. That all of it is Java's, character for character, shows test_jvm.py."""

from __future__ import annotations

import pytest

from odradek.security.distinguished_name import rfc2253
from odradek.security.ssl_principal import NoRuleApplies, SslPrincipalMapper

CN, OU, O, EMAIL = "0603550403", "060355040b", "060355040a", "06092a864886f70d010901"  # noqa: E741


def tlv(tag: int, content: bytes) -> bytes:
    return bytes([tag, len(content)]) + content


def name(*parts: list[tuple[str, int, str]]) -> bytes:
    """A Name of parts, each of attributes: type, tag, text."""
    sets = []
    for part in parts:
        sets.append(tlv(0x31, b"".join(tlv(0x30, bytes.fromhex(oid) + tlv(tag, text.encode())) for oid, tag, text in part)))
    return tlv(0x30, b"".join(sets))


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], ""),
        ([[(O, 0x0C, "Example")], [(OU, 0x13, "billing")], [(CN, 0x0C, "alice")]], "CN=alice,OU=billing,O=Example"),
        ([[(CN, 0x0C, "a"), (OU, 0x0C, "b")]], "CN=a+OU=b"),
        ([[(CN, 0x0C, 'a,O=b+"c"<d>;#\\')]], 'CN=a\\,O\\=b\\+\\"c\\"\\<d\\>\\;\\#\\\\'),
        ([[(CN, 0x0C, "  a b ")]], "CN=\\ \\ a b\\ "),
        ([[(CN, 0x0C, "a\0b")]], "CN=a\\00b"),
        ([[(CN, 0x0C, "Jürgen 日本")]], "CN=Jürgen 日本"),
        ([[(EMAIL, 0x16, "a@b")]], "1.2.840.113549.1.9.1=#1603614062"),
        ([[(CN, 0x02, "\x07")]], "CN=#020107"),
    ],
)
def test_names_are_written_as_java_writes_them(parts: list[list[tuple[str, int, str]]], text: str) -> None:
    assert rfc2253(name(*parts)) == text


@pytest.mark.parametrize("broken", [b"", b"\x30", b"\x30\x03\x31\x01\x30", b"\x30\x04\x31\x02\x30\x00", tlv(0x30, b"") * 2])
def test_what_is_no_name_is_an_error(broken: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (several reasons)
        rfc2253(broken)


RULES = "RULE:^CN=(.*?),OU=Service.*$/$1/, RULE:^CN=([^,]*),O=(.*)$/$1@$2/L ,RULE:CN=(admin)/$1-$2/U"


@pytest.mark.parametrize(
    ("certificate", "principal"),
    [
        ("CN=duke,OU=ServiceUsers,O=x", "duke"),
        ("CN=Duke,O=Sun", "duke@sun"),
        ("CN=Straße,O=ÄΣ", "straße@äς"),  # as Java's toLowerCase
        ("CN=admin", "ADMIN-$2"),
    ],
)
def test_the_first_rule_that_fits_names_the_principal(certificate: str, principal: str) -> None:
    assert SslPrincipalMapper(RULES).name(certificate) == principal


@pytest.mark.parametrize(
    ("replacement", "principal"),
    [
        ("$1-$2", "x-"),  # a group that has no part in the match is empty
        ("$2-$1", "-x"),
        ("$3", ""),
        ("$12", "x2"),  # a number that no group has ends before it
        ("\\$1", "$1"),
        ("$0", "CN=x"),
    ],
)
def test_replacements_are_those_of_java(replacement: str, principal: str) -> None:
    assert SslPrincipalMapper(f"RULE:^CN=(x)|CN=(y)(z*)$/{replacement}/").name("CN=x") == principal


def test_rules_fit_whole_names_or_not_at_all() -> None:
    for stranger in ("OU=x,CN=admin", "CN=admin,C=US", ""):
        with pytest.raises(NoRuleApplies, match="No rules apply to"):
            SslPrincipalMapper(RULES).name(stranger)
    assert SslPrincipalMapper(RULES + ",DEFAULT").name("OU=x,CN=admin") == "OU=x,CN=admin"
    assert SslPrincipalMapper("DEFAULT").name("CN=a") == "CN=a"
    assert "DEFAULT" in repr(SslPrincipalMapper("DEFAULT"))


BROKEN = ["", " ", "x", "RULE:a", "RULE:a/b", "RULE:a/b/X", "RULE:(/x/", "RULE:a(?=b)/x/", "RULE:a/$/", "RULE:a/${x}/"]


@pytest.mark.parametrize("rules", BROKEN)
def test_rules_that_cannot_be(rules: str) -> None:
    with pytest.raises(ValueError, match="rule"):
        SslPrincipalMapper(rules)


def test_a_hostile_name_takes_no_time() -> None:
    """A pattern like this takes Java's expressions longer than the universe has been there."""
    with pytest.raises(NoRuleApplies):
        SslPrincipalMapper("RULE:(a+)+b/x/").name("a" * 10_000)
