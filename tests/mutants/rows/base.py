"""Planted bugs of base."""

ROWS = {
    "base/addresses.py": [
        ("if address.ipv4_mapped is not None:", "if False:", "a client on a dual-stack listener evades a denial of its address"),
    ],
    "base/repeats.py": [
        ("return self._left >= 0", "return True", "a request that repeats a name grows the response without bound"),
    ],
    "base/undo.py": [
        ("1][0] >= offset:", "1][0] > offset:", "a change at the truncated offset stays applied"),
    ],
}
