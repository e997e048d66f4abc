"""Pure decisions of a client: metadata, API versions, batching, sequences, positions. No IO; time and randomness are arguments."""
