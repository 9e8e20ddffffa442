"""Accuracy by round of federated averaging, chains and Laplace noise, beside what others publish."""
