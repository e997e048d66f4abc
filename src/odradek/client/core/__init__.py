"""What a client decides, without any IO: metadata, versions, batching, sequences, positions. Time and randomness are arguments."""
