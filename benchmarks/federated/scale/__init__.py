"""Secure aggregation by numbers of clients, beside Flower's SecAgg+ functions."""
