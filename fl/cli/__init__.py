"""The command `pea fl`: experiments from the shell. It alone of `fl` reads data sets by name."""
