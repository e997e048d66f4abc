"""Planted bugs of base."""

ROWS = {
    "base/addresses.py": [
        ("if address.ipv4_mapped is not None:", "if False:", "a client on a dual-stack listener evades a denial of its address"),
    ],
    "base/repeats.py": [
        ("return self._left >= 0", "return True", "a request that repeats a name grows the response without bound"),
    ],
    "base/timing.py": [
        ("if due_s > self._armed_s:", "if False:", "an alarm that was moved to a later time rings at the earlier one"),
        ("if node not in self._busy:", "if True:", "two requests to a node are under way at the same time"),
    ],
    "base/undo.py": [
        ("1][0] >= offset:", "1][0] > offset:", "a change at the truncated offset stays applied"),
    ],
}
