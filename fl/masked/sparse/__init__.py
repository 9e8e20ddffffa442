"""Masked aggregation on a sparse graph: a client has keys with some of the others alone."""
