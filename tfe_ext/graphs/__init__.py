"""Graphs on the servers, each traced once, and the records that they draw from."""
