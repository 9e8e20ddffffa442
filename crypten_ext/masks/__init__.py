"""Masks between parties of CrypTen, from keys that they agree on."""
