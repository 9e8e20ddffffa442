"""Differential privacy: what happened, what it costs, and what is drawn."""
