"""Runs of `fl` for its tests."""
