"""Planted bugs of security."""

ROWS = {
    "security/acl_index.py": [
        (
            "patterns = self._by_type[kind] = {}\n        pattern, key = (pattern_type, name), (principal, host_address(host))",
            "patterns = self._by_type[kind] = {}\n        pattern, key = (pattern_type, name), (principal, host)",
            "an ACL that denies ::1 has no effect",
        ),
        ("= self.denied = 0", "= 0", "a removed denial stays in force"),
    ],
    "security/kerberos_names.py": [
        ('/" in short or "', "", "a rule maps one service's principal to another"),
    ],
    "security/principal.py": [
        ("if not colon:", "if not colon or not kind or not name:", "a nameless renewer hides all tokens"),
    ],
    "security/sasl/bearer_tokens.py": [
        ("algorithm not in ALGORITHMS", "False", "the token chooses how it is verified"),
        ("now_s - rules.skew_s >= expiry_s", "False", "a token never expires"),
    ],
    "security/sasl/gssapi.py": [
        ("self._name_of(context.", "self._name_of(choice[4:].decode() or context.", "alice may act as bob"),
    ],
    "security/sasl/scram_server.py": [
        ('not hmac.compare_digest(match["nonce"].encode(), self._nonce.encode())', "False", "a recorded SCRAM exchange can be replayed"),
    ],
    "security/sasl/server.py": [
        ("if authorization_id and authorization_id != name:", "if False:", "PLAIN lets one user in as another (CVE-2017-12610)"),
    ],
    "security/standard.py": [
        ("self._remembered_bytes += size", "pass", "long names fill the memory of decisions"),
        (" and not decision.denied", "", "an allow overrides a deny"),
        ("if not self.ready:", "if False:", "a controller decides before it has read its ACLs"),
    ],
}
