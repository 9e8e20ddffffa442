"""Words that the parties of a chain have in common."""

LEAD = "lead."
"""Begins the kind of every message to or from a client as the leader of a round."""
