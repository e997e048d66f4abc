"""From Kerberos principals to names (the JVM's own answers are compared in test_jvm_names.py), and what cannot be a rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.security.kerberos_names import KerberosName, KerberosShortNamer, NoRuleApplies, parse_name

REALM = "REALM.COM"


def named(principal: str, *rules: str) -> str:
    return KerberosShortNamer(rules or ("DEFAULT",), REALM).name(principal)


def test_the_parts_of_a_name() -> None:
    assert parse_name("App.service-name/example.com@REALM.COM") == KerberosName("App.service-name", "example.com", "REALM.COM")
    assert parse_name("user@REALM.COM") == KerberosName("user", None, "REALM.COM")
    assert parse_name("simple") == KerberosName("simple", None, None)
    for text in ("a/b/c@R", "a@b@c", "@@"):
        with pytest.raises(ValueError, match="Malformed Kerberos name"):
            parse_name(text)


@pytest.mark.parametrize(
    ("principal", "rules", "name"),
    [
        ("user@REALM.COM", ("DEFAULT",), "user"),
        ("service/host@REALM.COM", ("DEFAULT",), "service"),
        ("simple", ("RULE:[1:x]",), "simple"),
        ("user@OTHER", ("DEFAULT", "RULE:[1:$1-$0]"), "user-OTHER"),
        ("a/b@REALM.COM", ("RULE:[1:$1]", "RULE:[2:$2.$1]"), "b.a"),
        ("user@REALM.COM", ("RULE:[1:$1@$0](.*@OTHER)s/@.*//", "RULE:[1:$1@$0](.*@REALM.COM)s/@.*//"), "user"),
        ("user-2@REALM.COM", ("RULE:[1:$1](.*2)s/2/two/"), "user-two"),
        ("aXbXc@REALM.COM", ("RULE:[1:$1]s/X/-/",), "a-bXc"),
        ("aXbXc@REALM.COM", ("RULE:[1:$1]s/X/-/g",), "a-b-c"),
        ("User@REALM.COM", ("RULE:[1:$1]/L",), "user"),
        ("User@REALM.COM", ("RULE:[1:$1]/U",), "USER"),
        ("User@REALM.COM", ("RULE:[1:$1]s/(.)(.*)/$2$1//L",), "seru"),
    ],
)
def test_the_first_rule_that_applies(principal: str, rules: tuple[str, ...] | str, name: str) -> None:
    assert named(principal, *((rules,) if isinstance(rules, str) else rules)) == name


@pytest.mark.parametrize(
    ("principal", "rules", "said"),
    [
        ("user@OTHER", ("DEFAULT",), "No rules apply to user@OTHER, rules DEFAULT"),
        ("user@REALM.COM", ("RULE:[2:$1]",), "No rules apply"),
        ("my-admin@REALM.COM", ("RULE:[1:$1](admin)",), "No rules apply"),
        ("user@REALM.COM", ("RULE:[1:$1@$0]", "DEFAULT"), "Non-simple name user@REALM.COM"),
        ("user@REALM.COM", ("RULE:[1:$1]s/s/x\\//",), "Invalid rule"),
    ],
)
def test_whom_no_rule_names(principal: str, rules: tuple[str, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        named(principal, *rules)


@pytest.mark.parametrize(
    "rule",
    ["default", "DEFAULT/L", "RULE:[n:$1]", "RULE:[:$1]", "RULE:[1:$1", "RULE:[1:$2]", "RULE:[1:$]", "RULE:[1:$1](()", "RULE:[1:$1]s/a/$1/",
     "RULE:[1:$1]s/(?=a)/b/", "RULE:[1:$1]s/a/$/", "RULE:[1:$1]/l", ""],
)  # fmt: skip
def test_what_cannot_be_a_rule_is_said_at_the_start(rule: str) -> None:
    with pytest.raises(ValueError, match="Invalid rule"):
        KerberosShortNamer([rule], REALM)
    with pytest.raises(ValueError, match="no rules"):
        KerberosShortNamer([], REALM)


_PART = st.text(st.sampled_from("abX-.@/é日"), max_size=6)


@given(
    st.text(st.sampled_from("ab/@.$X"), max_size=12), st.sampled_from(["DEFAULT", "RULE:[1:$1]", "RULE:[2:$1-$2]s/a/@/g", "RULE:[1:$0]"])
)
def test_a_name_is_simple_or_there_is_none(principal: str, rule: str) -> None:
    try:
        name = named(principal, rule)
    except ValueError:
        return
    assert name == principal or not set(name) & set("/@")


@given(_PART.filter(lambda text: not set(text) & set("/@")), st.none() | _PART.filter(lambda text: not set(text) & set("/@")))
def test_names_are_read_as_they_are_written(service: str, host: str | None) -> None:
    name = KerberosName(service, host, REALM)
    assert parse_name(str(name)) == name


def test_only_the_realm_that_is_the_default_is_taken_off() -> None:
    with pytest.raises(NoRuleApplies):
        KerberosShortNamer(["DEFAULT"], "").name("user@REALM.COM")


PIECES = st.lists(st.sampled_from(("$0", "$1", "$2", "/", "@", "-", "x")), min_size=1, max_size=4)


@given(PIECES, st.sampled_from(("", "L", "U")))
def test_whatever_a_rule_makes_of_a_name_is_simple_or_refused(pieces: list[str], case: str) -> None:
    """Neither a slash nor an at sign is left, wherever the rule put it: `a/b` and `a@R` would be principals of others."""
    made = "".join({"$0": REALM, "$1": "User", "$2": "host"}.get(each, each) for each in pieces)
    rule = f"RULE:[2:{''.join(pieces)}]" + (f"/{case}" if case else "")
    if set(made) & set("/@"):
        with pytest.raises(NoRuleApplies, match="Non-simple name"):
            named(f"User/host@{REALM}", rule)
    else:
        assert named(f"User/host@{REALM}", rule) == {"": made, "L": made.lower(), "U": made.upper()}[case]
