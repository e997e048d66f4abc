"""Projects that bring topics into tables: what `odradek pipeline init` writes, and what `odradek pipeline run` needs to know of lakes."""
