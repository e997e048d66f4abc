"""Calls of clients between threads, event loops and processes."""
