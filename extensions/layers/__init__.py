"""Chains of layers on shares: forward, backward, losses and counting errors."""
