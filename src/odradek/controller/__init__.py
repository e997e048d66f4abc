"""Controller: pure cores that decide (core/), and the shell that runs them on the metadata log (kraft/)."""
