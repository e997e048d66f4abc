"""What `odradek dump-log` prints of each kind of file."""
