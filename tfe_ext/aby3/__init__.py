"""TF Encrypted's ABY3 protocol, on this project's randomness."""

import tf_encrypted  # noqa: F401 - first, as importing it imports from here what is registered
