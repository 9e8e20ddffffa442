"""Differential privacy of updates: mechanisms, their noise and their ledgers."""
