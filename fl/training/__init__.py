"""Federated averaging: clients, models and records, over many rounds."""
