"""The command `pea fl`: experiments from the shell, on data sets by name."""
