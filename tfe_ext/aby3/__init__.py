"""TF Encrypted's ABY3 protocol, on this project's randomness."""
