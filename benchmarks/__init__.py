"""Measurements behind the tables and figures; run as ``python -m benchmarks`` from the checkout."""
