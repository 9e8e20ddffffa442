"""A host over additive shares that all lie in one process: what the smallest host consists of."""
