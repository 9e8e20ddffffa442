"""Additive models from noisy sums: a curve for each column of a table."""
