"""Servers in processes of their own, and the client that knows when one is lost."""
