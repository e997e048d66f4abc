"""SASL mechanisms, client side and server side: messages in, messages out. No IO; time and randomness are arguments."""
