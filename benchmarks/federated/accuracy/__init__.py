"""Accuracy by round of federated averaging, chains and Laplace noise, beside published rounds."""
