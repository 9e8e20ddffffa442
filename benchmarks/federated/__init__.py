"""Experiments on federated learning, one command each."""
