"""Keystreams of servers: ChaCha20, and what is drawn from it."""

import tf_encrypted  # noqa: F401 - first, as importing it imports from here what is registered
