"""Protocols as the paper states them, line by line, to be compared with."""
