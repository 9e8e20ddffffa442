"""Rounds and bytes of a traced graph."""
