"""Whole training runs: settings, hosts, checkpoints and reports."""
