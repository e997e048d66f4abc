"""What clients tell of themselves (KIP-714)."""
