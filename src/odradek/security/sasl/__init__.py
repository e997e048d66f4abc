"""SASL, both sides of each mechanism: messages in, messages out; no IO, time and randomness are arguments."""
