"""A step of models with hidden layers: what privacy adds to it, in each host."""
