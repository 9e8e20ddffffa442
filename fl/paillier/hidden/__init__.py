"""Rounds in which the server has the model as ciphertexts alone; clients hold the key to it."""
