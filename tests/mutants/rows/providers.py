"""Planted bugs of providers."""

ROWS = {
    "providers/readers.py": [
        ("os.path.realpath", "os.path.normpath", "a link leads out of the allowed directory"),
    ],
}
