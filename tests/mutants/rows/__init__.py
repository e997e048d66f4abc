"""Planted bugs by package: file below src/odradek -> rows of (text before, text after, why it matters)."""
