"""Keys in groups; each row is name, type, default, importance, documentation, validator."""
