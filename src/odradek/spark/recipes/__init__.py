"""Projects that copy topics into tables: text for `odradek pipeline init`, and lake formats for `odradek pipeline run`."""
