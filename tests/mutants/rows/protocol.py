"""Planted bugs of protocol."""

ROWS = {
    "protocol/reader.py": [
        ("} > end - p: fail", "} > end: fail", "a few bytes announce a long array"),
        ("f\"if budget < 0: fail('{name}: more objects than allowed')\"", "'pass'", "a 100 MB request becomes gigabytes"),
        ("MAX_TAGS or 2 * count > end - offset", "1 << 30", "unknown tags cost time without bound"),
    ],
    "protocol/schema.py": [
        ("min(budget, FREE_OBJECTS + size // BYTES_PER_OBJECT)", "1 << 40", "a small request becomes many objects (CVE-2026-111108)"),
    ],
}
