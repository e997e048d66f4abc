"""Planted bugs of metrics."""

ROWS = {
    "metrics/registry.py": [
        ("Rates] = {}", "Rates] = before", "rates of deleted topics leak"),
    ],
    "metrics/telemetry.py": [
        ("self._most_clients:", "10**9:", "invented client ids fill the memory"),
    ],
}
