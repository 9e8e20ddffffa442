"""Squared norms of gradients that are no product of two vectors."""
