"""Planted bugs of config."""

ROWS = {
    "config/dynamic.py": [
        ("{**old.given, **new.given}", "new.given", "a removed listener setting stays in force"),
    ],
}
