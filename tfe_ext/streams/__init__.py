"""Keystreams of servers: ChaCha20, and what is drawn from it."""
