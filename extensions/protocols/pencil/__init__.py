"""Pencil: a model of one party learns from records of another one, and each keeps what it has."""
