"""Command line: one module per command, in a package per subject."""
