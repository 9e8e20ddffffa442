"""Extractors of texts."""
