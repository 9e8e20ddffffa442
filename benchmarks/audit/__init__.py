"""Attacks on released models: lower bounds of epsilon beside the one that is claimed."""
