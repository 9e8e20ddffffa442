"""The command `pea`."""
