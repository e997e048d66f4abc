"""Consumer groups: the coordinator assigns, members reconcile what they have with it (KIP-848)."""
