"""Output of `odradek dump-log` for each kind of file."""
