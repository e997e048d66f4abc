"""Planted bugs of assignment."""

ROWS = {
    "assignment/ranges.py": [
        ("+ (index < extra", "+ (index <= extra", "a partition is assigned to two members"),
    ],
}
