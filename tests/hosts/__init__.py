"""The hosts' own tests, from their source distributions, on our classes: `make host-tests`."""
