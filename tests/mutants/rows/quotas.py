"""Planted bugs of quotas."""

ROWS = {
    "quotas/clients.py": [
        ("len(self._by_owner) < MOST_OWNERS and ", "", "invented client ids fill the memory"),
        (" and self._characters <= MOST_CHARACTERS", "", "long client ids fill the memory"),
    ],
    "quotas/connections.py": [
        ("if not protected:", "if False:", "connections closed early use up the broker's rate"),
    ],
}
